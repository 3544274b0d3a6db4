import { z } from 'zod';
import { groupProblem } from '../../domain/rate-limits';
import { namedVariable } from '../../runtime/config';
import { isNetwork } from '../../runtime/networks';
import type { PackRateLimit } from './policies';
import { notSet } from './variables';

const limit = z.int().min(1).nullable().optional();
const scope = z.strictObject({ rpm: limit, tpm: limit, max_parallel_requests: limit });
const seconds = z.int().min(1).max(86_400).default(60);
const strategy = z.enum(['fixed_window', 'sliding_window']).default('fixed_window');
const header = z.string().regex(/^[\w!#$%&'*+.^`|~-]{1,200}$/, 'is no name of a header');
const name = z.string().min(1).max(200);
const networks = z
  .array(z.string().refine(isNetwork, 'is no network as CIDR writes it: 10.0.0.0/8, 2001:db8::/32'))
  .max(1_000);
// Where most proxies stand: loopback, and the ranges that are routed inside a network only.
const nearby = [
  '127.0.0.0/8',
  '::1/128',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  'fc00::/7',
];

const ip = z
  .strictObject({
    enabled: z.boolean().default(false),
    rpm: z.int().min(1).optional(),
    /** So many above `rpm` at once; what is used of them comes off the minutes that follow. */
    burst: z.int().min(0).default(0),
    /** Who is not limited. */
    whitelist: networks.default([]),
    /** Where a proxy says whom it speaks for. */
    header: header.default('X-Forwarded-For'),
    /** The proxies that are believed; from anybody else the header says nothing. [] is nobody. */
    trusted_proxies: networks.default(nearby),
  })
  .refine(({ enabled, rpm }) => !enabled || rpm !== undefined, {
    path: ['rpm'],
    error: 'is needed where enabled is true',
  });

const globalRateLimit = z
  .strictObject({
    strategy,
    window_seconds: seconds,
    reject_action: z.enum(['return_429', 'queue']).default('return_429'),
    /** How long a request may wait; 5000 if absent. */
    queue_timeout_ms: z.int().min(1).max(600_000).optional(),
  })
  .refine((given) => given.reject_action === 'queue' || given.queue_timeout_ms === undefined, {
    path: ['queue_timeout_ms'],
    error: 'has no meaning where reject_action is return_429',
  });

const distributed = z
  .strictObject({
    enabled: z.boolean().default(false),
    /** The variable that holds the URL of a Redis; no credentials stand in a configuration. */
    store_url_env: name.optional(),
    key_prefix: z.string().min(1).max(200).default('svc:rl:'),
    window_ms: z.int().min(1_000).max(86_400_000).default(60_000),
    sync_interval_ms: z.int().min(10).max(60_000).default(100),
    local_fallback: z.boolean().default(true),
  })
  .refine(({ enabled, store_url_env }) => !enabled || store_url_env !== undefined, {
    path: ['store_url_env'],
    error: 'is needed where enabled is true',
  });

/** The rows of rate limits in a configuration (specification: Limits). */
export const limitSections = {
  rate_limits: z
    .strictObject({
      per_key: scope.prefault({}),
      per_user: scope.prefault({}),
      per_team: scope.prefault({}),
      global: scope.prefault({}),
      ip: ip.prefault({}),
    })
    .prefault({}),
  user_rate_limit: z
    .strictObject({
      header: header.default('X-User-Id'),
      strategy,
      window_seconds: seconds,
      fallback_to_ip: z.boolean().default(false),
    })
    .prefault({}),
  team_rate_limit: z.strictObject({ header: header.default('X-Team-Id') }).prefault({}),
  global_rate_limit: globalRateLimit.prefault({}),
  token_rate_limit: z
    .strictObject({
      count_prompt_tokens: z.boolean().default(true),
      count_completion_tokens: z.boolean().default(true),
      pre_request_estimate: z.boolean().default(false),
      /**
       * The encoding of the estimate; if absent, o200k_base for newer model families and
       * cl100k_base for the others.
       */
      tokenizer: z.enum(['cl100k_base', 'o200k_base']).optional(),
    })
    .prefault({}),
  distributed_rate_limit: distributed.prefault({}),
  consumer_groups: z
    .array(
      z.strictObject({
        name,
        description: z.string().optional(),
        rate_limits: scope.optional(),
        keys: z.array(name).max(100_000).default([]),
        inherits: name.optional(),
      }),
    )
    .default([]),
  rate_limit_profiles: z.array(z.strictObject({ name, rpm: limit, tpm: limit })).default([]),
};

const sections = z.strictObject(limitSections);
export type LimitSettings = z.infer<typeof sections>;

/**
 * The problem of sections that do not fit each other, with the path of the key. Looks at no
 * variable.
 */
export function limitProblem(settings: LimitSettings & PackLimited): string | undefined {
  return (
    groupProblem(settings.consumer_groups, settings.rate_limit_profiles) ??
    storeProblem(settings) ??
    burstProblem(settings)
  );
}

/** The URL of the shared store; present, because settings without it do not load. */
export function storeUrl({ store_url_env = '' }: LimitSettings['distributed_rate_limit']): string {
  return namedVariable(store_url_env) ?? '';
}

function storeProblem({
  distributed_rate_limit: shared,
  user_rate_limit,
  global_rate_limit,
}: LimitSettings): string | undefined {
  if (!shared.enabled) return undefined;
  for (const [section, { window_seconds }] of Object.entries({
    user_rate_limit,
    global_rate_limit,
  })) {
    if (window_seconds * 1_000 === shared.window_ms) continue;
    return `distributed_rate_limit.window_ms: ${shared.window_ms} is not ${section}.window_seconds, which is ${window_seconds} s.`;
  }
  if (shared.store_url_env !== undefined) return undefined;
  return `${STORE_PATH}: is needed where enabled is true.`;
}

const STORE_PATH = 'distributed_rate_limit.store_url_env';

/** What is wrong with the variable that names the shared store, on this machine. */
export function storeValueProblem({
  distributed_rate_limit: shared,
}: Pick<LimitSettings, 'distributed_rate_limit'>): string | undefined {
  if (!shared.enabled || shared.store_url_env === undefined) return undefined;
  const url = storeUrl(shared);
  if (url === '') return notSet(STORE_PATH, shared.store_url_env);
  // Its value may hold a password, so it is not repeated.
  if (!/^rediss?:\/\/\S+$/.test(url) || !URL.canParse(url)) {
    return `${STORE_PATH}: the environment variable ${shared.store_url_env} holds no URL of a Redis (redis://host:6379).`;
  }
  return undefined;
}

/** Where a policy's limits stand in a configuration. */
interface PackLimited {
  policy: { 'agent-firewall'?: { rate_limit?: PackRateLimit | undefined } | undefined };
}

/** A burst without a minute that it makes a token bucket of. */
function burstProblem({ policy }: PackLimited): string | undefined {
  const given = policy['agent-firewall']?.rate_limit;
  if (given?.burst_size === undefined) return undefined;
  const scopes = [given.per_user, given.per_team, given.global];
  if (scopes.some((windows) => windows?.requests_per_minute !== undefined)) return undefined;
  return 'policy.agent-firewall.rate_limit.burst_size: has no meaning without requests_per_minute.';
}
