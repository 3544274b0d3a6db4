import { RE2JS } from 're2js';
import { z } from 'zod';
import { isSeen } from '../wire/unseen';

const TEXT_MAX = 500;
const PATTERN_MAX = 2_000;
const MATCH_MAX = 4_096;
const SHOWN_MAX = 64;

/** The kinds that a chain may run. */
const kinds = ['rbac', 'agent-firewall', 'dlp-filter'] as const;
export type Kind = (typeof kinds)[number];

/** The routes that a chain runs over unless `policies.routes` says otherwise. */
export const default_routes = ['chat', 'unified', 'responses'] as const;
const other_routes = [
  'messages',
  'completions',
  'embeddings',
  'audio_speech',
  'moderations',
] as const;
const routes = [...default_routes, ...other_routes] as const;
export type PolicyRoute = (typeof routes)[number];

const text = z.string().min(1).max(TEXT_MAX);
const regex = z.string().min(1).max(PATTERN_MAX).refine(compiles, {
  error: 'is no regular expression of RE2: it knows neither back references nor look-around',
});

const ownPattern = z.strictObject({
  /** Names the rule in events and refusals. */
  name: z.string().regex(/^[\w.-]{1,64}$/, 'takes letters, digits, ".", "_" and "-"'),
  pattern: regex,
  /** The longest text it is to find, in characters: a stream is held back by as much. */
  max_length: z.int().min(1).max(MATCH_MAX).default(128),
});

/** The name of a built-in pattern, or one of the operator's own. */
const detected = z.unknown().transform((given, check) => {
  const builtin = builtins.find((name) => name === given);
  if (builtin !== undefined) return builtin;
  if (typeof given !== 'object' || given === null || !('name' in given || 'pattern' in given)) {
    check.issues.push({ code: 'custom', message: noPattern(given), input: given });
    return z.NEVER;
  }
  const own = ownPattern.safeParse(given);
  if (own.success) return own.data;
  for (const issue of own.error.issues)
    check.issues.push({ ...issue, input: given } as z.core.$ZodRawIssue);
  return z.NEVER;
});

const dlpFilter = z.strictObject({
  action: z.enum(['block', 'redact']).default('block'),
  stages: z
    .array(z.enum(['input', 'output']))
    .min(1)
    .default(['input', 'output']),
  /** Found in any case and spelling of Unicode, inside words too. */
  blocked_terms: z
    .array(text.refine(isSeen, { error: 'holds nothing that is seen' }))
    .max(10_000)
    .default([]),
  detect_patterns: z.array(detected).max(200).default([]),
});

/** Names of tools; `*` stands for any characters. */
const tools = z.array(z.string().min(1).max(200)).max(1_000);

const windows = z.strictObject({
  requests_per_minute: z.int().min(1).optional(),
  requests_per_hour: z.int().min(1).optional(),
  requests_per_day: z.int().min(1).optional(),
});

const rateLimit = z.strictObject({
  per_user: windows.optional(),
  per_team: windows.optional(),
  global: windows.optional(),
  on_exceed: z.enum(['block', 'queue']).default('block'),
  /** The time that a refusal asks to wait; if absent, the time until a repeat passes. */
  retry_after_seconds: z.int().min(1).max(86_400).optional(),
  /** Makes the minute a token bucket: so many at once, then one after the other. */
  burst_size: z.int().min(1).optional(),
});

const agentFirewall = z.strictObject({
  tools: z.strictObject({ allow: tools.optional(), deny: tools.default([]) }).prefault({}),
  rate_limit: rateLimit.optional(),
  max_actions_per_session: z.int().min(1).optional(),
  max_cost_per_session_usd: z.number().min(0).max(9_000_000_000).optional(),
});

const rbac = z.strictObject({
  required_headers: z
    .array(
      z
        .strictObject({
          name: z.string().regex(/^[\w!#$%&'*+.^`|~-]{1,200}$/, 'is no name of a header'),
          values: z.array(text).min(1).optional(),
          /** Matches the whole value. */
          pattern: regex.optional(),
        })
        .refine(({ values, pattern }) => values === undefined || pattern === undefined, {
          error: 'takes either values or a pattern',
        }),
    )
    .min(1),
});

export type DlpSettings = z.infer<typeof dlpFilter>;
export type FirewallSettings = z.infer<typeof agentFirewall>;
export type PackRateLimit = z.infer<typeof rateLimit>;
export type RbacSettings = z.infer<typeof rbac>;

/** `policies`: which kinds run, in this order, and over which routes. */
export const policiesSettings = z.strictObject({
  chain: z
    .array(z.enum(kinds))
    .refine((chain) => new Set(chain).size === chain.length, { error: 'names a kind twice' })
    .default([]),
  /** Sockets go with the routes whose frames they carry. */
  routes: z
    .array(z.enum(routes))
    .refine((named) => new Set(named).size === named.length, { error: 'names a route twice' })
    .default([...default_routes]),
  /** What becomes of a call over any other route if there is a chain. */
  uncovered: z.enum(['pass', 'refuse']).default('pass'),
});

/** `policy`: what each kind does. */
export const policySettings = z.strictObject({
  rbac: rbac.optional(),
  'agent-firewall': agentFirewall.optional(),
  'dlp-filter': dlpFilter.optional(),
  /** Whether prompt caching may be asked for. */
  cache_control: z.enum(['allow', 'strip']).default('allow'),
});

export const packName = z.string().min(1).max(200);

/** The problem of a chain and sections that do not fit each other. */
export function policyProblem(settings: {
  policies: z.infer<typeof policiesSettings>;
  policy: z.infer<typeof policySettings>;
}): string | undefined {
  const { chain } = settings.policies;
  const at = chain.findIndex((kind) => settings.policy[kind] === undefined);
  if (at >= 0) return `policies.chain[${at}]: there is no section policy.${chain[at]}.`;
  const unused = kinds.find((kind) => settings.policy[kind] && !chain.includes(kind));
  return unused && `policy.${unused}: policies.chain does not name it, so it would never run.`;
}

function noPattern(given: unknown): string {
  const names = builtins.join(', ');
  if (typeof given === 'string') {
    const shown = JSON.stringify(given.slice(0, SHOWN_MAX));
    return `${shown} is none of the built-in patterns ${names}; one of your own is an object with name and pattern`;
  }
  const kind = z.core.util.parsedType(given);
  return `${kind} is given; name one of the built-in patterns ${names}, or give an object with name and pattern`;
}

function compiles(pattern: string): boolean {
  try {
    RE2JS.compile(pattern);
    return true;
  } catch {
    return false;
  }
}

const builtins = [
  'email',
  'credit_card',
  'us_ssn',
  'iban',
  'api_key',
  'jwt',
  'private_key',
] as const;
export type Builtin = (typeof builtins)[number];
