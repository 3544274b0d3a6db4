import { Pool } from 'undici';
import { connector } from '../../runtime/outgoing';
import type { McpServerSettings } from '../config/mcp';
import type { Settings } from '../config/settings';
import { serverKey } from '../config/upstreams';
import type { Upstream } from './target';

/** The MCP servers behind this gateway. */
export interface McpServers {
  /** By its name; the first one if none is given. */
  find(name: string): Upstream | undefined;
  close(): Promise<void>;
}

/** The provider of all tools in the price list. */
const MCP_PROVIDER = 'mcp';

export function openMcpServers(settings: Settings): McpServers {
  const servers = settings.mcp.servers.map((row) => open(row, settings));
  return {
    find: (name) => (name === '' ? servers[0] : servers.find(({ id }) => id === name)),
    async close() {
      await Promise.all(servers.map(({ pool }) => pool.destroy()));
    },
  };
}

function open(row: McpServerSettings, { timeouts }: Settings): Upstream {
  const url = new URL(row.url);
  const key = serverKey(row);
  return {
    id: row.name,
    provider: MCP_PROVIDER,
    base_path: `${url.pathname}${url.search}`,
    headers: {
      ...lowered(row.headers),
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      'user-agent': 'svc-gateway',
      'accept-encoding': 'identity',
    },
    first_byte_ms: timeouts.first_byte_ms,
    origin: url.origin,
    // Tools may be silent for long, and streams of notices always are.
    pool: new Pool(url.origin, {
      connect: connector({ timeout: timeouts.connect_ms }),
      bodyTimeout: 0,
    }),
  };
}

function lowered(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
}
