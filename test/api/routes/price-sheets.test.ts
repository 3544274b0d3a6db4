import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { gatewayToken, platformKey } from '../../support/keys';
import { credit, makePrice, reserveBody } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let reservation_id: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  await makePrice(db, {
    input_per_1m: 0.15,
    cached_input_per_1m: 0.075,
    output_per_1m: 0.6,
    per_web_search: 0.01,
  });
  tenant = await makeTenant(db);
  await credit(db, tenant.org_id, tenant.wallet_id, 5_000_000_000n);
});

afterAll(() => close());

const sheet = (id: string, key?: string) =>
  call('get', `/v1/reservations/${id}/price-sheet`, key ? { key } : {});

test('the lines of a bill add up to what the request cost', async () => {
  const key = await gatewayToken(db);
  const body = reserveBody(tenant.org_id, 100);
  const hold = await call('post', '/v1/gateway/wallets/reserve', { key, body });
  ({ reservation_id } = hold.body);
  expect((await sheet(reservation_id, tenant.billing_key)).body).toMatchObject({
    status: 'open',
    actual_cost: null,
    lines: [],
  });
  const usage = { prompt_tokens: 100, completion_tokens: 7, cached_tokens: 40, web_searches: 2 };
  const settle = { org_id: tenant.org_id, reservation_id, outcome: 'completed', usage };
  const settled = await call('post', '/v1/gateway/wallets/settle', { key, body: settle });
  const { status, body: told } = await sheet(reservation_id, tenant.billing_key);
  expect([status, told.actual_cost]).toEqual([200, settled.body.actual_cost]);
  expect(told.lines.map(({ what }: { what: string }) => what)).toEqual(
    expect.arrayContaining(['input', 'cached_input', 'output', 'web_search']),
  );
  const sum = told.lines.reduce(
    (all: number, { amount }: { amount: string }) => all + Number(amount),
    0,
  );
  expect(sum).toBeCloseTo(told.actual_cost, 12);
});

test('a bill is shown to the billing people of its organization and to platform admins alone', async () => {
  const other = await makeTenant(db);
  expect(refusal(await sheet(reservation_id, other.billing_key)).status).toBe(404);
  expect(refusal(await sheet('res_unknown', tenant.billing_key)).status).toBe(404);
  expect((await sheet(reservation_id)).status).toBe(401);
  expect((await sheet(reservation_id, await platformKey(db))).status).toBe(200);
});
