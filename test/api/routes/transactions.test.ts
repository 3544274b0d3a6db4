import type { Db } from '../../../domain/sql';
import {
  type CallApi,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
  platform = await platformKey(db);
  for (let n = 0; n < 7; n += 1) await credit();
});

afterAll(() => close());

function credit() {
  return call('post', '/v1/wallets/credit', {
    key: tenant.billing_key,
    body: { target_wallet_owner_type: 'organization', amount: 1 },
  });
}

function list(query: string, key = tenant.billing_key) {
  return call('get', `/v1/wallets/${tenant.wallet_id}/transactions${query}`, { key });
}

const seqs = (body: { transactions: { seq: number }[] }) => body.transactions.map(({ seq }) => seq);

test('the ledger is newest first, in pages that together are all of it', async () => {
  const first = await list('?per_page=3');
  expect([seqs(first.body), first.body.has_more, first.body.total]).toEqual([[7, 6, 5], true, 7]);
  const last = await list('?per_page=3&page=3');
  expect([seqs(last.body), last.body.has_more, last.body.total]).toEqual([[1], false, 7]);
  const beyond = await list('?per_page=3&page=4');
  expect([seqs(beyond.body), beyond.body.has_more, beyond.body.total]).toEqual([[], false, 7]);
});

test('pages are stable under inserts: with the first total as seq_max nothing shifts, doubles or is lost', async () => {
  const first = await list('?per_page=3');
  const { total } = first.body;
  const seen = seqs(first.body);
  for (let page = 2; seen.length < total; page += 1) {
    await credit();
    const { body } = await list(`?per_page=3&page=${page}&seq_max=${total}`);
    expect([body.total, body.has_more]).toEqual([total, page * 3 < total]);
    seen.push(...seqs(body));
  }
  expect(seen).toEqual(Array.from({ length: total }, (_, n) => total - n));
  expect((await list('?seq_max=0')).body).toEqual({ transactions: [], has_more: false, total: 0 });
  expect((await list('?seq_max=1000000')).body.total).toBeLessThan(1_000);
});

test.each([
  'page=0',
  'page=1.5',
  'page=x',
  'page=',
  'per_page=0',
  'per_page=201',
  'per_page=-1',
  'page=1&page=2',
  'seq_max=-1',
  'seq_max=x',
])('a window of ?%s is refused by name', async (query) => {
  expect(refusal(await list(`?${query}`))).toMatchObject({
    status: 422,
    param: query.split('=')[0],
  });
});

test('an admin sees any ledger and all wallets, filtered by organization', async () => {
  const ledger = await call('get', `/v1/admin/wallets/${tenant.wallet_id}/transactions`, {
    key: platform,
  });
  expect(ledger.body.total).toBeGreaterThan(6);
  const wallets = await call('get', `/v1/admin/wallets?org_id=${tenant.org_id}`, { key: platform });
  expect(wallets.body).toMatchObject({
    wallets: [{ wallet_id: tenant.wallet_id }],
    total: 1,
    has_more: false,
  });
  const unknown = await call('get', '/v1/admin/wallets/wal_unknown/transactions', {
    key: platform,
  });
  expect(unknown.status).toBe(404);
});

test('a platform admin reads a ledger through the ordinary route by the id of the wallet alone', async () => {
  expect((await list('', platform)).status).toBe(200);
});

test('a transfer names its other side and who made it, on both ledgers and to whom it may be known', async () => {
  const person = await makePerson({ db, call }, tenant, 'member');
  const moved = await call('post', '/v1/wallets/allocate', {
    key: tenant.billing_key,
    body: { user_id: person.user_id, amount: 1 },
  });
  expect(moved.status).toBe(200);
  const { from, to, transactions } = moved.body;
  const made_by = { id: transactions[0].actor, name: expect.any(String) };
  const sideOf = (
    { wallet_id, owner_type, owner_name }: Record<string, string>,
    owner_id: string,
  ) => ({
    ...{ wallet_id, owner_type, owner_id, owner_name },
  });
  const newest = async (wallet_id: string, key: string) =>
    (await call('get', `/v1/wallets/${wallet_id}/transactions?per_page=1`, { key })).body
      .transactions[0];
  const own_side = sideOf(to, person.user_id);
  const giving = await newest(from.wallet_id, tenant.billing_key);
  expect(giving).toMatchObject({ type: 'allocation_out', counterpart: own_side, made_by });
  const giver = sideOf(from, tenant.org_id);
  for (const key of [tenant.billing_key, person.key])
    expect(await newest(to.wallet_id, key)).toMatchObject({
      ...{ type: 'allocation_in', counterpart: giver },
    });
  // Whose wallet got it is no other member's business; the person sees their own.
  expect((await newest(from.wallet_id, person.key)).counterpart).toEqual(own_side);
  expect((await newest(from.wallet_id, tenant.member_key)).counterpart).toBeNull();
  const { body } = await list('?type=credit&per_page=1');
  expect(body.transactions[0]).toMatchObject({ counterpart: null, made_by });
});
