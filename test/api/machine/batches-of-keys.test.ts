import { randomUUID } from 'node:crypto';
import { sha256 } from '../../../domain/digest';
import { newId } from '../../../domain/ids';
import { type Db, many } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
import { gatewayToken } from '../../support/keys';
import { makePrice, reserveBody, settleBody } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;
let tenant: Tenant;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await gatewayToken(db);
  tenant = await makeTenant(db);
  const body = { target_wallet_owner_type: 'organization', amount: 1 };
  await call('post', '/v1/wallets/credit', { key: tenant.billing_key, body });
  await makePrice(db);
});

afterAll(() => close());

test('a key that was good a moment ago and is revoked holds nothing', async () => {
  const { org_id } = tenant;
  const revoked = await gatewayToken(db);
  const send = (items: object[]) =>
    call('post', '/v1/gateway/wallets/batch', { key: revoked, body: { items } });
  const reserve = (request_id: string) => ({
    id: 'r',
    op: 'reserve',
    body: reserveBody(org_id, 1, { request_id }),
  });
  const [before, good, late] = [randomUUID(), randomUUID(), randomUUID()];
  // The second one is remembered from the first.
  for (const request_id of [before, good])
    expect((await send([reserve(request_id)])).status).toBe(200);
  await db('tokens')
    .where(
      'id',
      'in',
      db('token_secrets')
        .where({ hash: await sha256(revoked) })
        .select('token_id'),
    )
    .update({ revoked_at: new Date() });
  const others = [
    { id: 'x', op: 'extend', body: { items: [{ org_id, reservation_id: 'res_unknown' }] } },
    { id: 'w', op: 'reserve', body: { nonsense: 1 } },
    { id: 's', op: 'settle', body: { ...settleBody(org_id, 'res_unknown', 1), org_id: undefined } },
  ];
  for (const items of [[reserve(late)], ...others.map((item) => [item])])
    expect(refusal(await send(items))).toMatchObject({ status: 401, code: 'invalid_credential' });
  const held = await db('reservations').where('request_id', 'in', [before, good, late]);
  expect(held.map(({ request_id }) => request_id).sort()).toEqual([before, good].sort());
});

test('events travel with a batch and are written in its transaction, or are given back', async () => {
  const { org_id } = tenant;
  const tell = async (carrier: string, request_id: string) => {
    const event = {
      ...{ id: newId('evt'), org_id, type: 'request.completed', request_id },
      payload: { outcome: 'completed' },
    };
    const answer = await call('post', '/v1/gateway/wallets/batch', {
      key,
      body: {
        items: [{ id: 'r', op: 'reserve', body: reserveBody(carrier, 1, { request_id }) }],
        events: { id: 'e', items: [event] },
      },
    });
    const lines: { id: string; status: number }[] = answer.text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map(({ id }) => id).sort()).toEqual(['e', 'r']);
    return lines.find(({ id }) => id === 'e')?.status;
  };
  const together = (request_id: string) =>
    many(
      db,
      `select 1 from events e join reservations r on r.request_id = e.request_id
       where e.request_id = :request_id and e.transaction_id::xid = r.xmin`,
      { request_id },
    );
  const [first, second] = [randomUUID(), randomUUID()];
  await tell(org_id, randomUUID());
  expect(await tell(org_id, first)).toBe(200);
  expect(await together(first)).toHaveLength(1);
  // The item is refused before it has a transaction.
  expect(await tell('', second)).toBe(503);
  expect(await db('events').where({ request_id: second })).toEqual([]);
});
