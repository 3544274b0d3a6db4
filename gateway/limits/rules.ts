import type { Identity, KeyLimits } from '../../domain/people/identity';
import {
  type LimitType,
  limitsOfGroup,
  type Scope,
  type ScopeLimits,
} from '../../domain/rate-limits';
import { createNetworks, type Networks } from '../../runtime/networks';
import { type LimitSettings, storeUrl } from '../config/limits';
import type { FirewallSettings } from '../config/policies';
import type { Rule } from './buckets';
import { packRules } from './pack-rules';
import type { StoreSettings } from './store-client';
import { carryingWindow, fixedWindow, leases, slidingWindow, type Window } from './windows';

/** Whom the limits of a request count. */
interface Caller {
  identity: Identity;
  address: string;
}

/** One scope: the rules that it has for a caller, and the name under which they count. */
interface Tier {
  rulesOf(caller: Caller): readonly Rule[];
  idOf(caller: Caller): string | null;
}

/** The limits of one configuration. */
export interface LimitRules {
  /** Nothing is limited, but by keys' own limits. */
  is_empty: boolean;
  address: { header: string; trusted: Networks };
  ip: { rule: Rule; whitelist: Networks } | undefined;
  /** In the order in which a request passes them; the address comes before. */
  tiers: readonly Tier[];
  tokens: LimitSettings['token_rate_limit'];
  /** The global limit refuses without a look at the other tiers, once it has refused. */
  has_circuit: boolean;
  store: StoreSettings | undefined;
}

const MINUTE_MS = 60_000;
const QUEUE_TIMEOUT_MS = 5_000;

type Given = LimitSettings & { policy?: { 'agent-firewall'?: FirewallSettings | undefined } };

export function createLimitRules(settings: Given): LimitRules {
  const { rate_limits, distributed_rate_limit: shared } = settings;
  const ip = ipOf(rate_limits.ip);
  const others = tiersOf(settings);
  const tiers = [keyTier(rate_limits.per_key), ...others];
  return {
    is_empty: ip === undefined && others.length === 0 && hasNone(rate_limits.per_key),
    address: {
      header: rate_limits.ip.header.toLowerCase(),
      trusted: createNetworks(rate_limits.ip.trusted_proxies),
    },
    ip,
    tiers,
    tokens: settings.token_rate_limit,
    has_circuit: settings.global_rate_limit.reject_action === 'return_429',
    store: shared.enabled
      ? {
          url: storeUrl(shared),
          key_prefix: shared.key_prefix,
          sync_interval_ms: shared.sync_interval_ms,
          local_fallback: shared.local_fallback,
        }
      : undefined,
  };
}

function ipOf(ip: LimitSettings['rate_limits']['ip']): LimitRules['ip'] {
  const { enabled, rpm, burst, whitelist } = ip;
  if (!enabled || rpm === undefined) return undefined;
  const window = burst > 0 ? carryingWindow(MINUTE_MS, rpm) : fixedWindow(MINUTE_MS);
  const rule = ruleOf({ scope: 'ip', limit_type: 'rpm', limit: rpm + burst, window });
  return { rule, whitelist: createNetworks(whitelist) };
}

function tiersOf(settings: Given): Tier[] {
  const { rate_limits, user_rate_limit, global_rate_limit } = settings;
  const { reject_action, queue_timeout_ms = QUEUE_TIMEOUT_MS } = global_rate_limit;
  const minute = fixedWindow(MINUTE_MS);
  const queue_ms = reject_action === 'queue' ? queue_timeout_ms : 0;
  const userOf = ({ identity, address }: Caller): string | null => {
    if (identity.user_id !== null) return identity.user_id;
    return user_rate_limit.fallback_to_ip && address !== '' ? `address ${address}` : null;
  };
  const teamOf = ({ identity }: Caller): string | null => identity.team_id;
  const everybody = (): string => '';
  const pack = packRules(settings.policy?.['agent-firewall']?.rate_limit, queue_timeout_ms);
  const tiers = [
    groupTier(settings),
    tier(rulesOf('per_user', rate_limits.per_user, windowOf(user_rate_limit)), userOf),
    tier(rulesOf('per_team', rate_limits.per_team, minute), teamOf),
    tier(rulesOf('global', rate_limits.global, windowOf(global_rate_limit), queue_ms), everybody),
    tier(pack.per_user, userOf),
    tier(pack.per_team, teamOf),
    tier(pack.global, everybody),
  ];
  return tiers.filter((one) => one !== undefined);
}

