import type { SessionLimits } from '../../domain/ledger/calls';
import type { Kind, PolicyRoute } from '../config/policies';
import type { Settings } from '../config/settings';
import { createDlp, type Dlp } from './dlp';
import { createFirewall, type Firewall, sessionLimits } from './firewall';
import { createRbac, type Rbac } from './rbac';

/** The policies that are opened from one snapshot's pack. */
export interface Policies {
  pack: string | undefined;
  chain: readonly Kind[];
  /** The routes that the chain runs over; `mcp` is always one. */
  routes: ReadonlySet<PolicyRoute | 'mcp'>;
  /** Other routes are refused. */
  refuses_uncovered: boolean;
  rbac: Rbac | undefined;
  firewall: Firewall | undefined;
  dlp: Dlp | undefined;
  session_limits: SessionLimits | undefined;
  allows_cache_control: boolean;
  /** The kinds of the chain that look at answers. */
  output: readonly Kind[];
}

export function createPolicies({ pack, policies, policy }: Settings): Policies {
  const { rbac, 'agent-firewall': firewall, 'dlp-filter': filter } = policy;
  const dlp = filter && createDlp(filter);
  const looksAt = (kind: Kind): boolean =>
    kind === 'dlp-filter' ? dlp?.stages.includes('output') === true : kind === 'agent-firewall';
  return {
    pack,
    chain: policies.chain,
    routes: new Set([...policies.routes, 'mcp' as const]),
    refuses_uncovered: policies.chain.length > 0 && policies.uncovered === 'refuse',
    rbac: rbac && createRbac(rbac),
    firewall: firewall && createFirewall(firewall),
    dlp,
    session_limits: sessionLimits(firewall),
    allows_cache_control: policy.cache_control === 'allow',
    output: policies.chain.filter(looksAt),
  };
}
