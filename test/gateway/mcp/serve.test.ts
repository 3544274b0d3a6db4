import { request } from 'undici';
import { blankPrice } from '../../../domain/ledger/pricing';
import { many } from '../../../domain/sql';
import { createMcpServer } from '../../../sandbox/tools/mcp-server';
import {
  gatewayKey,
  lastCharge,
  openWorld,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { credit, makeOrg, makePrice } from '../../support/ledger';
import {
  connectNew,
  connectOld,
  createSessionServer,
  serveTest,
  type TestServer,
} from '../../support/mcp';
import { until } from '../../support/until';

let world: World;
let tools: TestServer;
let sessions: TestServer;
let gateway: TestGateway;
let url: string;

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

function bearer(key: string) {
  return { authorization: `Bearer ${key}` };
}

/** An organization of its own, with a dollar. */
async function payer(nanos = 1_000_000_000n) {
  const org = await makeOrg(world.api.db);
  if (nanos > 0n) await credit(world.api.db, org.org_id, org.org_wallet, nanos);
  return { ...org, key: await gatewayKey(world.api, org.org_id) };
}

/** What the events say of the calls that were paid for. */
async function completions(org_id: string) {
  const sql = `select payload from events where org_id = :org_id and type = 'request.completed'`;
  const rows = await many<{ payload: object }>(world.api.db, sql, { org_id });
  return rows.map(({ payload }) => payload);
}

/** The /mcp of another gateway. */
async function open(settings: object): Promise<string> {
  const mcp = { servers: [{ name: 'tools', url: tools.url }] };
  return `${(await world.openGateway({ settings: { mcp, ...settings } })).url}/mcp`;
}

const modern = '2026-07-28';

describe.each([
  ['the first SDK', async (at: string, key: string) => connectOld(at, bearer(key))],
  ['the second SDK', async (at: string, key: string) => connectNew(at, bearer(key))],
  [
    'the second SDK in the newest protocol',
    async (at: string, key: string) => connectNew(at, bearer(key), modern),
  ],
])('%s', (_, connect) => {
  it('lists the tools for free, and pays for each call of one', async () => {
    const { org_id, key } = await payer();
    const { client } = await connect(url, key);
    const { tools: listed } = await client.listTools();
    expect(listed.map(({ name }) => name)).toEqual(['echo', 'add', 'slow']);
    expect(await reservations(org_id)).toEqual([]);
    const answer = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
    expect(answer.content).toEqual([{ type: 'text', text: '5' }]);
    expect(await lastCharge(world, org_id)).toMatchObject({
      ...{ status: 'settled', outcome: 'completed', actual_cost_nanos: 1_000_000n },
    });
    expect(await reservations(org_id)).toEqual([
      { family: 'mcp', provider: 'mcp', model: 'tools/add' },
    ]);
    await until(async () => (await completions(org_id)).length === 1);
    expect(await completions(org_id)).toMatchObject([{ model: 'tools/add', attempts: 1 }]);
    await client.close();
  });

  it('is told of a wallet without money, with a ticket', async () => {
    const { key } = await payer(0n);
    const { client } = await connect(url, key);
    const refusal = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } }).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(String(refusal)).toContain('insufficient_balance');
    expect(String(refusal)).toContain('cost_ticket');
    await client.close();
  });
});

