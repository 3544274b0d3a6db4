import { type Db, many } from '../../domain/sql';
import document from '../../openapi.json';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../support/api';
import { makeKey, platformKey } from '../support/keys';
import { loggedSince, newestId } from './audit-log/routes';
import { plainConfig } from './gateways/making';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
  tenant = await makeTenant(db);
});

afterAll(() => close());

interface Event {
  action: string;
  org_id: string | null;
  created_at: string;
}

async function counted(): Promise<number> {
  return (await many(db, 'select from audit_events')).length;
}

const owner = (body?: object) => ({ key: tenant.owner_key, body });

test('a change that changes nothing, and a refused one, leave no event', async () => {
  const repeat = async () => {
    await call('put', `/v1/wallets/${tenant.wallet_id}`, owner({ low_balance_threshold: 6 }));
    const rates = { rates: { EUR: 0.9 } };
    await call('put', '/v1/admin/exchange-rates', { key: platform, body: rates });
    expect((await call('delete', '/v1/tokens/nobody', owner())).status).toBe(404);
    return counted();
  };
  const first = await repeat();
  expect(await repeat()).toBe(first);
});

test('an event of a configuration of gateways shows nothing of what stands in it', async () => {
  const value = 'models.never-shown.example';
  for (const body_limit_bytes of [2_048, 4_096]) {
    const { providers } = plainConfig() as { providers: { targets: object[] } };
    const targets = providers.targets.map((one) => ({ ...one, base_url: `https://${value}/v1` }));
    const body = { config: { providers: { targets }, body_limit_bytes }, note: 'why' };
    const put = await call('put', '/v1/admin/gateway-config', { key: platform, body });
    expect(put.body.change_count).toBeGreaterThan(0);
  }
  const { body } = await call('get', '/v1/audit-events?per_page=2', { key: platform });
  for (const event of body.audit_events) {
    expect(event).toMatchObject({ action: 'gateway_config.created', after: { note: 'why' } });
    expect(Object.keys(event.after)).not.toContain('changes');
    expect(JSON.stringify(event)).not.toMatch(/never-shown|body_limit_bytes/);
  }
});

test('an event shows what was before and after: money in units, of secrets only that they changed', async () => {
  const { wallet_id } = tenant;
  for (const low_balance_threshold of [6, 2.5])
    await call('put', `/v1/wallets/${wallet_id}`, owner({ low_balance_threshold }));
  const secret = 'never_shown';
  const secrets = { secret_key: `sk_${secret}`, webhook_secret: `whsec_${secret}` };
  for (const more of [{}, secrets])
    await call('put', '/v1/admin/payments/config', {
      key: platform,
      body: { payment_provider_b: { enabled: true, ...more } },
    });
  const all = await call('get', '/v1/audit-events?per_page=200', { key: platform });
  const [config, , wallet] = all.body.audit_events;
  expect(wallet).toMatchObject({
    action: 'wallet.changed',
    object_id: wallet_id,
    before: { low_balance_threshold: 6 },
    after: { low_balance_threshold: 2.5 },
  });
  expect(config).toMatchObject({
    action: 'payment_provider.changed',
    object_id: 'payment_provider_b',
    org_id: null,
    after: { credentials: 'changed', webhook_secret: 'changed' },
  });
  expect(all.text).not.toContain(secret);
  const hashes = await many<{ hash: string }>(db, 'select hash from token_secrets');
  for (const { hash } of hashes) expect(all.text).not.toContain(hash);
});

