import { randomUUID } from 'node:crypto';
import type { Db } from '../../../domain/sql';
import { type Answer, type CallApi, makeTenant, startApi, type Tenant } from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import { BODY_HASH, makePrice, reserveBody, settleBody } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await gatewayToken(db);
  platform = await platformKey(db);
  await makePrice(db);
});

afterAll(() => close());

function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  return call('post', `/v1/gateway/${path}`, { key, body, headers });
}

const reserve = (body: unknown) => post('wallets/reserve', body);
const settle = (body: unknown) => post('wallets/settle', body);

async function funded(amount: number): Promise<Tenant> {
  const tenant = await makeTenant(db);
  const body = { org_id: tenant.org_id, target_wallet_owner_type: 'organization', amount };
  await call('post', '/v1/admin/wallets/credit', { key: platform, body });
  return tenant;
}

test('reserve and settle answer every stated field, in major units', async () => {
  const { org_id, wallet_id } = await funded(1);
  const held = await reserve(reserveBody(org_id, 2_000));
  expect([held.status, held.body]).toEqual([
    200,
    {
      reservation_id: expect.stringMatching(/^res_/),
      wallet_id,
      wallet_owner_type: 'organization',
      estimated_cost: 0.002,
      reserved_amount: 0.002,
      currency: 'USD',
      balance_after: 0.998,
      expires_at: expect.stringMatching(/Z$/),
      max_completion_tokens: 0,
      warnings: [],
    },
  ]);
  const { reservation_id } = held.body;
  const settled = await settle(settleBody(org_id, reservation_id, 500));
  expect([settled.status, settled.body]).toEqual([
    200,
    {
      reservation_id,
      status: 'settled',
      actual_cost: 0.0005,
      released_amount: 0.0015,
      wallet_id,
      balance_after: 0.9995,
      transaction_id: expect.stringMatching(/^txn_/),
    },
  ]);
  const again = await settle(settleBody(org_id, reservation_id, 500));
  expect(again.body).toEqual(settled.body);
  const with_lines = await settle({ ...settleBody(org_id, reservation_id, 500), with_cost: true });
  expect(with_lines.body).toEqual({
    ...settled.body,
    price_lines: [{ what: 'input', quantity: '500', unit_price: '0.000001', amount: '0.0005' }],
  });
});

test('a settle that asks for lines has none where nothing was charged or held', async () => {
  const { org_id } = await funded(1);
  const { reservation_id } = (await reserve(reserveBody(org_id, 2_000))).body;
  const canceled = { org_id, outcome: 'canceled', with_cost: true };
  expect((await settle({ ...canceled, reservation_id })).body.price_lines).toEqual([]);
  const unknown = await settle({ ...canceled, request_id: randomUUID() });
  expect([unknown.status, unknown.body.price_lines]).toEqual([200, undefined]);
});

test('the standing of a caller of no organization is 404', async () => {
  const { status, body } = await post('keys/funds', { org_id: 'org_unknown' });
  expect([status, body.error.param]).toEqual([404, 'org_id']);
});

test('what is optional may be absent or null; a completion without a cap holds the setting', async () => {
  const { org_id } = await funded(1);
  const required = {
    org_id,
    provider: 'openai',
    model: 'gpt-4o-mini',
    estimated_prompt_tokens: 0,
    request_body_hash: BODY_HASH,
  };
  const optional = [
    'max_completion_tokens',
    'user_id',
    'team_id',
    'agent_id',
    'key_id',
    'secret_id',
    'session_id',
    'request_id',
    'family',
    'units',
    'fallbacks',
    'session_limits',
  ];
  const nulls = Object.fromEntries(optional.map((name) => [name, null]));
  for (const body of [required, { ...required, ...nulls }])
    expect((await reserve(body)).body.estimated_cost).toBe(0.008192);
});

test('a settle may name its reservation alone, or its request with the organization', async () => {
  const { org_id } = await funded(1);
  const request_id = randomUUID();
  const held = await reserve(reserveBody(org_id, 10, { request_id }));
  const settled = await settle({
    org_id,
    request_id,
    outcome: 'completed',
    usage: { prompt_tokens: 10 },
  });
  expect(settled.body).toMatchObject({
    reservation_id: held.body.reservation_id,
    status: 'settled',
  });
  const other = await reserve(reserveBody(org_id, 10));
  const { reservation_id } = other.body;
  expect((await settle({ reservation_id, outcome: 'canceled' })).body.status).toBe('released');
});

test('reserve and verify turn away gateways outside 1.4 and 1.5 with 426; settle and extend take all', async () => {
  const { org_id } = await funded(1);
  const gateway_key = await makeKey(db, org_id, { token_type: 'gateway' });
  const tried = async (version: string) => {
    const headers = { 'x-svc-gateway-version': version };
    const held = await post('wallets/reserve', reserveBody(org_id, 1), headers);
    const verified = await post('keys/verify', { key: gateway_key }, headers);
    const request_id = randomUUID();
    const settled = await post(
      'wallets/settle',
      { org_id, request_id, outcome: 'canceled' },
      headers,
    );
    const extended = await post(
      'wallets/extend',
      { items: [{ org_id, reservation_id: 'x' }] },
      headers,
    );
    return [held, verified, settled, extended].map(({ status }) => status);
  };
  for (const good of ['', '1.4.0', '1.5.0', '1.5.12', '1.4.9-rc.1'])
    expect(await tried(good)).toEqual([200, 200, 200, 200]);
  for (const bad of ['1.3.9', '1.6.0', '2.4.0', '0.1.4.0', '1.50.1', 'x'])
    expect(await tried(bad)).toEqual([426, 426, 200, 200]);
});
