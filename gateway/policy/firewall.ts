import type { SessionLimits } from '../../domain/ledger/calls';
import type { FirewallSettings } from '../config/policies';

export type Firewall = ReturnType<typeof createFirewall>;

/** Decides which tools an agent may be offered and may call. */
export function createFirewall({ tools: { allow, deny } }: FirewallSettings) {
  const denied = deny.map(matcherOf);
  const allowed = allow?.map(matcherOf);
  const denies = (name: string): string | undefined => {
    const at = denied.findIndex((matches) => matches(name));
    return at < 0 ? undefined : `tools.deny[${at}]`;
  };
  return {
    /** The rule that forbids a tool of which this may be the whole name, or a piece. */
    denies,
    /** The rule that forbids a tool. */
    forbids(name: string): string | undefined {
      const rule = denies(name);
      if (rule !== undefined) return rule;
      return allowed?.some((matches) => matches(name)) === false ? 'tools.allow' : undefined;
    },
  };
}

/** The limits that a reserve carries if the pack limits sessions. */
export function sessionLimits(settings: FirewallSettings | undefined): SessionLimits | undefined {
  const { max_actions_per_session: max_actions, max_cost_per_session_usd: max_cost_usd } =
    settings ?? {};
  if (max_actions === undefined && max_cost_usd === undefined) return undefined;
  return {
    ...(max_actions !== undefined && { max_actions }),
    ...(max_cost_usd !== undefined && { max_cost_usd }),
  };
}

/** Compares names in any case; `*` stands for any characters. */
function matcherOf(pattern: string): (name: string) => boolean {
  const parts = pattern.toLowerCase().split('*');
  const [first = '', ...rest] = parts;
  if (rest.length === 0) return (name) => name.toLowerCase() === first;
  const last = rest.pop() as string;
  return (given) => {
    const name = given.toLowerCase();
    if (name.length < first.length + last.length) return false;
    if (!name.startsWith(first) || !name.endsWith(last)) return false;
    let at = first.length;
    for (const part of rest) {
      const found = name.indexOf(part, at);
      if (found < 0 || found + part.length > name.length - last.length) return false;
      at = found + part.length;
    }
    return true;
  };
}
