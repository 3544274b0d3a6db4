import type { SessionLimits } from '../../domain/ledger/calls';
import type { FirewallSettings } from '../config/policies';
import { withoutUnseen } from '../wire/unseen';

export type Firewall = ReturnType<typeof createFirewall>;

/**
 * Decides which tools an agent may be offered and may call. A name that is written with other
 * characters than names of tools is refused, however the lists stand.
 */
export function createFirewall({ tools: { allow, deny } }: FirewallSettings) {
  const denied = deny.map(matcherOf);
  const allowed = allow?.map(matcherOf);
  const denies = (name: string): string | undefined => {
    const folded = foldedName(name);
    const at = denied.findIndex((matches) => matches(folded));
    if (at >= 0) return `tools.deny[${at}]`;
    return named.test(name) ? undefined : 'tools.name';
  };
  return {
    /** The rule that forbids a tool of which this may be the whole name, or a piece. */
    denies,
    /** The rule that forbids a tool. */
    forbids(name: string): string | undefined {
      const rule = denies(name);
      if (rule !== undefined) return rule;
      const folded = foldedName(name);
      return allowed?.some((matches) => matches(folded)) === false ? 'tools.allow' : undefined;
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

// All that names of tools are written with: another character can only pretend to be one of these.
const named = /^[A-Za-z0-9_.:/-]*$/;

/** A name as it is compared: in any case and width, without what is not seen. */
function foldedName(name: string): string {
  return withoutUnseen(name.normalize('NFKC')).trim().toLowerCase();
}

/** Matches a name that is folded; `*` stands for any characters. */
function matcherOf(pattern: string): (name: string) => boolean {
  const parts = foldedName(pattern).split('*');
  const [first = '', ...rest] = parts;
  if (rest.length === 0) return (name) => name === first;
  const last = rest.pop() as string;
  return (name) => {
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
