import * as organizations from '../../../domain/people/organizations';
import type { Db } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
});

afterAll(() => close());

const toOrganization = { target_wallet_owner_type: 'organization' };

function credit(tenant: Tenant, body: object): Promise<Answer> {
  return call('post', '/v1/wallets/credit', {
    key: tenant.billing_key,
    body: { ...toOrganization, ...body },
  });
}

async function funded(amount: number, currency = 'USD'): Promise<Tenant> {
  const tenant = await makeTenant(db, currency);
  expect((await credit(tenant, { amount })).status).toBe(201);
  return tenant;
}

function settings(tenant: Tenant, body: object): Promise<Answer> {
  const path = `/v1/admin/organizations/${tenant.org_id}/wallet-settings`;
  return call('put', path, { key: platform, body });
}

async function walletsOf(key: string) {
  const { body } = await call('get', '/v1/wallets', { key });
  return Object.fromEntries(
    body.wallets.map((wallet: Record<string, unknown>) => [wallet.owner_type, wallet]),
  );
}

test('a credit answers the wallet and its entry, and the ledger shows it', async () => {
  const tenant = await makeTenant(db);
  const { status, body } = await credit(tenant, { amount: 12.5, description: 'first money' });
  expect(status).toBe(201);
  expect(body.wallet).toEqual({
    wallet_id: tenant.wallet_id,
    owner_type: 'organization',
    owner_org_id: tenant.org_id,
    owner_team_id: null,
    owner_user_id: null,
    owner_name: expect.any(String),
    balance: 12.5,
    reserved: 0,
    low_balance_threshold: null,
    currency: 'USD',
  });
  expect(body.transaction).toMatchObject({
    type: 'credit',
    amount: 12.5,
    balance_after: 12.5,
    seq: 1,
    description: 'first money',
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
  });
  const path = `/v1/wallets/${tenant.wallet_id}/transactions`;
  const ledger = await call('get', path, { key: tenant.billing_key });
  expect(ledger.body).toMatchObject({
    transactions: [{ id: body.transaction.id }],
    has_more: false,
    total: 1,
  });
});

test('0.1 credited a thousand times gives 100 exactly', async () => {
  const tenant = await makeTenant(db);
  for (let n = 0; n < 100; n += 1) {
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => credit(tenant, { amount: 0.1 })),
    );
    expect(answers.every(({ status }) => status === 201)).toBe(true);
  }
  expect((await walletsOf(tenant.billing_key)).organization.balance).toBe(100);
});

test('one nano and an amount of 15 digits come back exactly', async () => {
  const tenant = await makeTenant(db);
  expect((await credit(tenant, { amount: 1e-9 })).body.wallet.balance).toBe(1e-9);
  const exact = await makeTenant(db);
  expect((await credit(exact, { amount: 838860.799999999 })).body.wallet.balance).toBe(
    838860.799999999,
  );
});

const wrongAmounts = [
  '-1',
  '0',
  '"1"',
  '1e400',
  '1e-12',
  '9007199254740993',
  'null',
  '[1]',
  'true',
];
const moves: [string, string, string][] = [
  ['/v1/wallets/credit', 'billing_key', '"target_wallet_owner_type": "organization"'],
  ['/v1/admin/wallets/credit', 'platform', '"target_wallet_owner_type": "organization"'],
  ['/v1/wallets/allocate', 'billing_key', '"team_id": "TEAM"'],
  ['/v1/wallets/reclaim', 'billing_key', '"team_id": "TEAM"'],
];

test.each(moves)(
  '%s refuses amounts that are not money above zero, and writes nothing',
  async (path, who, named) => {
    const tenant = await funded(10);
    const key = who === 'platform' ? platform : tenant.billing_key;
    const org = who === 'platform' ? `"org_id": "${tenant.org_id}",` : '';
    const send = (amount: string) =>
      call('post', path, {
        key,
        body: `{${org} ${named.replace('TEAM', tenant.team_id)}, "amount": ${amount}}`,
      });
    for (const amount of wrongAmounts) {
      const answer = await send(amount);
      expect({ amount, status: answer.status, param: answer.body.error.param }).toEqual({
        amount,
        status: 422,
        param: 'amount',
      });
    }
    expect(refusal(await send('NaN'))).toMatchObject({ status: 400, code: 'invalid_json' });
    const ledger = await call('get', `/v1/wallets/${tenant.wallet_id}/transactions`, {
      key: tenant.billing_key,
    });
    expect(ledger.body.total).toBe(1);
  },
);

test('a credit above the bound of a wallet is refused with its own code', async () => {
  const tenant = await funded(9_000_000_000);
  expect(refusal(await credit(tenant, { amount: 1e-9 }))).toEqual({
    status: 422,
    code: 'amount_too_large',
    param: 'amount',
  });
});

