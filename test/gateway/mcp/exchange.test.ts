import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { request } from 'undici';
import { blankPrice } from '../../../domain/ledger/pricing';
import { many } from '../../../domain/sql';
import { adopt } from '../../../gateway/adopt';
import type { Gateway } from '../../../gateway/call/call';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { parseSettings } from '../../../gateway/config/settings';
import { drain } from '../../../gateway/gateway';
import { gatewayKey, lastCharge, openWorld, type World } from '../../support/gateway';
import { credit, makeOrg, makePrice } from '../../support/ledger';
import { createRawServer, serveTest, type TestServer } from '../../support/mcp';
import { until } from '../../support/until';

type Answer = (req: IncomingMessage, res: ServerResponse, body: string) => void;

let world: World;
let server: TestServer;
let url: string;
let gateway: Gateway;
/** What the server does with the next request. */
let answer: Answer;
const KEEP_ALIVE_MS = 40;

beforeAll(async () => {
  world = await openWorld();
  server = await serveTest(createRawServer((req, res, body) => answer(req, res, body)));
  const price = { ...blankPrice, tiers: null, provider: 'mcp', model: 'raw/*', per_request: 0.001 };
  await makePrice(world.api.db, price);
  process.env.TEST_MCP_KEY = 'the-servers-own';
  ({ url, gateway } = await open());
});

afterAll(async () => {
  await world.close();
  await server.close();
});

async function open(more: object = {}) {
  const raw = {
    name: 'raw',
    url: server.url,
    api_key_env: 'TEST_MCP_KEY',
    headers: { 'X-Mine': 'yes' },
  };
  const mcp = { servers: [raw], keep_alive_ms: KEEP_ALIVE_MS, ...more };
  const opened = await world.openGateway({ settings: { mcp } });
  return { ...opened, url: `${opened.url}/mcp` };
}

async function payer() {
  const org = await makeOrg(world.api.db);
  await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
  return { ...org, key: await gatewayKey(world.api, org.org_id) };
}

const accepts = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};
const tool_call = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'work' } };
const result = '{"jsonrpc":"2.0","id":7,"result":{"content":[]}}';
const free = 0n;
const paid = 1_000_000n;

