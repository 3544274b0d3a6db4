import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
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
