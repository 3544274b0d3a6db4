import * as paymentEvents from '../../../domain/payments/events';
import { type Db, many } from '../../../domain/sql';
import {
  type CallApi,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { platformKey } from '../../support/keys';
import { credit } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
  platform = await platformKey(db);
});

afterAll(() => close());

const list = async (path: string, key = tenant.billing_key) => {
  const { status, body } = await call('get', path, { key });
  expect(status).toBe(200);
  return body;
};

test('wallets are found by words of their owners and by how they stand', async () => {
  const wallet = async (name: string, nanos: bigint, threshold = 0n) => {
    const person = await makePerson({ db, call }, tenant, 'member');
    await db('users').where({ id: person.user_id }).update({ name });
    const { id } = (
      await many<{ id: string }>(db, `select id from ensure_wallet(:org_id, 'user', :id)`, {
        org_id: tenant.org_id,
        id: person.user_id,
      })
    )[0] as { id: string };
    if (nanos > 0n) await credit(db, tenant.org_id, id, nanos);
    await db('wallets').where({ id }).update({ low_balance_threshold_nanos: threshold });
    return id;
  };
  const rich = await wallet('Zoe Rich', 10n ** 10n, 1n);
  const low = await wallet('Zoe Low', 10n ** 9n, 10n ** 10n);
  const empty = await wallet('Zacharias', 0n);
  const found = async (query: string, key?: string, path = '/v1/wallets') =>
    (await list(`${path}?${query}`, key)).wallets
      .map(({ wallet_id }: { wallet_id: string }) => wallet_id)
      .sort();
  const both = [rich, low].sort();
  const stranger = await makeTenant(db);
  const made = await call('post', `/v1/organizations/${tenant.org_id}/teams`, {
    key: tenant.owner_key,
    body: { name: 'People of Zoe' },
  });
  const team_id: string = made.body.id;
  await many(
    db,
    `insert into team_members (team_id, user_id) select :team_id, owner_user_id from wallets where id = any(:both)`,
    { team_id, both },
  );
  for (const more of ['', '&cursor=first', '&sort=created_at']) {
    expect(await found(`q=zoe${more}`)).toEqual(both);
    expect(await found(`q=zoe ric${more}`)).toEqual([rich]);
    expect(await found(`status=low${more}`)).toEqual([low]);
    expect(await found(`status=depleted&owner_type=user${more}`)).toEqual([empty]);
    expect(await found(`q=zoe&status=healthy${more}`)).toEqual([rich]);
    expect(await found(`status=in_debt${more}`)).toEqual([]);
    expect(await found(`member_of=${team_id}${more}`)).toEqual(both);
    expect(await found(`member_of=${team_id}&status=low${more}`)).toEqual([low]);
  }
  expect(await found(`member_of=${team_id}`, tenant.member_key)).toEqual([]);
  for (const [query, key] of [
    ['member_of=team_of_nobody', tenant.billing_key],
    [`member_of=${team_id}`, stranger.billing_key],
  ] as const) {
    const refused = await call('get', `/v1/wallets?${query}`, { key });
    expect(refusal(refused)).toEqual({ status: 404, code: 'not_found', param: 'member_of' });
  }
  expect(await found(`q=zoe&org_id=${tenant.org_id}`, platform, '/v1/admin/wallets')).toEqual(both);
  expect(await found('q=zoe', tenant.member_key)).toEqual([]);
  const other = await makeTenant(db);
  expect(await found('q=zoe', other.billing_key)).toEqual([]);
});

test('whoever bills reads the wallet settings of their own organization', async () => {
  const at = `/v1/organizations/${tenant.org_id}/wallet-settings`;
  expect(await list(at)).toMatchObject({ currency: 'USD', time_zone: 'UTC' });
  const other = await makeTenant(db);
  expect((await call('get', at, { key: other.billing_key })).status).toBe(404);
  expect((await call('get', at, { key: tenant.member_key })).status).toBe(403);
});

test("a buyer lists their own payment sessions, and nobody else's", async () => {
  const { org_id, member_id, wallet_id } = tenant;
  const session = (user_id: string, status: string) => ({
    ...{ org_id, user_id, created_by: user_id, wallet_id, provider: 'payment_provider_b', status },
    ...{
      surface: 'console',
      amount_nanos: 10n ** 9n,
      currency: 'USD',
      target_wallet_owner_type: 'user',
    },
    ...{ return_url: 'http://127.0.0.1/a', cancel_url: 'http://127.0.0.1/b' },
    expires_at: new Date(),
  });
  const person = await makePerson({ db, call }, tenant, 'member');
  await db('payment_sessions').insert([
    session(member_id, 'canceled'),
    session(member_id, 'expired'),
    session(person.user_id, 'canceled'),
  ]);
  const own = await list('/v1/payments/sessions', tenant.member_key);
  expect(own).toMatchObject({
    total: 2,
    sessions: [{ user_id: member_id }, { user_id: member_id }],
  });
  const canceled = await list('/v1/payments/sessions?status=canceled', person.key);
  expect(canceled).toMatchObject({ total: 1, sessions: [{ user_id: person.user_id }] });
  expect(canceled.sessions[0].refund_status).toBe(null);
});

test('webhooks that name no payment of ours are listed, by page and by cursor', async () => {
  const event = (id: string) =>
    paymentEvents.record(db, {
      ...{ provider: 'payment_provider_b', id, type: 'payment.captured', topic: 'payment' },
      ...{ payment_session_id: null, order_id: `order of ${id}`, capture_id: null, body: '{}' },
    });
  for (const id of ['one', 'two', 'three']) await event(id);
  const path = '/v1/admin/payments/webhooks?status=unmatched';
  const { webhooks, total } = await list(path, platform);
  expect(total).toBe(3);
  expect(webhooks[0]).toMatchObject({ status: 'unmatched', order_id: 'order of three' });
  const first = await list(`${path}&cursor=first&per_page=2`, platform);
  const rest = await list(`${path}&cursor=${first.next}&per_page=2`, platform);
  const ids = [...first.webhooks, ...rest.webhooks].map(({ id }: { id: string }) => id);
  expect([ids, rest.next]).toEqual([['three', 'two', 'one'], null]);
  expect((await list('/v1/admin/payments/webhooks?status=sent', platform)).total).toBe(0);
});