function call(
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

function stream(res: ServerResponse): void {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.flushHeaders();
}

async function cost(org_id: string): Promise<bigint> {
  return (await lastCharge(world, org_id)).actual_cost_nanos ?? 0n;
}

describe('what goes up', () => {
  it('is the protocol, with the credential of the server and none of the client', async () => {
    let seen: IncomingMessage['headers'] = {};
    answer = (req, res) => {
      seen = req.headers;
      res.writeHead(200, {
        'content-type': 'application/json',
        'mcp-thing': 'yes',
        'set-cookie': 'a=b',
      });
      res.end('{"jsonrpc":"2.0","id":1,"result":{}}');
    };
    const back = await call(world.key, {
      body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      headers: {
        ...{ 'mcp-protocol-version': '2025-11-25', 'mcp-param-x': '1', 'last-event-id': '9' },
        ...{ cookie: 'a=b', 'x-api-key': world.key, 'x-svc-agent-id': 'one' },
      },
    });
    await back.body.dump();
    expect(seen).toMatchObject({
      ...{ authorization: 'Bearer the-servers-own', 'x-mine': 'yes', accept: accepts.accept },
      ...{ 'mcp-protocol-version': '2025-11-25', 'mcp-param-x': '1', 'last-event-id': '9' },
    });
    expect(JSON.stringify(seen)).not.toContain(world.key);
    expect(seen).not.toHaveProperty('cookie');
    expect(seen).not.toHaveProperty('x-svc-agent-id');
    expect(back.headers['mcp-thing']).toBe('yes');
    expect(back.headers).not.toHaveProperty('set-cookie');
  });

  it('is the body byte for byte', async () => {
    const body =
      '{ "jsonrpc":"2.0", "id":7.0, "method":"tools/call","params":{"name":"work","arguments":{"n":12345678901234567890}}}';
    let seen = '';
    answer = (_req, res, given) => {
      seen = given;
      res.writeHead(200, { 'content-type': 'application/json' }).end(result);
    };
    await (await call(world.key, { body })).body.dump();
    expect(seen).toBe(body);
  });

  it('holds no session in the newest protocol', async () => {
    let seen: IncomingMessage['headers'] = {};
    answer = (req, res) => {
      seen = req.headers;
      res.writeHead(200, { 'content-type': 'application/json' }).end(result);
    };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-session-id': 'anything' };
    const back = await call(world.key, { headers });
    await back.body.dump();
    expect(back.statusCode).toBe(200);
    expect(seen).not.toHaveProperty('mcp-session-id');
  });
});

describe('a stream', () => {
  it('comes as it is sent, with comments where nothing comes, and none inside an event', async () => {
    let res: ServerResponse | undefined;
    answer = (_req, given) => {
      res = given;
      stream(res);
      res.write('data: {"jsonrpc":"2.0","method":"notifications/progress"}\n');
    };
    const back = await call(world.key);
    let text = '';
    back.body.on('data', (chunk) => {
      text += chunk;
    });
    await until(() => text.includes(': keep-alive\n\n: keep-alive\n\n'));
    expect(text).not.toContain('progress');
    res?.write('\n');
    await until(() => text.includes('progress"}\n\n'));
    res?.end(`data: ${result}\n\n`);
    await until(() => text.endsWith(`data: ${result}\n\n`));
    expect(back.headers).toMatchObject({ 'x-accel-buffering': 'no' });
  });

  it('that ends without an answer is given one, and is free', async () => {
    const { org_id, key } = await payer();
    answer = (_req, res) => {
      stream(res);
      res.write('data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n');
      setImmediate(() => res.destroy());
    };
    const text = await (await call(key)).body.text();
    const told = JSON.parse(/^data: (.*error.*)$/m.exec(text)?.[1] ?? '{}');
    expect(told).toMatchObject({ id: 7, error: { data: { code: 'upstream_failed' } } });
    expect(await cost(org_id)).toBe(free);
  });

  it('whose answer can be fetched later ends as it ended, and is paid for', async () => {
    const { org_id, key } = await payer();
    answer = (_req, res) => {
      stream(res);
      res.end('id: 1\ndata: \n\n');
    };
    expect(await (await call(key)).body.text()).toBe('id: 1\ndata: \n\n');
    expect(await cost(org_id)).toBe(paid);
  });

  it.each([
    ['a result', '{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":true}}', paid],
    ['an error', '{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}', free],
    ['a question back', '{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required"}}', free],
    ['the answer to another request', '{"jsonrpc":"2.0","id":8,"result":{}}', free],
  ])('with %s is settled so', async (_, message, nanos) => {
    const { org_id, key } = await payer();
    answer = (_req, res) => {
      stream(res);
      res.end(`data: ${message}\n\n`);
    };
    await (await call(key)).body.dump();
    expect(await cost(org_id)).toBe(nanos);
  });

  it('of notices ends at once when the gateway stops', async () => {
    const stopping = await open();
    answer = (_req, res) => stream(res);
    const back = await request(stopping.url, {
      headers: { accept: 'text/event-stream', authorization: `Bearer ${world.key}` },
    });
    expect(back.statusCode).toBe(200);
    const text = back.body.text();
    const began = performance.now();
    await drain(stopping.gateway, stopping.sockets);
    await text;
    expect(performance.now() - began).toBeLessThan(5_000);
  });
});

describe('a client that goes', () => {
  it('cancels in the newest protocol, and pays for what may have been done', async () => {
    const { org_id, key } = await payer();
    let is_closed = false;
    let is_there = false;
    answer = (_req, res) => {
      is_there = true;
      res.on('close', () => {
        is_closed = true;
      });
    };
    const leaving = new AbortController();
    const headers = { 'mcp-protocol-version': '2026-07-28' };
    const gone = call(key, { headers, signal: leaving.signal }).catch(() => 'gone');
    await until(() => is_there);
    leaving.abort();
    expect(await gone).toBe('gone');
    await until(() => is_closed);
    expect(await cost(org_id)).toBe(paid);
  });

  it.each([
    ['a result', result, paid],
    ['an error', '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}', free],
  ])('does not cancel in the older ones: %s counts', async (_, message, nanos) => {
    const { org_id, key } = await payer();
    let res: ServerResponse | undefined;
    answer = (_req, given) => {
      res = given;
      stream(res);
      res.write(': hello\n\n');
    };
    const leaving = new AbortController();
    const back = await call(key, { signal: leaving.signal });
    back.body.on('error', () => {});
    leaving.abort();
    await until(() => [...gateway.calls].every(({ client_is_gone }) => client_is_gone));
    expect(res?.destroyed).toBe(false);
    res?.end(`data: ${message}\n\n`);
    expect(await cost(org_id)).toBe(nanos);
  });

  it('is waited for no longer than configured', async () => {
    const { org_id, key } = await payer();
    const short = await open({ detached_ms: 50 });
    let is_closed = false;
    answer = (_req, res) => {
      stream(res);
      res.write(': hello\n\n');
      res.on('close', () => {
        is_closed = true;
      });
    };
    const leaving = new AbortController();
    const back = await call(key, { at: short.url, signal: leaving.signal });
    back.body.on('error', () => {});
    leaving.abort();
    await until(() => is_closed);
    expect(await cost(org_id)).toBe(paid);
  });
});

describe('a stream of notices', () => {
  const hear = (key: string, at = url) =>
    request(at, { headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' } });

  beforeEach(() => {
    answer = (_req, res) => {
      stream(res);
      res.write(': hello\n\n');
    };
  });

  it('ends once its key is revoked', async () => {
    const { org_id, key } = await payer();
    const back = await hear(key);
    let has_ended = false;
    back.body
      .on('data', () => {})
      .on('end', () => {
        has_ended = true;
      });
    await many(
      world.api.db,
      'update tokens set revoked_at = clock_timestamp() where org_id = :org_id',
      { org_id },
    );
    await until(() => has_ended);
    await until(() => gateway.calls.size === 0);
  });

  it('is refused beyond those that a key and the gateway may have, and taken again once one has ended', async () => {
    const few = await open({ listeners_max: 2, listeners_per_key_max: 1 });
    const [first, second, third] = [await payer(), await payer(), await payer()];
    const one = await hear(first.key, few.url);
    const status = async (key: string) => {
      const { statusCode, body } = await hear(key, few.url);
      await body.dump();
      return statusCode;
    };
    expect(await status(first.key)).toBe(429);
    const two = await hear(second.key, few.url);
    expect(await status(third.key)).toBe(503);
    one.body.on('error', () => {}).destroy();
    await until(() => few.gateway.calls.size === 1);
    const again = await hear(third.key, few.url);
    expect(again.statusCode).toBe(200);
    for (const { body } of [two, again]) body.on('error', () => {}).destroy();
    await until(() => few.gateway.calls.size === 0);
  });
});

describe('a request whose body is slow', () => {
  it('reaches its server although the configuration is replaced meanwhile', async () => {
    const { gateway: reloaded, url: at } = await open();
    const { key } = await payer();
    answer = (_req, res) => res.writeHead(200, { 'content-type': 'application/json' }).end(result);
    const body = new PassThrough();
    body.write(JSON.stringify(tool_call).slice(0, 20));
    const headers = { ...accepts, authorization: `Bearer ${key}` };
    const before = reloaded.snapshot;
    const asked = request(at, { method: 'POST', headers, body });
    await until(() => before.calls > 0);
    adopt(reloaded, openSnapshot(before.settings, reloaded));
    body.end(JSON.stringify(tool_call).slice(20));
    const back = await asked;
    expect([back.statusCode, await back.body.text()]).toEqual([200, result]);
    expect(before.calls).toBe(0);
  });
});

describe('trouble with the server', () => {
  it.each<[string, Answer]>([
    [
      'it refuses our credential',
      (_req, res) => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end(),
    ],
    ['it redirects', (_req, res) => res.writeHead(302, { location: 'http://127.0.0.1:9/' }).end()],
    [
      'it sends a page',
      (_req, res) => res.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    ['it dies', (_req, res) => res.destroy()],
  ])('is a JSON-RPC error with 502, and free, where %s', async (_, wrong) => {
    const { org_id, key } = await payer();
    answer = wrong;
    const back = await call(key);
    expect(back.statusCode).toBe(502);
    expect(back.headers).not.toHaveProperty('www-authenticate');
    expect(await back.body.json()).toMatchObject({
      jsonrpc: '2.0',
      id: 7,
      error: { code: -32_000 },
    });
    expect(await cost(org_id)).toBe(free);
  });

  it('passes on what it says of a request, with its status', async () => {
    const { org_id, key } = await payer();
    const message = '{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"mismatch"}}';
    answer = (_req, res) => res.writeHead(400, { 'content-type': 'application/json' }).end(message);
    const back = await call(key);
    expect(back.statusCode).toBe(400);
    expect(await back.body.text()).toBe(message);
    expect(await cost(org_id)).toBe(free);
  });
});

describe('the section mcp', () => {
  const target = {
    ...{ id: 'a', provider: 'openai', shape: 'openai', base_url: 'http://127.0.0.1:9/v1' },
    ...{ api_key_env: 'TEST_MODELS_KEY', models: ['m'] },
  };
  const row = { name: 'one', url: 'http://127.0.0.1:9/mcp' };

  it.each([
    ['a name twice', [row, row], 'mcp.servers: a name is used twice'],
    [
      'a variable that is not set',
      [{ ...row, api_key_env: 'TEST_NOT_SET' }],
      'mcp.servers[0].api_key_env: this environment variable is not set',
    ],
    [
      'a secret among headers',
      [{ ...row, headers: { Authorization: 'x' } }],
      'mcp.servers[0].headers: a credential is named in api_key_env',
    ],
    ['an unknown key', [{ ...row, uri: 'x' }], 'mcp.servers[0].uri: there is no such key'],
    ['a name that is no path', [{ ...row, name: 'a/b' }], 'mcp.servers[0].name'],
  ])('with %s is refused by its path', (_, servers, told) => {
    const settings = { providers: { targets: [target] }, mcp: { servers } };
    expect(() => parseSettings(JSON.stringify(settings))).toThrow(told);
  });
});