test('a wallet of a team or user is made on first use; unknown owners create nothing', async () => {
  const tenant = await makeTenant(db);
  const before = await db('wallets').count();
  const unknown = {
    target_wallet_owner_type: 'team',
    target_wallet_owner_id: 'team_unknown',
    amount: 1,
  };
  expect((await credit(tenant, unknown)).status).toBe(404);
  const unnamed = await credit(tenant, { target_wallet_owner_type: 'user', amount: 1 });
  expect(refusal(unnamed)).toMatchObject({ status: 422, param: 'target_wallet_owner_id' });
  expect(await db('wallets').count()).toEqual(before);
  const made = await credit(tenant, {
    target_wallet_owner_type: 'user',
    target_wallet_owner_id: tenant.member_id,
    amount: 1,
  });
  expect(made.body.wallet).toMatchObject({
    owner_type: 'user',
    owner_user_id: tenant.member_id,
    balance: 1,
  });
});

test('allocate and reclaim move the same money: two entries that sum to zero', async () => {
  const tenant = await funded(10);
  const move = (path: string, amount: number) =>
    call('post', path, {
      key: tenant.billing_key,
      body: { team_id: tenant.team_id, amount, note: 'q3' },
    });
  const out = await move('/v1/wallets/allocate', 4);
  expect(out.status).toBe(200);
  expect(out.body).toMatchObject({
    from: { owner_type: 'organization', balance: 6 },
    to: { owner_type: 'team', owner_team_id: tenant.team_id, balance: 4 },
    transactions: [
      { type: 'allocation_out', amount: -4, balance_after: 6, description: 'q3' },
      { type: 'allocation_in', amount: 4, balance_after: 4, description: 'q3' },
    ],
  });
  expect(out.body.transactions[0].transfer_id).toBe(out.body.transactions[1].transfer_id);
  expect((await move('/v1/wallets/reclaim', 4)).body).toMatchObject({
    from: { owner_type: 'team', balance: 0 },
    to: { owner_type: 'organization', balance: 10 },
  });
  const short = await move('/v1/wallets/reclaim', 1e-9);
  expect(refusal(short)).toMatchObject({ status: 409, code: 'insufficient_balance' });
  expect(short.headers['x-should-retry']).toBe('false');
});

test('allocate needs exactly one of team and user', async () => {
  const tenant = await funded(10);
  for (const named of [{}, { team_id: tenant.team_id, user_id: tenant.member_id }]) {
    const answer = await call('post', '/v1/wallets/allocate', {
      key: tenant.billing_key,
      body: { ...named, amount: 1 },
    });
    expect(refusal(answer)).toMatchObject({ status: 422, param: 'team_id' });
  }
});

test('an archived team keeps its money: it takes no more, and can be reclaimed', async () => {
  const tenant = await funded(10);
  const body = { team_id: tenant.team_id, amount: 3 };
  await call('post', '/v1/wallets/allocate', { key: tenant.billing_key, body });
  await organizations.archiveTeam(db, tenant.org_id, tenant.team_id);
  const team = { target_wallet_owner_type: 'team', target_wallet_owner_id: tenant.team_id };
  expect((await credit(tenant, { ...team, amount: 1 })).status).toBe(404);
  const back = await call('post', '/v1/wallets/reclaim', {
    key: tenant.billing_key,
    body: { team_id: tenant.team_id, amount: 3 },
  });
  expect(back.body.to.balance).toBe(10);
});

test('under platform_only an organization moves its own money and makes none', async () => {
  const tenant = await funded(5);
  expect((await settings(tenant, { manual_credit: 'platform_only' })).body.manual_credit).toBe(
    'platform_only',
  );
  const team = { target_wallet_owner_type: 'team', target_wallet_owner_id: tenant.team_id };
  const moved = await credit(tenant, { ...team, amount: 2 });
  expect(moved.status).toBe(201);
  expect(moved.body).toMatchObject({
    wallet: { balance: 2 },
    transaction: { type: 'allocation_in', amount: 2 },
  });
  expect((await walletsOf(tenant.billing_key)).organization.balance).toBe(3);
  expect(refusal(await credit(tenant, { ...team, amount: 4 }))).toMatchObject({
    status: 409,
    code: 'insufficient_balance',
  });
  expect(refusal(await credit(tenant, { amount: 1 }))).toMatchObject({
    status: 409,
    code: 'manual_credit_not_allowed',
  });
  const platform_credit = await call('post', '/v1/admin/wallets/credit', {
    key: platform,
    body: { ...toOrganization, org_id: tenant.org_id, amount: 1 },
  });
  expect(platform_credit.body.wallet.balance).toBe(4);
});