describe('a tool call', () => {
  it.each([
    ['no price', 'unpriced', { name: 'add' }, { status: 422, code: 'model_not_priced' }],
    ['no money', 'tools', { name: 'add' }, { status: 402, code: 'insufficient_balance' }],
    ['no name', 'tools', {}, { status: 422, code: 'invalid_field' }],
    ['NUL in its name', 'tools', { name: 'a\u0000' }, { status: 422, code: 'invalid_field' }],
    ['half a pair', 'tools', { name: 'a\ud800' }, { status: 422, code: 'invalid_field' }],
  ])(
    'with %s is refused with its status and a JSON-RPC error',
    async (_, server, params, refusal) => {
      const { key } = await payer(refusal.status === 402 ? 0n : undefined);
      const answer = await rpc(
        { method: 'tools/call', params, id: 'seven' },
        { key, at: `/${server}` },
      );
      expect(answer.status).toBe(refusal.status);
      expect(answer.body).toMatchObject({
        jsonrpc: '2.0',
        id: 'seven',
        error: { code: expect.any(Number), message: expect.any(String), data: refusal },
      });
    },
  );

  it('that the key may not use is refused; a server may be allowed as a whole', async () => {
    const { org_id } = await payer();
    const call = { method: 'tools/call', params: { name: 'add', arguments: { a: 1, b: 1 } } };
    const allowed_models = ['gpt-4o'];
    const none = await gatewayKey(world.api, org_id, { allowed_models });
    const refusal = await rpc(call, { key: none });
    expect(refusal).toMatchObject({
      status: 403,
      body: { error: { data: { code: 'model_not_allowed' } } },
    });
    for (const model of ['tools/add', 'tools/*']) {
      const some = await gatewayKey(world.api, org_id, { allowed_models: [model] });
      expect((await rpc(call, { key: some })).status).toBe(200);
    }
  });

  it('that the server refuses is free', async () => {
    const { org_id, key } = await payer();
    const answer = await rpc(
      { method: 'tools/call', params: { name: 'nothing' }, id: 1 },
      { key, version: modern },
    );
    expect(answer.body.error).toMatchObject({ code: -32_602 });
    const charge = await lastCharge(world, org_id);
    expect(charge.actual_cost_nanos ?? 0n).toBe(0n);
  });

  it('with a ticket is paid by it, whatever the id of the repeat', async () => {
    const { org_id, org_wallet, key } = await payer(0n);
    const call = { method: 'tools/call', params: { name: 'add', arguments: { a: 1, b: 1 } } };
    const refused = await rpc({ ...call, id: 1 }, { key });
    const ticket = refused.body.error.data.cost_ticket.id;
    await credit(world.api.db, org_id, org_wallet, 1_000_000_000n);
    const paid = await rpc({ ...call, id: 2 }, { key, headers: { 'x-svc-cost-ticket': ticket } });
    expect(paid.status).toBe(200);
  });
});

describe('the limit of an address', () => {
  it('counts each message and each call of a tool once', async () => {
    const limited = await open({ rate_limits: { ip: { enabled: true, rpm: 3 } } });
    const { org_id, key } = await payer();
    const call = { method: 'tools/call', params: { name: 'add', arguments: { a: 1, b: 1 } } };
    expect((await send(ping, { key, to: limited })).status).toBe(200);
    expect((await rpc(call, { key, to: limited })).status).toBe(200);
    expect((await rpc(call, { key, to: limited })).status).toBe(200);
    const refused = await rpc(call, { key, to: limited });
    expect(refused).toMatchObject({
      status: 429,
      body: { error: { data: { code: 'rate_limit_exceeded', scope: 'ip' } } },
    });
    expect(refused.headers['x-ratelimit-limit']).toBe('3');
    await lastCharge(world, org_id);
    expect(await reservations(org_id)).toHaveLength(2);
  });

  it('counts keys that are guessed', async () => {
    const limited = await open({ rate_limits: { ip: { enabled: true, rpm: 2 } } });
    const statuses = [];
    for (let guess = 0; guess < 3; guess += 1) {
      const key = `svc_gk_${String(guess).repeat(40)}`;
      statuses.push((await send(ping, { key, to: limited })).status);
    }
    expect(statuses).toEqual([401, 401, 429]);
  });
});

describe('the policy agent-firewall', () => {
  it('blocks a tool that it forbids, whoever calls it', async () => {
    const guarded = await open({
      policies: { chain: ['agent-firewall'] },
      policy: { 'agent-firewall': { tools: { deny: ['a*'] } } },
    });
    const { org_id, key } = await payer();
    const blocked = await rpc(
      { method: 'tools/call', params: { name: 'add', arguments: { a: 1, b: 1 } } },
      { key, to: guarded },
    );
    expect(blocked).toMatchObject({
      status: 409,
      body: { error: { data: { code: 'input_blocked', type: 'policy_violation' } } },
    });
    const passed = await rpc(
      { method: 'tools/call', params: { name: 'echo', arguments: { text: 'x' } } },
      { key, to: guarded },
    );
    expect(passed.status).toBe(200);
    await lastCharge(world, org_id);
    expect(await reservations(org_id)).toHaveLength(1);
  });

  it('counts the calls of a session that is named, and refuses none without one', async () => {
    const guarded = await open({
      policies: { chain: ['agent-firewall'] },
      policy: { 'agent-firewall': { max_actions_per_session: 2 } },
    });
    const { key } = await payer();
    const call = { method: 'tools/call', params: { name: 'add', arguments: { a: 1, b: 1 } } };
    const found: number[] = [];
    for (const headers of [...Array(3).fill({ 'x-session-id': 'one' }), {}, {}, {}]) {
      found.push((await rpc(call, { key, to: guarded, headers })).status);
    }
    expect(found).toEqual([200, 200, 409, 200, 200, 200]);
  });
});

