import * as payments from '../../../domain/payments/sessions';
import { putOrgSettings } from '../../../domain/payments/settings';
import { many } from '../../../domain/sql';
import { makeTenant, refusal, startApi, type Tenant, type TestApi } from '../../support/api';

// Money for a team that is archived, or a person who has left: nobody could spend it.

let api: TestApi;
let tenant: Tenant;

beforeAll(async () => {
  api = await startApi();
});
beforeEach(async () => {
  tenant = await makeTenant(api.db);
  await putOrgSettings(api.db, tenant.org_id, { return_origins: ['https://shop.example'] });
  for (const target of targets()) expect((await credit(target)).status).toBe(201);
});
afterAll(() => api.close());

type Target = [type: 'team' | 'user', id: string];

const targets = (): Target[] => [
  ['team', tenant.team_id],
  ['user', tenant.member_id],
];

function bill(path: string, body: object) {
  return api.call('post', path, { key: tenant.billing_key, body });
}

const credit = ([target_wallet_owner_type, target_wallet_owner_id]: Target) =>
  bill('/v1/wallets/credit', { target_wallet_owner_type, target_wallet_owner_id, amount: 2 });
const moveOf = ([type, id]: Target) => ({ [`${type}_id`]: id, amount: 1 });

async function leave(): Promise<void> {
  const root = `/v1/organizations/${tenant.org_id}`;
  for (const path of [`${root}/teams/${tenant.team_id}`, `${root}/members/${tenant.member_id}`]) {
    const { status } = await api.call('delete', path, { key: tenant.owner_key });
    expect(status).toBeLessThan(300);
  }
}

test('a credit and an allocation for them are 404, and a reclaim takes their money back', async () => {
  const organization = { target_wallet_owner_type: 'organization', amount: 9 };
  expect((await bill('/v1/wallets/credit', organization)).status).toBe(201);
  for (const target of targets())
    expect((await bill('/v1/wallets/allocate', moveOf(target))).status).toBe(200);
  await leave();
  const gone = { status: 404, code: 'not_found' };
  for (const target of targets()) {
    expect(refusal(await credit(target))).toMatchObject(gone);
    expect(refusal(await bill('/v1/wallets/allocate', moveOf(target)))).toMatchObject(gone);
    expect((await bill('/v1/wallets/reclaim', moveOf(target))).status).toBe(200);
  }
});

test('no checkout is made for them', async () => {
  await leave();
  for (const [owner_type, owner_id] of targets()) {
    const session = {
      buyer: { org_id: tenant.org_id, user_id: null, created_by: 'key_x' },
      provider: 'payment_provider_a' as const,
      surface: 'console' as const,
      amount_nanos: 10n ** 10n,
      currency: 'USD',
      owner: { owner_type, owner_id },
      return_url: 'https://shop.example/',
      cancel_url: 'https://shop.example/',
    };
    await expect(payments.create(api.db, session)).rejects.toMatchObject({ code: 'not_found' });
  }
});

test('an approval fills no wallet of theirs, and the organization may pay instead', async () => {
  const chosen = async (wallet_id: string | null) => {
    const rows = await many<{ owner_type: string | null }>(
      api.db,
      `select (wallet_to_hold(t, jsonb_build_object('wallet_id', :wallet_id::text), 1, null)).owner_type
       from jsonb_populate_record(null::cost_tickets, :ticket) as t`,
      {
        wallet_id,
        ticket: JSON.stringify({
          org_id: tenant.org_id,
          team_id: tenant.team_id,
          user_id: tenant.member_id,
        }),
      },
    );
    return rows[0]?.owner_type ?? null;
  };
  const [team] = await api.db('wallets').where({ owner_team_id: tenant.team_id }).select('id');
  expect(await chosen(team.id)).toBe('team');
  expect(await chosen(null)).not.toBe('organization');
  await leave();
  expect(await chosen(team.id)).toBeNull();
  expect(await chosen(null)).toBe('organization');
});
