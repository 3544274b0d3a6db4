import { request } from 'undici';
import { blankPrice } from '../../../domain/ledger/pricing';
import { many } from '../../../domain/sql';
import { createMcpServer } from '../../../sandbox/tools/mcp-server';
import { gatewayKey, openWorld, type TestGateway, type World } from '../../support/gateway';
import { credit, makeOrg, makePrice } from '../../support/ledger';
import { openAtMinute } from '../../support/limits';
import { createSessionServer, serveTest, type TestServer } from '../../support/mcp';

// A world whose gateway stands before two MCP servers. A test file that imports this also gets its
// hooks.

export let world: World;
export let tools: TestServer;
export let sessions: TestServer;
export let gateway: TestGateway;
export let url: string;

beforeAll(async () => {
  world = await openWorld();
  tools = await serveTest(createMcpServer());
  sessions = await serveTest(createSessionServer());
  for (const model of ['tools/*', 'sessions/*']) {
    const price = { ...blankPrice, tiers: null, provider: 'mcp', model, per_request: 0.001 };
    await makePrice(world.api.db, price);
  }
  process.env.TEST_MCP_KEY = 'the-servers-own';
  gateway = await world.openGateway({
    settings: {
      mcp: {
        servers: [
          { name: 'tools', url: tools.url, api_key_env: 'TEST_MCP_KEY' },
          { name: 'sessions', url: sessions.url },
          { name: 'unpriced', url: tools.url },
        ],
        allowed_origins: ['https://app.example'],
      },
    },
  });
  url = `${gateway.url}/mcp`;
});

afterAll(async () => {
  await world.close();
  await tools.close();
  await sessions.close();
});

export function bearer(key: string) {
  return { authorization: `Bearer ${key}` };
}

/** An organization of its own, with a dollar. */
export async function payer(nanos = 1_000_000_000n) {
  const org = await makeOrg(world.api.db);
  if (nanos > 0n) await credit(world.api.db, org.org_id, org.org_wallet, nanos);
  return { ...org, key: await gatewayKey(world.api, org.org_id) };
}

/** The /mcp of another gateway. */
export async function open(settings: object): Promise<string> {
  const mcp = { servers: [{ name: 'tools', url: tools.url }] };
  return `${(await openAtMinute(world, { settings: { mcp, ...settings } })).url}/mcp`;
}

export const modern = '2026-07-28';

export const accepts = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};
export const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

interface Sending {
  key: string;
  /** Another gateway's /mcp. */
  to?: string;
  at?: string;
  method?: 'POST' | 'GET' | 'DELETE';
  headers?: Record<string, string>;
}

export async function send(
  body: string,
  { key, at = '', method = 'POST', headers = {}, to = url }: Sending,
) {
  const answer = await request(`${to}${at}`, {
    method,
    headers: { ...accepts, ...bearer(key), ...headers },
    body: method === 'POST' ? body : null,
  });
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: await answer.body.text(),
  };
}

/** One message of the older protocol, or with the members that the newest protocol wants. */
export async function rpc(
  message: { method: string; params: object; id?: unknown },
  { version, ...sending }: Sending & { version?: string },
) {
  const { name = '' } = message.params as { name?: string };
  const meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const params = version ? { ...message.params, _meta: meta } : message.params;
  const headers = version
    ? { 'mcp-protocol-version': version, 'mcp-method': message.method, 'mcp-name': name }
    : {};
  const answer = await send(JSON.stringify({ jsonrpc: '2.0', id: 1, ...message, params }), {
    ...sending,
    headers: { ...headers, ...sending.headers },
  });
  const data = /^data: (.*)$/m.exec(answer.text)?.[1] ?? answer.text;
  return { ...answer, body: JSON.parse(data) };
}

export function reservations(org_id: string, status: string | null = null) {
  return many(
    world.api.db,
    `select family, provider, model from reservations
     where org_id = :org_id and (:status::text is null or status = :status) and status <> 'canceled'`,
    { org_id, status },
  );
}