describe('batches', () => {
  const call = (id: number, name: string) => ({
    ...{ jsonrpc: '2.0', id, method: 'tools/call' },
    params: { name, arguments: { a: id, b: 1 } },
  });

  it('pay for each tool call in them', async () => {
    const { org_id, key } = await payer();
    const batch = [call(1, 'add'), { jsonrpc: '2.0', id: 2, method: 'ping' }, call(3, 'add')];
    const answer = await send(JSON.stringify(batch), { key });
    expect(answer.status).toBe(200);
    await lastCharge(world, org_id);
    expect(await reservations(org_id)).toHaveLength(2);
  });

  it('do not run at all where one call in them is refused, and hold nothing', async () => {
    const { org_id, key } = await payer(1_500_000n);
    const answer = await send(JSON.stringify([call(1, 'add'), call(2, 'add')]), { key });
    expect(answer.status).toBe(402);
    expect(JSON.parse(answer.text)).toMatchObject([
      { id: 1, error: { data: { code: 'insufficient_balance' } } },
      { id: 2, error: { data: { code: 'insufficient_balance' } } },
    ]);
    await until(async () => (await reservations(org_id, 'open')).length === 0);
    expect(await reservations(org_id, 'settled')).toEqual([]);
  });
});

describe('a batch whose calls wait for money', () => {
  it('waits no longer once one of them is refused', async () => {
    const { org_id } = await payer(0n);
    const key = await gatewayKey(world.api, org_id, { allowed_models: ['tools/add'] });
    const call = (id: number, name: string, more: object = {}) => ({
      ...{ jsonrpc: '2.0', id, method: 'tools/call' },
      params: { name, arguments: { a: id, b: 1 }, ...more },
    });
    const began = performance.now();
    const headers = { 'x-svc-hold-ms': '20000' };
    const batch = [call(1, 'add'), call(2, 'echo')];
    const answer = await send(JSON.stringify(batch), { key, headers });
    expect(answer.status).toBe(403);
    expect(performance.now() - began).toBeLessThan(5_000);
    await until(() => gateway.gateway.calls.size === 0);
  });
});

describe('a message', () => {
  it.each([
    [
      'a second method',
      '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"add"}}',
    ],
    [
      'a method in another spelling',
      '{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"add"}}',
    ],
    [
      'a second name',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","name":"slow"}}',
    ],
    [
      'a second address',
      '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a","uri":"file:///b"}}',
    ],
    [
      'a second name in a batch',
      '[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","name":"slow"}}]',
    ],
    [
      'the id of another in its batch',
      '[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}},{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}]',
    ],
    ['a tool and no id', '{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add"}}'],
    ['no object', '7'],
    ['nothing', '[]'],
  ])('with %s is refused', async (_, text) => {
    const answer = await send(text, { key: world.key });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('-32600');
  });

  it('that is no JSON is refused as such', async () => {
    const answer = await send('{"jsonrpc":', { key: world.key });
    expect(answer).toMatchObject({ status: 400 });
    expect(JSON.parse(answer.text)).toMatchObject({ id: null, error: { code: -32_700 } });
  });

  it.each(['POST', 'GET', 'DELETE'] as const)(
    'by %s needs a key that is valid now',
    async (method) => {
      const { org_id, key } = await payer();
      expect((await send(ping, { key, method })).status).not.toBe(401);
      await many(
        world.api.db,
        'update tokens set revoked_at = clock_timestamp() where org_id = :org_id',
        { org_id },
      );
      const answer = await send(ping, { key, method });
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toBe('Bearer');
      expect(JSON.parse(answer.text).error.data.code).toBe('invalid_credential');
    },
  );

  it.each([
    ['to a server that is not there', '{}', '/nobody', 404],
    ['that is no JSON', '{"jsonrpc":', '', 400],
    ['that is too large', ' '.repeat(200_000), '', 413],
  ])(
    '%s is refused for its key, where that was revoked a moment ago',
    async (_, text, at, status) => {
      const { org_id, key } = await payer();
      const to = await open({ body_limit_bytes: 100_000 });
      expect((await send(text, { key, at, to })).status).toBe(status);
      await many(
        world.api.db,
        'update tokens set revoked_at = clock_timestamp() where org_id = :org_id',
        { org_id },
      );
      expect((await send(text, { key, at, to })).status).toBe(401);
    },
  );

  it.each([
    [{ origin: 'https://elsewhere.example' }, 403],
    [{ origin: 'https://app.example' }, 200],
    [{ origin: 'http://localhost:3000' }, 200],
    [{ origin: 'http://localhost:3000', host: 'rebound.example' }, 403],
    [{ origin: 'null' }, 403],
  ])('from a page, with %j, is answered %i', async (headers, status) => {
    expect((await send(ping, { key: world.key, headers })).status).toBe(status);
  });

  it('under a name that this gateway does not go by is refused, where its names are told', async () => {
    const mcp = { servers: [{ name: 'tools', url: tools.url }], allowed_hosts: ['tools.example'] };
    const named = await open({ mcp });
    const { key } = world;
    expect((await send(ping, { key, to: named })).status).toBe(403);
    const headers = { host: 'tools.example' };
    expect((await send(ping, { key, to: named, headers })).status).toBe(200);
  });

  it('to a server that is not there is 404', async () => {
    expect((await send(ping, { key: world.key, at: '/nobody' })).status).toBe(404);
  });
});

