import { request } from 'undici';
import { many } from '../../../domain/sql';
import { gatewayKey, lastCharge } from '../../support/gateway';
import { credit } from '../../support/ledger';
import { connectNew, connectOld } from '../../support/mcp';
import { until } from '../../support/until';
import {
  accepts,
  bearer,
  gateway,
  modern,
  open,
  payer,
  ping,
  reservations,
  rpc,
  send,
  sessions,
  url,
  world,
} from './serving';

/** The events of the calls that were paid for. */
async function completions(org_id: string) {
  const sql = `select payload from events where org_id = :org_id and type = 'request.completed'`;
  const rows = await many<{ payload: object }>(world.api.db, sql, { org_id });
  return rows.map(({ payload }) => payload);
}

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
      status: 'settled',
      outcome: 'completed',
      actual_cost_nanos: 1_000_000n,
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
    const allowed_models = ['gpt-4o', 'tools/ad', 'tools/b*', '*/add'];
    const none = await gatewayKey(world.api, org_id, { allowed_models });
    const refusal = await rpc(call, { key: none });
    expect(refusal).toMatchObject({
      status: 403,
      body: { error: { data: { code: 'model_not_allowed' } } },
    });
    for (const model of ['tools/add', 'tools/*', 'tools/a*', '*']) {
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
      method: 'POST',
      body: ping,
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
    // A call before the stream has reached its server is not heard of.
    await until(async () => {
      await client.callTool({ name: 'whoami', arguments: {} });
      return heard.length > 0;
    });
    expect(heard[0]).toContain('hello');
    await client.close();
    await until(() => gateway.gateway.calls.size === 0);
  });
});
