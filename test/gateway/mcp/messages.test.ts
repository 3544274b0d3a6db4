import { many } from '../../../domain/sql';
import { gatewayKey, lastCharge } from '../../support/gateway';
import { until } from '../../support/until';
import { gateway, open, payer, ping, reservations, rpc, send, tools, world } from './serving';

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

describe('batches', () => {
  const call = (id: number, name: string) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
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
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name, arguments: { a: id, b: 1 }, ...more },
    });
    const headers = { 'x-svc-hold-ms': '600000' };
    const batch = [call(1, 'add'), call(2, 'echo')];
    const answer = await send(JSON.stringify(batch), { key, headers });
    expect(answer.status).toBe(403);
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