test("an organization's owners and admins read its events, filtered and in pages; nobody else does", async () => {
  const other = await makeTenant(db);
  const key = { name: 'short-lived', token_type: 'access' };
  await call('post', '/v1/tokens', owner(key));
  await call('delete', '/v1/tokens/short-lived', owner());
  const admin = await makeKey(db, tenant.org_id, { scopes: ['org:members', 'org:billing'] });
  const mine = await call('get', '/v1/audit-events?per_page=200', { key: admin });
  expect(mine.body.total).toBeGreaterThan(5);
  expect(new Set(mine.body.audit_events.map(({ org_id }: Event) => org_id))).toEqual(
    new Set([tenant.org_id]),
  );
  const times = mine.body.audit_events.map(({ created_at }: Event) => created_at);
  expect(times).toEqual([...times].sort().reverse());
  const keys = await call('get', '/v1/audit-events?action=key.ended', { key: admin });
  expect(keys.body.audit_events).toMatchObject([{ action: 'key.ended' }]);
  const [{ object_id, actor }] = keys.body.audit_events;
  const one = await call('get', `/v1/audit-events?object_id=${object_id}&actor=${actor}`, {
    key: admin,
  });
  expect(one.body.audit_events.map(({ action }: Event) => action)).toEqual([
    'key.ended',
    'key.created',
  ]);
  const none = await call('get', '/v1/audit-events?until=2020-01-01', { key: admin });
  expect(none.body.total).toBe(0);
  const paged = await call('get', '/v1/audit-events?per_page=1', { key: admin });
  expect(paged.body).toMatchObject({ has_more: true, total: mine.body.total });

  for (const key of [tenant.billing_key, tenant.member_key])
    expect((await call('get', '/v1/audit-events', { key })).status).toBe(403);
  const foreign = await call('get', `/v1/audit-events?org_id=${tenant.org_id}`, {
    key: other.owner_key,
  });
  expect(refusal(foreign)).toMatchObject({ status: 404 });
  const named = await call('get', `/v1/audit-events?org_id=${tenant.org_id}`, { key: platform });
  expect(named.body.total).toBe(mine.body.total);
});

test('audit events are neither changed nor deleted, by anybody', async () => {
  for (const sql of [
    `update audit_events set actor = 'me'`,
    'delete from audit_events',
    'truncate audit_events',
  ])
    await expect(many(db, sql)).rejects.toThrow('kept as they were written');
});

test('entries by hand name who made them; those of calls name nobody', async () => {
  const { wallet_id, team_id, member_id: user_id } = tenant;
  await db('memberships').where({ user_id }).update({ role: 'billing_admin' });
  const key = await makeKey(db, tenant.org_id, { user_id, scopes: ['org:billing'] });
  const credit = { target_wallet_owner_type: 'organization', amount: 5 };
  await call('post', '/v1/wallets/credit', { key, body: credit });
  await call('post', '/v1/wallets/allocate', { key, body: { team_id, amount: 2 } });
  const reclaim = { key, body: { team_id, amount: 1 }, headers: { 'idempotency-key': 'once' } };
  const first = await call('post', '/v1/wallets/reclaim', reclaim);
  const again = await call('post', '/v1/wallets/reclaim', reclaim);
  expect([
    first.headers['idempotent-replayed'],
    again.headers['idempotent-replayed'],
    again.text,
  ]).toEqual([undefined, 'true', first.text]);
  await call('post', '/v1/admin/wallets/credit', {
    key: platform,
    body: { ...credit, org_id: tenant.org_id },
  });
  const { body } = await call('get', `/v1/wallets/${wallet_id}/transactions`, { key });
  const [{ id: platform_id }] = await db('tokens').whereNull('org_id');
  expect(body.transactions).toMatchObject([
    { type: 'credit', actor: platform_id },
    { type: 'allocation_in', actor: user_id },
    { type: 'allocation_out', actor: user_id },
    { type: 'credit', actor: user_id },
  ]);
});

test('each member of a key that can be changed leaves its event, changed alone', async () => {
  const values: Record<string, unknown> = {
    ...{ allowed_models: ['gpt-4o'], max_budget: 5, rpm: 10, tpm: 10, max_parallel_requests: 2 },
    ...{ include_cost: true, expires_at: '2200-01-01', name: 'renamed' },
  };
  // budget_window says of which time a budget is: it is nothing without one.
  const { properties } = document.paths['/v1/tokens/{name}'].patch.requestBody.content[
    'application/json'
  ].schema as { properties: object };
  const own = Object.keys(properties).filter((name) => !['org_id', 'budget_window'].includes(name));
  expect(own.sort()).toEqual(Object.keys(values).sort());
  await call('post', '/v1/tokens', owner({ name: 'alone', token_type: 'gateway' }));
  for (const [name, value] of Object.entries(values)) {
    const before = await newestId(db);
    const { status } = await call('patch', '/v1/tokens/alone', owner({ [name]: value }));
    const rows = await loggedSince(db, before);
    expect([name, status, rows.map(({ action }) => action)]).toEqual([
      ...[name, 200],
      expect.arrayContaining(['key.changed']),
    ]);
  }
});
