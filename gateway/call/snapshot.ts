import type { Counts } from '../../domain/gateways/fleet';
import { addressOf, counted } from '../../runtime/client-address';
import { hashOf, type Settings } from '../config/settings';
import type { ControlPlane } from '../control-plane/client';
import type { Identifier } from '../identity/credentials';
import { createIdentifier } from '../identity/identifier';
import type { Identities } from '../identity/memory';
import { createLimitRules, type LimitRules } from '../limits/rules';
import { createPolicies, type Policies } from '../policy/policies';
import type { SealedKeys } from '../upstreams/credentials/credential';
import { type McpServers, openMcpServers } from '../upstreams/mcp-servers';
import type { OwnKeyRule } from '../upstreams/target';
import { openProviders, type Providers } from '../upstreams/targets';

/**
 * What one configuration makes. A call keeps to the one that it began with, so a reload never
 * changes a call under way.
 */
export interface Snapshot {
  /** Names the configuration, by its content. */
  version: string;
  settings: Settings;
  providers: Providers;
  mcp: McpServers;
  identifier: Identifier;
  /**
   * Says who is refused ahead of identification, for the event of it; a flood of unknown callers
   * asks little.
   */
  refused_identifier: Identifier;
  policies: Policies;
  limits: LimitRules;
  /** The calls that began with it and go on. */
  calls: number;
  /** How those ended that began with it and are over. */
  counts: Counts;
  /** Another one has taken its place: it closes with its last call. */
  is_replaced: boolean;
}

/** `given` is what outlives a configuration. */
export function openSnapshot(
  settings: Settings,
  given: {
    identities: Identities;
    control_plane: ControlPlane;
    snapshot?: Snapshot;
    /** Which targets organizations' own keys may go to; all if absent. */
    takesOwnKeys?: OwnKeyRule;
  },
): Snapshot {
  const limits = createLimitRules(settings);
  const { identities, control_plane } = given;
  const from = (head: Parameters<typeof addressOf>[0]) => counted(addressOf(head, limits.address));
  const proofs = { control_plane, addressOf: from };
  return {
    version: hashOf(settings),
    settings,
    providers: openProviders(settings, {
      sealed: sealedIn(control_plane),
      before: given.snapshot?.providers,
      takesOwnKeys: given.takesOwnKeys,
    }),
    mcp: openMcpServers(settings),
    identifier: createIdentifier(settings, { ...proofs, identities }),
    refused_identifier: createIdentifier(settings, { ...proofs, identities: identities.inTurn }),
    policies: createPolicies(settings),
    limits,
    calls: 0,
    counts: { finished: 0, own_5xx: 0, upstream_5xx: 0, refused: 0, lost_reports: 0 },
    is_replaced: false,
  };
}

/** The keys of the platform that targets name. */
function sealedIn({ provider_keys }: ControlPlane): SealedKeys {
  return {
    async current(name) {
      const found = await provider_keys.find({ name });
      if (found === null) throw new Error(`There is no key of the platform called ${name}.`);
      return found.key;
    },
    refuse: (name, value) => provider_keys.refuse({ name }, value),
  };
}

/** A call begins with this configuration, and keeps it to its end. */
export function enter(snapshot: Snapshot): void {
  snapshot.calls += 1;
}

/** A call has ended; the last one of a configuration that was replaced closes it. */
export function leave(snapshot: Snapshot): void {
  snapshot.calls -= 1;
  if (snapshot.is_replaced && snapshot.calls === 0) void closeSnapshot(snapshot);
}

/** Another one has taken its place: it closes once no call needs it. */
export function retire(snapshot: Snapshot): void {
  snapshot.is_replaced = true;
  if (snapshot.calls === 0) void closeSnapshot(snapshot);
}

/** Ends the connections to providers and MCP servers. */
export async function closeSnapshot({ providers, mcp }: Snapshot): Promise<void> {
  await Promise.all([providers.close(), mcp.close()]);
}
