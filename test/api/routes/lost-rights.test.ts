import { randomUUID } from 'node:crypto';
import * as rights from '../../../domain/people/rights';
import { rolePermissions } from '../../../domain/people/roles';
import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makePerson,
  makeTenant,
  type Person,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { locksAwaited } from '../../support/database';
import { makeKey } from '../../support/keys';
import { makePrice } from '../../support/ledger';
import { until } from '../../support/until';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let base: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  await makePrice(db);
});
beforeEach(async () => {
  tenant = await makeTenant(db);
  base = `/v1/organizations/${tenant.org_id}`;
});
afterAll(() => close());

/** Sends a request while the organization is locked; its caller loses their role meanwhile. */
async function demotedMeanwhile({ user_id }: Person, send: () => Promise<Answer>): Promise<Answer> {
  const { org_id } = tenant;
  let sent: Promise<Answer> | undefined;
  await db.transaction(async (trx) => {
    await many(trx, 'select from lock_organization(:org_id)', { org_id });
    sent = send();
    await until(async () => (await locksAwaited(db)) === 1);
    await trx('memberships').where({ org_id, user_id }).update({ role: 'member' });
  });
  return sent as unknown as Promise<Answer>;
}

const cap = {
  ...{ constraint_type: 'cost', provider: 'openai', model_pattern: '*', max_value: 1 },
  ...{ interval: 'day', enforcement_mode: 'reject' },
};
const caps = () => `/v1/agents/${tenant.agent_id}/usage-constraints`;

async function madeCap(): Promise<string> {
  return (await call('post', caps(), { key: tenant.owner_key, body: cap })).body.id;
}

const team = () => `${base}/teams/${tenant.team_id}`;

test.each<[string, () => Promise<[string, string, object?]>]>([
  ['remove a member', async () => ['delete', `${base}/members/${tenant.member_id}`]],
  [
    "change a member's role",
    async () => ['put', `${base}/members/${tenant.member_id}`, { role: 'member' }],
  ],
  ['take in a member', async () => ['post', `${base}/members`, { name: 'Ann', role: 'member' }]],
  ['make a team', async () => ['post', `${base}/teams`, { name: 'New' }]],
  ['archive a team', async () => ['delete', team()]],
  ['fill a team', async () => ['post', `${team()}/members`, { user_id: tenant.member_id }]],
  ['empty a team', async () => ['delete', `${team()}/members/${tenant.member_id}`]],
  ['make an agent', async () => ['post', `${base}/agents`, { name: 'New' }]],
  ['archive an agent', async () => ['delete', `${base}/agents/${tenant.agent_id}`]],
  ['revoke a key', async () => ['delete', `/v1/tokens/${await namedKey()}`]],
  ['rotate a key', async () => ['post', `/v1/tokens/${await namedKey()}/rotate`, {}]],
  [
    'issue a gateway key',
    async () => ['post', '/v1/tokens', { name: randomUUID(), token_type: 'gateway' }],
  ],
  ['cap an agent', async () => ['post', caps(), cap]],
  ['change a cap', async () => ['put', `${caps()}/${await madeCap()}`, { max_value: 100 }]],
  ['take a cap away', async () => ['delete', `${caps()}/${await madeCap()}`]],
])('who loses their role while they %s does not', async (_, makeRequest) => {
  const [method, path, body] = await makeRequest();
  const admin = await makePerson({ db, call }, tenant, 'admin');
  const answer = await demotedMeanwhile(admin, () => call(method, path, { key: admin.key, body }));
  expect(refusal(answer)).toEqual({ status: 403, code: 'permission_denied', param: null });
});

test.each<[string, string, () => object]>([
  ['credit', 'credit', () => ({ amount: 5, target_wallet_owner_type: 'organization' })],
  ['give', 'allocate', () => ({ amount: 5, team_id: tenant.team_id })],
  ['take back', 'reclaim', () => ({ amount: 5, team_id: tenant.team_id })],
])('who loses org:billing while they %s money does not', async (_, verb, body) => {
  const credit = { amount: 20, target_wallet_owner_type: 'organization' };
  await call('post', '/v1/wallets/credit', { key: tenant.owner_key, body: credit });
  const allocation = { amount: 10, team_id: tenant.team_id };
  await call('post', '/v1/wallets/allocate', { key: tenant.owner_key, body: allocation });
  const billing = await makePerson({ db, call }, tenant, 'billing_admin');
  const before = await entries();
  const answer = await demotedMeanwhile(billing, () =>
    call('post', `/v1/wallets/${verb}`, { key: billing.key, body: body() }),
  );
  expect(refusal(answer)).toEqual({ status: 403, code: 'permission_denied', param: null });
  expect(await entries()).toBe(before);
});