function tier(rules: readonly Rule[], idOf: Tier['idOf']): Tier | undefined {
  return rules.length === 0 ? undefined : { rulesOf: () => rules, idOf };
}

function hasNone({ rpm, tpm, max_parallel_requests }: ScopeLimits): boolean {
  return (rpm ?? tpm ?? max_parallel_requests) == null;
}

/** The rules of keys that have limits of their own: so many kinds of them are remembered. */
const KINDS_MAX = 1_000;

/** Each key by itself: by what is said of every key, or in place of that by what is said of it. */
function keyTier(per_key: ScopeLimits): Tier {
  const window = fixedWindow(MINUTE_MS);
  const rules = rulesOf('per_key', per_key, window);
  const kinds = new Map<string, readonly Rule[]>();
  const own = ({ rpm, tpm, max_parallel_requests }: KeyLimits): readonly Rule[] => {
    const kind = `${rpm} ${tpm} ${max_parallel_requests}`;
    const known = kinds.get(kind);
    if (known !== undefined) return known;
    const limits = {
      rpm: rpm ?? per_key.rpm,
      tpm: tpm ?? per_key.tpm,
      max_parallel_requests: max_parallel_requests ?? per_key.max_parallel_requests,
    };
    const made = rulesOf('per_key', limits, window);
    if (kinds.size >= KINDS_MAX) kinds.clear();
    kinds.set(kind, made);
    return made;
  };
  return {
    rulesOf: ({ identity }) => (identity.rate_limits ? own(identity.rate_limits) : rules),
    idOf: ({ identity }) => identity.key_id,
  };
}

/** A group counts all its keys together. */
function groupTier({ consumer_groups, rate_limit_profiles }: LimitSettings): Tier | undefined {
  const byKey = new Map<string, { name: string; rules: readonly Rule[] }>();
  for (const group of consumer_groups) {
    const limits = limitsOfGroup(group, rate_limit_profiles);
    const rules = rulesOf('consumer_group', limits, fixedWindow(MINUTE_MS));
    for (const key_id of group.keys) byKey.set(key_id, { name: group.name, rules });
  }
  if (byKey.size === 0) return undefined;
  const groupOf = ({ identity }: Caller) => byKey.get(identity.key_id ?? '');
  return {
    rulesOf: (caller) => groupOf(caller)?.rules ?? [],
    idOf: (caller) => groupOf(caller)?.name ?? null,
  };
}

function windowOf(given: {
  strategy: 'fixed_window' | 'sliding_window';
  window_seconds: number;
}): Window {
  const window_ms = given.window_seconds * 1_000;
  return given.strategy === 'fixed_window' ? fixedWindow(window_ms) : slidingWindow(window_ms);
}

function rulesOf(scope: Scope, limits: ScopeLimits, window: Window, queue_ms = 0): Rule[] {
  const limited: [LimitType, number | null | undefined][] = [
    ['rpm', limits.rpm],
    ['tpm', limits.tpm],
    ['parallel', limits.max_parallel_requests],
  ];
  return limited.flatMap(([limit_type, limit]) =>
    limit == null
      ? []
      : [
          ruleOf({
            scope,
            limit_type,
            limit,
            queue_ms,
            window: limit_type === 'parallel' ? leases() : window,
          }),
        ],
  );
}

function ruleOf(
  given: Pick<Rule, 'scope' | 'limit_type' | 'limit' | 'window'> & Partial<Rule>,
): Rule {
  const { scope, limit_type, window } = given;
  const shape =
    window.kind === 'drain'
      ? `c${window.step_ms}`
      : `${window.kind === 'slots' && window.counted > 1 ? 's' : 'f'}${window.slot_ms}`;
  return {
    queue_ms: 0,
    retry_after: undefined,
    name: `${scope}:${limit_type}:${shape}:`,
    ...given,
  };
}
