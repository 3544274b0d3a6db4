import * as members from '../../../domain/people/members';
import * as organizations from '../../../domain/people/organizations';
import * as teams from '../../../domain/people/teams';
import type { Db } from '../../../domain/sql';
import { type Answer, type CallApi, makeTenant, startApi, type Tenant } from '../../support/api';
import { makeKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
});

afterAll(() => close());

function credit(tenant: Tenant, body: object): Promise<Answer> {
  return call('post', '/v1/wallets/credit', { key: tenant.billing_key, body });
}

async function funded(amount: number): Promise<Tenant> {
  const tenant = await makeTenant(db);
  await credit(tenant, { target_wallet_owner_type: 'organization', amount });
  return tenant;
}

test('members see their own, their teams and the organization; whoever bills sees all', async () => {
  const tenant = await funded(10);
  const other = await members.add(db, tenant.org_id, { name: 'Other', role: 'member' }, true);
  for (const owner of [
    { target_wallet_owner_type: 'team', target_wallet_owner_id: tenant.team_id },
    { target_wallet_owner_type: 'user', target_wallet_owner_id: tenant.member_id },
    { target_wallet_owner_type: 'user', target_wallet_owner_id: other.user_id },
  ]) {
    await credit(tenant, { ...owner, amount: 1 });
  }
  const seen = async (key: string) =>
    (await call('get', '/v1/wallets', { key })).body.wallets.map(
      (wallet: Record<string, string>) => wallet.owner_user_id ?? wallet.owner_type,
    );
  expect(await seen(tenant.member_key)).toEqual(['organization', 'team', tenant.member_id]);
  const other_key = await makeKey(db, tenant.org_id, { user_id: other.user_id });
  expect(await seen(other_key)).toEqual(['organization', other.user_id]);
  expect((await seen(tenant.billing_key)).length).toBe(4);
  const { body } = await call('get', '/v1/wallets', { key: tenant.billing_key });
  const team = body.wallets.find((wallet: Record<string, string>) => wallet.owner_type === 'team');
  const hidden = await call('get', `/v1/wallets/${team.wallet_id}/transactions`, {
    key: other_key,
  });
  expect(hidden.status).toBe(404);
});

test('the effective wallet is the first of user, team, organization with a positive balance', async () => {
  const tenant = await funded(10);
  const balance = async (query = '') =>
    (await call('get', `/v1/wallets/balance${query}`, { key: tenant.member_key })).body;
  expect(await balance()).toEqual({
    user_balance: 0,
    team_balance: 0,
    org_balance: 10,
    effective_available_balance: 10,
    effective_wallet_owner_type: 'organization',
    reserve_buffer_pct: 0,
    currency: 'USD',
  });
  await call('post', '/v1/wallets/allocate', {
    key: tenant.billing_key,
    body: { team_id: tenant.team_id, amount: 3 },
  });
  expect(await balance()).toMatchObject({
    effective_wallet_owner_type: 'team',
    effective_available_balance: 3,
  });
  await call('post', '/v1/wallets/allocate', {
    key: tenant.billing_key,
    body: { user_id: tenant.member_id, amount: 2 },
  });
  expect(await balance()).toMatchObject({
    effective_wallet_owner_type: 'user',
    user_balance: 2,
    org_balance: 5,
  });
});

test('with several teams and none named, the team is skipped', async () => {
  const tenant = await funded(10);
  const second = await organizations.createTeam(db, tenant.org_id, 'Second');
  await teams.add(db, {
    org_id: tenant.org_id,
    team_id: second.id,
    user_id: tenant.member_id,
  });
  await call('post', '/v1/wallets/allocate', {
    key: tenant.billing_key,
    body: { team_id: tenant.team_id, amount: 3 },
  });
  const balance = (query: string) =>
    call('get', `/v1/wallets/balance${query}`, { key: tenant.member_key });
  expect((await balance('')).body).toMatchObject({
    team_balance: 0,
    effective_wallet_owner_type: 'organization',
  });
  expect((await balance(`?team_id=${tenant.team_id}`)).body).toMatchObject({ team_balance: 3 });
});
