import { type Db, many, one } from '../../../domain/sql';
import {
  type CallApi,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, makeKey, platformKey } from '../../support/keys';
import { makePrice, reserveBody, settleBody } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let machine: string;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  machine = await gatewayToken(db);
  platform = await platformKey(db);
  await makePrice(db);
});

beforeEach(async () => {
  tenant = await makeTenant(db);
});

afterAll(() => close());

const ask = (verb: 'archive' | 'unarchive' | 'suspend', body: object = {}) =>
  call('post', `/v1/admin/organizations/${tenant.org_id}/${verb}`, { key: platform, body });

const reserve = () =>
  call('post', '/v1/gateway/wallets/reserve', {
    key: machine,
    body: reserveBody(tenant.org_id, 1_000),
  });

const credit = (amount: number) =>
  call('post', '/v1/admin/wallets/credit', {
    key: platform,
    body: { org_id: tenant.org_id, target_wallet_owner_type: 'organization', amount },
  });

/** What stands in the way of the end of the organization, in its words. */
async function inTheWay(): Promise<string> {
  const answer = await ask('archive');
  expect(refusal(answer)).toEqual({ status: 409, code: 'organization_in_use', param: 'id' });
  return answer.body.error.message;
}

async function listed(status: string): Promise<string[]> {
  const path = `/v1/admin/organizations?status=${status}&per_page=200`;
  const { body } = await call('get', path, { key: platform });
  return body.organizations.map(({ id }: { id: string }) => id);
}

test('an archived organization is nowhere, its keys and sessions are revoked, and its invitations void', async () => {
  const { org_id, owner_key } = tenant;
  const person = await makePerson({ db, call }, tenant, 'admin');
  const gateway_key = await makeKey(db, org_id, { token_type: 'gateway' });
  const session = await call('post', '/v1/sessions', { body: { access_key: person.key } });
  expect(session.status).toBe(201);
  const invitations = `${person.at}/invitations`;
  expect((await call('post', invitations, { key: owner_key })).status).toBe(201);

  expect(await ask('archive')).toMatchObject({ status: 200, body: {} });
  for (const key of [owner_key, person.key, session.body.key])
    expect((await call('get', '/v1/me', { key })).status).toBe(401);
  const body = { key: gateway_key };
  expect((await call('post', '/v1/gateway/keys/verify', { key: machine, body })).status).toBe(401);
  expect(refusal(await reserve())).toMatchObject({ status: 403, code: 'organization_suspended' });
  expect((await credit(1)).status).toBe(404);
  const { open } = await one<{ open: number }>(
    db,
    `select count(*)::int as open from one_time_codes
     where org_id = :org_id and used_at is null and expires_at > clock_timestamp()`,
    { org_id },
  );
  expect(open).toBe(0);
  expect(await listed('archived')).toContain(org_id);
  const { body: shown } = await call('get', '/v1/admin/organizations?status=archived', {
    key: platform,
  });
  const found = shown.organizations.find(({ id }: { id: string }) => id === org_id);
  expect(Date.parse(found.archived_at)).toBeLessThanOrEqual(Date.now() + 60_000);
  for (const status of ['active', 'suspended']) expect(await listed(status)).not.toContain(org_id);
  expect((await ask('archive')).status).toBe(404);
  expect((await ask('suspend')).status).toBe(404);
});

test('unarchive brings an organization back without its keys, and a repeat changes nothing', async () => {
  const person = await makePerson({ db, call }, tenant, 'owner');
  await ask('archive');
  for (let times = 0; times < 2; times += 1)
    expect(await ask('unarchive')).toMatchObject({
      status: 200,
      body: { id: tenant.org_id, suspended_at: null, suspended_for: null, archived_at: null },
    });
  expect((await call('get', '/v1/me', { key: tenant.owner_key })).status).toBe(401);
  const key = await makeKey(db, tenant.org_id, { user_id: person.user_id });
  expect((await call('get', '/v1/me', { key })).body.memberships).toMatchObject([
    { org_id: tenant.org_id, role: 'owner' },
  ]);
  expect((await credit(1)).status).toBe(201);
  expect((await reserve()).status).toBe(200);
});

test('one that was suspended before it was archived is so again', async () => {
  await ask('suspend', { reason: 'unpaid' });
  expect((await ask('archive')).status).toBe(200);
  expect((await ask('unarchive')).body).toMatchObject({
    suspended_at: expect.any(String),
    suspended_for: 'unpaid',
  });
});

test('nothing ends while there is a ticket', async () => {
  expect((await reserve()).status).toBe(402);
  expect(await inTheWay()).toContain('has open cost tickets.');
});

test('nothing ends while there is money or a hold', async () => {
  await credit(10);
  expect(await inTheWay()).toContain('has money or debts in wallets.');
  const { body: held } = await reserve();
  expect(await inTheWay()).toContain('has open holds, money or debts in wallets.');
  const settle = { key: machine, body: settleBody(tenant.org_id, held.reservation_id, 1_000) };
  expect((await call('post', '/v1/gateway/wallets/settle', settle)).status).toBe(200);
  expect(await inTheWay()).toContain('has money or debts in wallets.');
  expect((await call('get', '/v1/me', { key: tenant.owner_key })).status).toBe(200);
});

test.each([
  ['created', null, 409],
  ['confirming', null, 409],
  ['failed', 'declined', 200],
  // The provider has the money, and somebody decides.
  ['failed', 'amount_mismatch', 409],
  ['expired', null, 200],
])(
  'a payment that is %s (%s) lets the end be answered %i',
  async (status, error_code, answered) => {
    await many(
      db,
      `insert into payment_sessions (org_id, created_by, provider, surface, amount_nanos, currency, target_wallet_owner_type,
       wallet_id, return_url, cancel_url, status, error_code)
     select w.org_id, 'test', 'payment_provider_b', 'console', 1, 'USD', 'organization', w.id, 'https://a.example', 'https://a.example',
       :status, :error_code
     from wallets w where w.org_id = :org_id and w.owner_type = 'organization'`,
      { org_id: tenant.org_id, status, error_code },
    );
    if (answered === 409) expect(await inTheWay()).toContain('has payments under way.');
    else expect((await ask('archive')).status).toBe(200);
  },
);