test.each<[string, (key_id: string) => [string, string, object?]]>([
  ['bring a key', () => ['post', '/v1/provider-keys', { provider: 'openai', key: 'sk-12345678' }]],
  ['change one', (id) => ['put', `/v1/provider-keys/${id}`, { own_keys: 'first' }]],
  ['rotate one', (id) => ['post', `/v1/provider-keys/${id}/rotate`, { key: 'sk-87654321' }]],
  ['end one', (id) => ['delete', `/v1/provider-keys/${id}`]],
])('who loses org:billing while they %s of a provider does not', async (_, makeRequest) => {
  const body = { provider: 'openai', key: 'sk-abcdefgh' };
  const made = await call('post', '/v1/provider-keys', { key: tenant.owner_key, body });
  expect(made).toMatchObject({ status: 201 });
  const billing = await makePerson({ db, call }, tenant, 'billing_admin');
  const [method, path, given] = makeRequest(made.body.id);
  const answer = await demotedMeanwhile(billing, () =>
    call(method, path, { key: billing.key, body: given }),
  );
  expect(refusal(answer)).toEqual({ status: 403, code: 'permission_denied', param: null });
});

test('an admin draws no new value of a key that only an owner may have', async () => {
  const admin = await makePerson({ db, call }, tenant, 'admin');
  const body = { name: 'people', token_type: 'access', scopes: ['org:members', 'tokens:write'] };
  const made = await call('post', '/v1/tokens', { key: tenant.owner_key, body });
  expect(made.status).toBe(201);
  const denied = { status: 403, code: 'permission_denied', param: 'name' };
  const later = { expires_at: new Date(Date.now() + 86_400_000) };
  const rotate = (key: string) => call('post', '/v1/tokens/people/rotate', { key, body: {} });
  expect(refusal(await rotate(admin.key))).toEqual(denied);
  // It may end sooner: an admin may also revoke it.
  const soon = { expires_at: new Date(Date.now() + 3_600_000) };
  const shortened = await call('patch', '/v1/tokens/people', { key: admin.key, body: soon });
  expect(shortened.status).toBe(200);
  const prolonged = await call('patch', '/v1/tokens/people', { key: admin.key, body: later });
  expect(refusal(prolonged)).toEqual(denied);
  const members = { key: made.body.key };
  expect((await call('get', `${base}/members`, members)).status).toBe(200);
  expect((await rotate(tenant.owner_key)).status).toBe(201);
});

async function entries(): Promise<number> {
  const rows = await many(db, 'select 1 from wallet_transactions where org_id = :org_id', {
    org_id: tenant.org_id,
  });
  return rows.length;
}

/** A key of no scopes, which anybody may end who makes keys. */
async function namedKey(): Promise<string> {
  const name = randomUUID();
  await makeKey(db, tenant.org_id, { name });
  return name;
}

test('a person by a JWT who is no member any more is told so, and not of a key', async () => {
  const { user_id, at } = await makePerson({ db, call }, tenant, 'admin');
  await call('delete', at, { key: tenant.owner_key });
  const caller = { id: user_id, user_id, scopes: rolePermissions.admin };
  await expect(rights.lock(db, tenant.org_id, caller, 'org:members')).rejects.toMatchObject({
    code: 'permission_denied',
    message: 'This person is not a member of the organization.',
  });
});

test('a refusal to change somebody says what they have that the caller has not, and names no field', async () => {
  const owner = await makePerson({ db, call }, tenant, 'owner');
  const admin = await makePerson({ db, call }, tenant, 'admin');
  const removed = await call('delete', owner.at, { key: admin.key });
  expect(removed.body.error).toMatchObject({
    code: 'permission_denied',
    message:
      'You do not have org:billing, which this member has, so you cannot change or remove them. Ask an owner.',
    param: null,
  });
  const name = randomUUID();
  await makeKey(db, tenant.org_id, { name, scopes: ['org:billing'] });
  const revoked = await call('delete', `/v1/tokens/${name}`, { key: admin.key });
  expect(revoked.body.error).toMatchObject({
    message:
      'You do not have org:billing, which this key has, so you cannot revoke or rotate it. Ask an owner.',
    param: 'name',
  });
});
