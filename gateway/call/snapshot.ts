import { createHash } from 'node:crypto';
import type { Settings } from '../config/settings';
import type { ControlPlane } from '../control-plane/client';
import { type Identifier, openIdentifier } from '../identity/identifier';
import type { Identities } from '../identity/memory';
import { type LimitRules, openLimitRules } from '../limits/rules';
import { openPolicies, type Policies } from '../policy/policies';
import { type McpServers, openMcpServers } from '../upstreams/mcp-servers';
import { openProviders, type Providers } from '../upstreams/targets';

/** What one configuration makes. A call keeps to the one that it began with, so a reload never changes a call under way. */
export interface Running {
  /** Names the configuration, by its content. */
  version: string;
  settings: Settings;
  providers: Providers;
  mcp: McpServers;
  identifier: Identifier;
  policies: Policies;
  limits: LimitRules;
  /** The calls that began with it. */
  calls: number;
  /** Another one has taken its place: it closes with its last call. */
  is_replaced: boolean;
}

/** `given` is what outlives a configuration. */
export function openRunning(
  settings: Settings,
  given: { identities: Identities; control_plane: ControlPlane },
): Running {
  return {
    version: versionOf(settings),
    settings,
    providers: openProviders(settings),
    mcp: openMcpServers(settings),
    identifier: openIdentifier(settings, given),
    policies: openPolicies(settings),
    limits: openLimitRules(settings),
    calls: 0,
    is_replaced: false,
  };
}

/** A call begins with this configuration, and keeps it to its end. */
export function enter(running: Running): void {
  running.calls += 1;
}

/** A call has ended; the last one of a configuration that was replaced closes it. */
export function leave(running: Running): void {
  running.calls -= 1;
  if (running.is_replaced && running.calls === 0) void closeRunning(running);
}

/** Ends what a configuration had open, once no call needs it. */
export function replace(running: Running): void {
  running.is_replaced = true;
  if (running.calls === 0) void closeRunning(running);
}

/** Ends the connections to providers and MCP servers. */
export async function closeRunning({ providers, mcp }: Running): Promise<void> {
  await Promise.all([providers.close(), mcp.close()]);
}

function versionOf(settings: Settings): string {
  return createHash('sha256').update(JSON.stringify(settings)).digest('hex').slice(0, 16);
}
