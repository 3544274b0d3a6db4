import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { z } from 'zod';
import type { Estimated, Limited } from '../gateway/call/call';
import { limitSections } from '../gateway/config/limits';
import type { Rule } from '../gateway/limits/buckets';
import { type Limits, openLimits } from '../gateway/limits/engine';
import { createLimitRules } from '../gateway/limits/rules';
import { fixedWindow } from '../gateway/limits/windows';
import { limit, limitByAddress } from '../gateway/stages/limit';
import { createLog } from '../runtime/log';
import { findOrStartRedis } from '../sandbox/servers/redis';
import { median } from './load';
import type { Row } from './row';

const REQUESTS = 50_000;
const ROUNDS = 7;
const SHARED_REQUESTS = 2_000;
const SHARED_LIMIT = 10_000;

// The address, and requests, tokens and calls under way of five tiers.
const CHECKS = 16;
const many = 1_000_000_000;
const all = { rpm: many, tpm: many, max_parallel_requests: many };

/** The cost of limits by themselves: time in one gateway, round trips if they are shared. */
export async function limitRows(): Promise<Row[]> {
  return [await aloneRow(), await sharedRow()];
}

/** All six tiers with all three limits, from the first stage to the work at a call's end. */
async function aloneRow(): Promise<Row> {
  const limits = openLimits(createLog('bench', 'silent'));
  const settings = z.strictObject(limitSections).parse({
    rate_limits: {
      per_key: all,
      per_user: all,
      per_team: all,
      global: all,
      ip: { enabled: true, rpm: many },
    },
    consumer_groups: [{ name: 'group', rate_limits: all, keys: ['key'] }],
  });
  const { measure, checks } = caller(limits, createLimitRules(settings));
  const times: number[] = [];
  const hashes: number[] = [];
  const body = Buffer.alloc(1_024, 'x');
  for (let round = 0; round < ROUNDS; round += 1) {
    times.push(nanosEach(measure));
    hashes.push(nanosEach(() => hash('sha256', body, 'hex')));
  }
  await limits.close();
  const ns = median(times);
  const ratio = ns / median(hashes);
  return {
    measure: 'limits alone (ns a check), six tiers with requests, tokens and calls under way',
    figure: `${(ns / checks()).toFixed(0)} ns a check, ${(ns / 1_000).toFixed(1)} µs a request of ${checks()}; SHA-256 of 1 kB ${(median(hashes) / 1_000).toFixed(1)} µs`,
    ratio,
    bar: 'at most 15 x that hash',
    isMet: ratio <= 15,
  };
}

function nanosEach(step: () => void): number {
  const began = performance.now();
  for (let n = 0; n < REQUESTS; n += 1) step();
  return ((performance.now() - began) * 1e6) / REQUESTS;
}

/** A call with only the members that the limits look at. */
function caller(limits: Limits, rules: ReturnType<typeof createLimitRules>) {
  let seen = 0;
  const ends: (() => void)[] = [];
  const usage = { prompt_tokens: 120, completion_tokens: 80 };
  const snapshot = { limits: rules };
  const given = {
    ctx: { req: { headers: {}, socket: { remoteAddress: '203.0.113.9' } }, set: () => undefined },
    gateway: { limits, snapshot, events: { emit: () => undefined }, is_draining: false },
    snapshot,
    identity: { org_id: 'org', key_id: 'key', user_id: 'user', team_id: 'team' },
    request: { is_stream: false },
    estimated_prompt_tokens: 100,
    outcome: { outcome: 'completed', usage },
    onEnd: (step: () => void) => void ends.push(step),
  };
  const measure = (): void => {
    const call = { ...given } as unknown as Estimated;
    limitByAddress(call);
    const limited = limit(call) as Limited;
    seen = limited.held_limits === undefined ? 0 : CHECKS;
    for (const end of ends) end();
    ends.length = 0;
  };
  return { measure, checks: () => seen };
}

/** Four gateways that share a limit: far from it, and near it. */
async function sharedRow(): Promise<Row> {
  const redis = await findOrStartRedis();
  const client = new Redis(redis.url);
  const key_prefix = `svc:bench:${Date.now()}:`;
  const gateways = await Promise.all([1, 2, 3, 4].map(() => open(redis.url, key_prefix)));
  const far = await roundTrips(client, gateways, 'far:', SHARED_LIMIT);
  const near = await roundTrips(client, gateways, 'near:', 99);
  for (const limits of gateways) await limits.close();
  client.disconnect();
  await redis.stop();
  return {
    measure: 'shared limits (Redis round trips a request), four gateways',
    figure: `${far.toFixed(2)} far from the limit, ${near.toFixed(2)} where each request is counted exactly`,
    ratio: near,
    bar: 'at most 1.1',
    isMet: near <= 1.1 && far <= 0.5,
  };
}

async function open(url: string, key_prefix: string): Promise<Limits> {
  const limits = openLimits(createLog('bench', 'silent'));
  limits.use({ store: { url, key_prefix, sync_interval_ms: 100, local_fallback: true } });
  while (limits.storeState() !== 'up') await sleep(5);
  return limits;
}

async function roundTrips(
  client: Redis,
  gateways: readonly Limits[],
  name: string,
  at_most: number,
): Promise<number> {
  const window = fixedWindow(86_400_000);
  const rule: Rule = {
    scope: 'global',
    limit_type: 'rpm',
    limit: at_most,
    window,
    name,
    queue_ms: 0,
    retry_after: undefined,
  };
  const before = await scripts(client);
  for (let n = 0; n < SHARED_REQUESTS; n += gateways.length) {
    await Promise.all(
      gateways.map((limits) => limits.counters.admit([limits.counters.check(rule, '', 1, 1)])),
    );
  }
  return ((await scripts(client)) - before) / SHARED_REQUESTS;
}

async function scripts(client: Redis): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info('commandstats'))?.[1] ?? 0);
}
