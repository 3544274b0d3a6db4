import { randomUUID } from 'node:crypto';
import pino from 'pino';
import type { Check, Rule } from '../../../gateway/limits/buckets';
import { type Counters, openCounters } from '../../../gateway/limits/counters';
import type { StoreSettings } from '../../../gateway/limits/store-client';
import { fixedWindow } from '../../../gateway/limits/windows';
import { waitForStore } from '../../support/limits';
import { type BreakableRedis, openRedis } from '../../support/redis';
import { until } from '../../support/until';

// Gateways' counters over one Redis. A test file that imports this also gets its hooks.

// No test crosses the edge of a window of a hundred days.
export const EDGELESS_MS = 8_640_000_000;

export let redis: BreakableRedis;
let opened: Counters[] = [];
export let lines: string[] = [];
export let prefix: string;

beforeAll(async () => {
  redis = await openRedis();
});
beforeEach(() => {
  lines = [];
  prefix = `${randomUUID()}:`;
});
afterEach(async () => {
  for (const limits of opened) await limits.close();
  opened = [];
});
afterAll(() => redis.close());

// A busy machine is no outage: what a store that is away costs has tests of its own.
const patience_ms = 10_000;

/** Freezes the store, which is waited for no longer than the product waits. */
export function freeze(limits: Counters): void {
  redis.freeze();
  waitForStore(limits, 50);
}

/** Lets it go on; it may answer late again. */
export function thaw(limits: Counters): void {
  redis.thaw();
  waitForStore(limits, patience_ms);
}

/** The counters of one gateway, over the shared store. */
export async function open(more: Partial<StoreSettings> = {}): Promise<Counters> {
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const limits = openCounters(log, { patience_ms });
  opened.push(limits);
  const store = { url: redis.url, key_prefix: prefix, sync_interval_ms: 100, local_fallback: true };
  limits.use({ store: { ...store, ...more } });
  if (more.url === undefined) await until(() => limits.storeState() === 'up');
  return limits;
}

export function rule(limit: number, more: Partial<Rule> = {}): Rule {
  return {
    ...{
      scope: 'global',
      limit_type: 'rpm',
      limit,
      window: fixedWindow(EDGELESS_MS),
      name: 'test:',
    },
    ...{ queue_ms: 0, retry_after: undefined },
    ...more,
  };
}

export function ask(limits: Counters, ...rules: Rule[]): Promise<Check | undefined> {
  return Promise.resolve(limits.admit(rules.map((one) => limits.check(one, '', 1, 1))));
}

export async function passes(
  limits: readonly Counters[],
  times: number,
  ...rules: Rule[]
): Promise<number> {
  const asked = Array.from({ length: times }, (_, n) =>
    ask(limits[n % limits.length] as Counters, ...rules),
  );
  return (await Promise.all(asked)).filter((refused) => refused === undefined).length;
}

export const four = (more?: Partial<StoreSettings>) =>
  Promise.all([open(more), open(more), open(more), open(more)] as const);

/**
 * Four gateways whose reports wait a hundred seconds for requests under way in place of one: a busy
 * machine may take longer than that for a burst, and then fewer requests pass.
 */
export const fourPatient = () => four({ sync_interval_ms: 10_000 });

export async function counted(key: string): Promise<number> {
  const fields = await redis.client.hvals(key);
  return fields.reduce((sum, text) => sum + Number(text.split(':')[1] ?? 0), 0);
}
