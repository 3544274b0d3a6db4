import type { IncomingMessage, ServerResponse } from 'node:http';
import { request } from 'undici';
import { blankPrice } from '../../../domain/ledger/pricing';
import type { Gateway } from '../../../gateway/call/call';
import { gatewayKey, lastCharge, openWorld, type World } from '../../support/gateway';
import { credit, makeOrg, makePrice } from '../../support/ledger';
import { createRawServer, serveTest, type TestServer } from '../../support/mcp';

// A world whose gateway stands before one MCP server that each test scripts. A test file that
// imports this also gets its hooks.

export type Handler = (req: IncomingMessage, res: ServerResponse, body: string) => void;

export let world: World;
let server: TestServer;
export let url: string;
export let gateway: Gateway;
/** The server's handler of the next request. */
export const raw = {} as { answer: Handler };
const KEEP_ALIVE_MS = 40;

beforeAll(async () => {
  world = await openWorld();
  server = await serveTest(createRawServer((req, res, body) => raw.answer(req, res, body)));
  const price = { ...blankPrice, tiers: null, provider: 'mcp', model: 'raw/*', per_request: 0.001 };
  await makePrice(world.api.db, price);
  process.env.TEST_MCP_KEY = 'the-servers-own';
  ({ url, gateway } = await open());
});

afterAll(async () => {
  await world.close();
  await server.close();
});

export async function open(more: object = {}, timeouts: object = {}) {
  const row = {
    name: 'raw',
    url: server.url,
    api_key_env: 'TEST_MCP_KEY',
    headers: { 'X-Mine': 'yes' },
  };
  const mcp = { servers: [row], keep_alive_ms: KEEP_ALIVE_MS, ...more };
  const opened = await world.openGateway({ settings: { mcp, timeouts } });
  return { ...opened, url: `${opened.url}/mcp` };
}

export async function payer() {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  return { ...org, key: await gatewayKey(world.api, org.org_id) };
}

export const accepts = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};
export const tool_call = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'work' } };
export const result = '{"jsonrpc":"2.0","id":7,"result":{"content":[]}}';
export const free = 0n;
export const paid = 1_000_000n;

export function call(
  key: string,
  {
    headers = {},
    body = JSON.stringify(tool_call),
    at = url,
    signal,
  }: { headers?: object; body?: string; at?: string; signal?: AbortSignal } = {},
) {
  return request(at, {
    method: 'POST',
    headers: { ...accepts, authorization: `Bearer ${key}`, ...headers },
    body,
    signal: signal ?? null,
  });
}

export function stream(res: ServerResponse): void {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.flushHeaders();
}

export async function cost(org_id: string): Promise<bigint> {
  return (await lastCharge(world, org_id)).actual_cost_nanos ?? 0n;
}