describe('sessions', () => {
  it('belong to the key that opened them, at every gateway', async () => {
    const { client, transport } = await connectOld(`${url}/sessions`, bearer(world.key));
    const session = transport.sessionId as string;
    const own = await client.callTool({ name: 'whoami', arguments: {} });
    const upstream = (own.content as { text: string }[])[0]?.text as string;
    expect(session).not.toBe(upstream);
    const other = await gatewayKey(world.api, world.org.org_id);
    const headers = { 'mcp-session-id': session };
    for (const method of ['POST', 'GET', 'DELETE'] as const) {
      const answer = await send(ping, { key: other, method, at: '/sessions', headers });
      expect(answer.status).toBe(404);
      expect(JSON.parse(answer.text)).toMatchObject({ error: { code: -32_001 } });
    }
    const unsealed = { 'mcp-session-id': upstream };
    expect((await send(ping, { key: world.key, at: '/sessions', headers: unsealed })).status).toBe(
      404,
    );
    const second = await world.openGateway({
      settings: { mcp: { servers: [{ name: 'sessions', url: sessions.url }] } },
    });
    const answer = await request(`${second.url}/mcp`, {
      ...{ method: 'POST', body: ping },
      headers: { ...bearer(world.key), ...accepts, ...headers },
    });
    expect(answer.statusCode).toBe(200);
    await answer.body.dump();
    await transport.terminateSession();
    const ended = await send(ping, { key: world.key, at: '/sessions', headers });
    expect(ended.status).toBe(404);
    await client.close();
  });

  it('hear the notices of their server while a stream is open', async () => {
    const { client } = await connectOld(`${url}/sessions`, bearer(world.key));
    const heard: string[] = [];
    client.fallbackNotificationHandler = async ({ params }) =>
      void heard.push(JSON.stringify(params));
    await until(() => gateway.gateway.calls.size > 0);
    await client.callTool({ name: 'whoami', arguments: {} });
    await until(() => heard.length > 0);
    expect(heard[0]).toContain('hello');
    await client.close();
    await until(() => gateway.gateway.calls.size === 0);
  });
});

const accepts = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};
const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

interface Sending {
  key: string;
  /** Another gateway's /mcp. */
  to?: string;
  at?: string;
  method?: 'POST' | 'GET' | 'DELETE';
  headers?: Record<string, string>;
}

async function send(
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

/** One message of the older protocol, or with what the newest wants of each. */
async function rpc(
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

function reservations(org_id: string, status: string | null = null) {
  return many(
    world.api.db,
    `select family, provider, model from reservations
     where org_id = :org_id and (:status::text is null or status = :status) and status <> 'canceled'`,
    { org_id, status },
  );
}
