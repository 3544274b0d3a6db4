/**
 * Who a limit counts, in the order in which a request passes them; those of policy packs come last.
 */
const scopes = [
  'ip',
  'per_key',
  'consumer_group',
  'per_user',
  'per_team',
  'global',
  'pack_per_user',
  'pack_per_team',
  'pack_global',
] as const;

export type Scope = (typeof scopes)[number];

/** Requests, tokens, or requests at the same time. */
export type LimitType = 'rpm' | 'tpm' | 'parallel';

/** The limits of a scope; null and absent are no limit. */
export interface ScopeLimits {
  rpm?: number | null | undefined;
  tpm?: number | null | undefined;
  max_parallel_requests?: number | null | undefined;
}

interface Profile extends Pick<ScopeLimits, 'rpm' | 'tpm'> {
  name: string;
}

interface ConsumerGroup {
  name: string;
  rate_limits?: ScopeLimits | undefined;
  /** Ids of gateway keys. */
  keys: readonly string[];
  inherits?: string | undefined;
}

/** The limits of a group: its own, and those of its profile if it sets none. */
export function limitsOfGroup(
  { rate_limits = {}, inherits }: ConsumerGroup,
  profiles: readonly Profile[],
): ScopeLimits {
  const profile = profiles.find(({ name }) => name === inherits);
  return {
    rpm: rate_limits.rpm ?? profile?.rpm,
    tpm: rate_limits.tpm ?? profile?.tpm,
    max_parallel_requests: rate_limits.max_parallel_requests,
  };
}

/** The first error in groups and profiles, with the path of its key; undefined if there is none. */
export function groupProblem(
  groups: readonly ConsumerGroup[],
  profiles: readonly Profile[],
): string | undefined {
  const named = new Set<string>();
  for (const [at, { name }] of profiles.entries()) {
    if (named.has(name)) return `rate_limit_profiles[${at}].name: "${name}" is used twice.`;
    named.add(name);
  }
  const groupOf = new Map<string, string>();
  const group_names = new Set<string>();
  for (const [at, { name, inherits, keys }] of groups.entries()) {
    if (group_names.has(name)) return `consumer_groups[${at}].name: "${name}" is used twice.`;
    group_names.add(name);
    if (inherits !== undefined && !named.has(inherits)) {
      return `consumer_groups[${at}].inherits: there is no profile "${inherits}".`;
    }
    for (const key_id of keys) {
      const other = groupOf.get(key_id);
      if (other !== undefined) {
        return `consumer_groups[${at}].keys: ${key_id} is already in the group "${other}".`;
      }
      groupOf.set(key_id, name);
    }
  }
  return undefined;
}
