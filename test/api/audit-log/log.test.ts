import type { Permission } from '../../../domain/people/roles';
import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { makeKey, platformKey } from '../../support/keys';

// Who reads the audit log, and what they find in it.

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

const log = (query = '', key = tenant.owner_key) => call('get', `/v1/audit-log${query}`, { key });
const actions = ({ body }: Answer) =>
  body.audit_log.map(({ action }: { action: string }) => action) as string[];

test('a row says who, in which session, what, before and after', async () => {
  const person = await makePerson({ db, call }, tenant, 'admin');
  const { body: session } = await call('post', '/v1/sessions', {
    body: { access_key: person.key },
  });
  const at = `/v1/organizations/${tenant.org_id}`;
  const given = {
    key: session.key,
    body: { name: 'Acme' },
    headers: { 'x-request-id': 'label-3' },
  };
  expect((await call('patch', at, given)).status).toBe(200);
  const { body } = await log(`?session_id=${session.id}`);
  const { name: was } = body.audit_log[0].before;
  expect(body).toEqual({
    audit_log: [
      {
        id: expect.stringMatching(/^aud_/),
        created_at: expect.any(String),
        org_id: tenant.org_id,
        actor: { type: 'user', id: person.user_id, name: expect.stringMatching(/^Ann /) },
        key_id: session.id,
        session_id: session.id,
        request_id: 'label-3',
        action: 'organization.changed',
        object: { type: 'organization', id: tenant.org_id },
        before: { name: was },
        after: { name: 'Acme' },
        seq: expect.any(Number),
        prev_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    ],
    has_more: false,
    total: 1,
  });
  expect(was).toMatch(/^Org /);
});

test('filters find by actor, action, object, session and time; a new one changes nothing of another tenant', async () => {
  const body = { name: 'found', token_type: 'access' };
  const made = await call('post', '/v1/tokens', { key: tenant.owner_key, body });
  await call('delete', '/v1/tokens/found', { key: tenant.owner_key });
  const { id } = made.body;
  expect(actions(await log(`?object_id=${id}`))).toEqual(['key.ended', 'key.created']);
  expect(actions(await log(`?object_id=${id}&sort=created_at`))).toEqual([
    'key.created',
    'key.ended',
  ]);
  expect(actions(await log(`?object_id=${id}&action=key.ended`))).toEqual(['key.ended']);
  const [row] = (await log(`?object_id=${id}`)).body.audit_log;
  expect(row.actor).toMatchObject({ type: 'key' });
  for (const query of [`actor=${row.actor.id}`, 'actor_type=key', 'object_type=key'])
    expect(actions(await log(`?object_id=${id}&${query}`))).toHaveLength(2);
  for (const query of ['actor=user_x', 'actor_type=user', 'object_type=team', 'session_id=key_x'])
    expect(actions(await log(`?object_id=${id}&${query}`))).toEqual([]);
  const [from, to] = ['2020-01-01', '2020-01-02'];
  expect(actions(await log(`?object_id=${id}&from=${from}`))).toHaveLength(2);
  expect(actions(await log(`?object_id=${id}&from=${from}&to=${to}`))).toEqual([]);
  const other = await makeTenant(db);
  expect(actions(await log(`?object_id=${id}`, other.owner_key))).toEqual([]);
  expect(actions(await log(`?actor=${row.actor.id}`, other.owner_key))).toEqual([]);
});

test.each(['1970-01-01T00:00:00Z', '1970-01-01T00:00:59Z'])(
  'from %s on is all there is, and nothing was before',
  async (time) => {
    const all = (await log()).body;
    expect(all.total).toBeGreaterThan(0);
    expect((await log(`?from=${time}`)).body.total).toBe(all.total);
    expect((await log(`?to=${time}`)).body.total).toBe(0);
  },
);

test('parts by cursor are the whole log, and a cursor is of its filters alone', async () => {
  const whole = await log('?per_page=200');
  const seen: string[] = [];
  let next: string | null = 'first';
  let second: string | undefined;
  while (next !== null) {
    const { status, body } = await log(`?per_page=3&cursor=${encodeURIComponent(next)}`);
    expect(status).toBe(200);
    seen.push(...body.audit_log.map(({ id }: { id: string }) => id));
    next = body.next;
    second ??= body.next;
  }
  expect(seen).toEqual(whole.body.audit_log.map(({ id }: { id: string }) => id));
  const foreign = await log(
    `?per_page=3&object_type=key&cursor=${encodeURIComponent(second ?? '')}`,
  );
  expect(refusal(foreign)).toMatchObject({ status: 422, param: 'cursor' });
});

test('an organization reads its own log, the platform all of it and its own', async () => {
  const other = await makeTenant(db);
  expect((await log('', tenant.member_key)).status).toBe(403);
  for (const org_id of [tenant.org_id, 'platform'])
    expect((await log(`?org_id=${org_id}`, other.owner_key)).status).toBe(404);
  const price = { provider: 'openai', model: 'of-the-log', input_per_1m: 1 };
  await call('post', '/v1/admin/model-pricing', { key: platform, body: price });
  const orgs = async (query: string) => {
    const { body } = await log(`?per_page=200${query}`, platform);
    return new Set(body.audit_log.map(({ org_id }: { org_id: string | null }) => org_id));
  };
  expect(await orgs('&org_id=platform')).toEqual(new Set([null]));
  expect(await orgs(`&org_id=${tenant.org_id}`)).toEqual(new Set([tenant.org_id]));
  expect([...(await orgs(''))]).toEqual(expect.arrayContaining([null, tenant.org_id]));
  const [row] = (await log('?org_id=platform', platform)).body.audit_log;
  expect(row).toMatchObject({ action: 'price.created', actor: { type: 'platform' } });
  expect((await log('?org_id=org_x', platform)).status).toBe(404);
});

test('rows that show money need org:billing, all others org:members, in the older list and in exports too', async () => {
  const { org_id, owner_key } = tenant;
  const credited = { target_wallet_owner_type: 'organization', amount: 3 };
  expect(
    (await call('post', '/v1/wallets/credit', { key: owner_key, body: credited })).status,
  ).toBe(201);
  const budget = { owner_type: 'team', owner_id: tenant.team_id, limit: 5, window: 'month' };
  expect((await call('post', '/v1/budgets', { key: owner_key, body: budget })).status).toBe(201);
  const settings = { body: { return_origins: [] }, key: owner_key };
  expect((await call('put', '/v1/payments/settings', settings)).status).toBe(200);
  const read = async (scopes: Permission[], path = 'audit-log') => {
    const key = await makeKey(db, org_id, { scopes });
    const { status, body } = await call('get', `/v1/${path}?per_page=200`, { key });
    expect(status).toBe(200);
    const rows: { action: string }[] = body[path.replace('-', '_')];
    expect(body.total).toBe(rows.length);
    return rows.map(({ action }) => action);
  };
  const of_money =
    /^(wallet|payment|payment_refund|settlement_excess|cost_ticket|budget|approval_rule)\./;
  const all = await read(['org:members', 'org:billing']);
  const money = all.filter((action) => of_money.test(action));
  expect(money).toEqual(expect.arrayContaining(['wallet.credited', 'budget.created']));
  const others = all.filter((action) => !of_money.test(action));
  expect(others).toContain('key.created');
  // What org:billing sets up is read with either.
  const shared = others.filter((action) => action.startsWith('payment_settings.'));
  expect(shared).not.toEqual([]);
  // Each look makes a key, which is a row.
  expect(new Set(await read(['org:billing']))).toEqual(new Set([...money, ...shared]));
  expect(new Set(await read(['org:members']))).toEqual(new Set(others));
  expect((await read(['org:members'], 'audit-events')).filter((one) => of_money.test(one))).toEqual(
    [],
  );
  expect(
    await log('?action=wallet.credited', await makeKey(db, org_id, { scopes: ['org:members'] })),
  ).toMatchObject({
    ...{ status: 200, body: { audit_log: [], total: 0 } },
  });
  for (const [kind, scopes] of [
    ['audit_log', ['org:billing', 'events:read']],
    ['events', ['org:billing', 'org:members']],
  ] as const) {
    const key = await makeKey(db, org_id, { scopes: [...scopes] });
    const body = { kinds: [kind], from: '2025-05-01', to: '2025-05-02' };
    const asked = await call('post', '/v1/exports', { key, body });
    expect(refusal(asked)).toMatchObject({ status: 403, param: 'kinds' });
  }
});

test('the older list says of a sealed member that it changed, as its clients know it', async () => {
  const body = {
    payment_provider_b: { enabled: true, secret_key: 'sk_older', webhook_secret: 'whsec_older' },
  };
  await call('put', '/v1/admin/payments/config', { key: platform, body });
  const query = 'object_id=payment_provider_b&per_page=1';
  const { body: older } = await call('get', `/v1/audit-events?${query}`, { key: platform });
  expect(older.audit_events[0].after).toMatchObject({ credentials: 'changed' });
  const { body: newer } = await log(`?${query}`, platform);
  expect(newer.audit_log[0].after).toMatchObject({ credentials: { changed: true } });
});

test('what a program or a terminal did names it', async () => {
  await many(db, 'update organizations set reserve_buffer_pct = 9 where id = :org_id', {
    org_id: tenant.org_id,
  });
  const [row] = (await log('?action=organization.changed')).body.audit_log;
  expect(row).toMatchObject({
    actor: { type: 'system', id: null, name: 'test' },
    session_id: null,
  });
  expect(actions(await log('?actor=test&action=organization.changed'))).toHaveLength(1);
});

test.each([
  ['from=yesterday', 'from'],
  ['from=2026-06-02&to=2026-06-01', 'to'],
  ['actor_type=robot', 'actor_type'],
  ['cursor=nonsense', 'cursor'],
  ['sort=name', 'sort'],
  ['unknown=1', 'unknown'],
])('%s is refused with its field', async (query, param) => {
  expect(refusal(await log(`?${query}`))).toMatchObject({ status: 422, param });
});

test('a new version of a price says what it replaces', async () => {
  const body = { provider: 'openai', model: 'twice', input_per_1m: 1, output_per_1m: 2 };
  const made = await call('post', '/v1/admin/model-pricing', { key: platform, body });
  const at = `/v1/admin/model-pricing/${made.body.id}`;
  await call('put', at, { key: platform, body: { input_per_1m: 3 } });
  const { body: found } = await log(`?object_id=${made.body.id}`, platform);
  expect(found.audit_log[0]).toMatchObject({
    ...{ action: 'price.created', before: { input_per_1m: 1 }, after: { input_per_1m: 3 } },
  });
});

test('nothing secret is in any row', async () => {
  const word = 'planted-secret';
  const secrets = { secret_key: `sk_${word}`, webhook_secret: `whsec_${word}` };
  const config = { payment_provider_b: { enabled: true, ...secrets } };
  await call('put', '/v1/admin/payments/config', { key: platform, body: config });
  await call('post', '/v1/admin/issuers', {
    key: platform,
    body: {
      ...{ name: 'IdP', issuer: 'https://idp.example.com', client_id: 'c', client_secret: word },
      ...{ jwks_url: 'https://idp.example.com/jwks', token_url: 'https://idp.example.com/token' },
      authorization_url: 'https://idp.example.com/authorize',
    },
  });
  const key = await call('post', '/v1/tokens', {
    ...{ key: tenant.owner_key, body: { name: 'planted', token_type: 'access' } },
  });
  const rotated = await call('post', '/v1/tokens/planted/rotate', { key: tenant.owner_key });
  await db('notice_destinations').insert({
    ...{ org_id: tenant.org_id, name: 'W', channel: 'webhook', kinds: ['ticket_created'] },
    ...{ url: `https://hooks.example.com/${word}`, credentials: { secret: word }, created_by: 'x' },
  });
  const rows = await db('audit_events').select();
  const text = JSON.stringify(rows);
  expect(text).not.toContain(word);
  for (const value of [key.body.key, rotated.body.key]) {
    expect(value).toMatch(/^svc_ak_/);
    expect(text).not.toContain(value);
  }
  for (const { hash } of await many<{ hash: string }>(db, 'select hash from token_secrets'))
    expect(text).not.toContain(hash);
  const made = rows.find(({ action }) => action === 'notice_destination.created');
  expect(made.after).toMatchObject({ url: { changed: true }, credentials: { changed: true } });
});
