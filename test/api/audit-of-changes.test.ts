import { randomUUID } from 'node:crypto';
import { routes } from '../../api/table';
import { type Db, many } from '../../domain/sql';
import { type CallApi, makeTenant, startApi, type Tenant } from '../support/api';
import { platformKey } from '../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
  tenant = await makeTenant(db);
  await many(
    db,
    `create function fail_at_commit() returns trigger language plpgsql as $$
     begin raise exception 'undone at the end of the transaction'; end $$`,
  );
});

afterAll(() => close());

interface Change {
  body?: object;
  /** Makes what the route changes; its id takes the place of the last name in the path. */
  of?: () => Promise<string>;
  /** The actions of the audit events, in any order. */
  actions: string[];
}

const base = () => `/v1/organizations/${tenant.org_id}`;
const unique = (label: string) => `${label} ${randomUUID()}`;

async function made(path: string, body: object, key = tenant.owner_key): Promise<string> {
  const answer = await call('post', path, { key, body });
  expect(answer.status).toBe(201);
  return answer.body.user_id ?? answer.body.id;
}

const newMember = () => made(`${base()}/members`, { name: 'Ann', role: 'member' });
const newTeamMember = async () => {
  const user_id = await newMember();
  await made(`${base()}/teams/${tenant.team_id}/members`, { user_id });
  return user_id;
};
const newKey = async () => {
  const name = unique('key');
  await made('/v1/tokens', { name, token_type: 'access' });
  return name;
};
const price = () => ({ provider: 'openai', model: unique('model'), input_per_1m: 1 });
const newPrice = () => made('/v1/admin/model-pricing', price(), platform);
const cap = {
  constraint_type: 'cost',
  provider: 'openai',
  model_pattern: '*',
  max_value: 1,
  interval: 'day',
  enforcement_mode: 'reject',
};
const caps = () => `/v1/agents/${tenant.agent_id}/usage-constraints`;
const newCap = () => made(caps(), cap);
const provider = {
  enabled: true,
  secret_key: `sk_${randomUUID()}`,
  webhook_secret: `whsec_${randomUUID()}`,
};

/** Every route of people that changes something, with a change and what is recorded of it. */
const changes: Record<string, Change> = {
  'put /v1/wallets/:id': {
    body: { low_balance_threshold: 5 },
    of: async () => tenant.wallet_id,
    actions: ['wallet.changed'],
  },
  'put /v1/admin/wallets/:id': {
    body: { low_balance_threshold: 6 },
    of: async () => tenant.wallet_id,
    actions: ['wallet.changed'],
  },
  'put /v1/admin/organizations/:id/wallet-settings': {
    body: { reserve_buffer_pct: 7 },
    actions: ['organization.changed'],
  },
  'post /v1/admin/model-pricing': { body: price(), actions: ['price.created'] },
  'put /v1/admin/model-pricing/:id': {
    body: { input_per_1m: 2 },
    of: newPrice,
    actions: ['price.created'],
  },
  'delete /v1/admin/model-pricing/:id': { of: newPrice, actions: ['price.ended'] },
  'put /v1/admin/exchange-rates': {
    body: { rates: { EUR: 0.9 } },
    actions: ['exchange_rate.created'],
  },
  'post /v1/admin/organizations': { body: { name: 'Acme' }, actions: ['organization.created'] },
  'post /v1/organizations/:id/teams': { body: { name: unique('T') }, actions: ['team.created'] },
  'delete /v1/organizations/:id/teams/:team_id': {
    of: () => made(`${base()}/teams`, { name: unique('T') }),
    actions: ['team.ended'],
  },
  'post /v1/organizations/:id/teams/:team_id/members': {
    of: async () => tenant.team_id,
    actions: ['team_member.created'],
  },
  'delete /v1/organizations/:id/teams/:team_id/members/:user_id': {
    of: newTeamMember,
    actions: ['team_member.ended'],
  },
  'post /v1/organizations/:id/members': { body: { name: 'Ann' }, actions: ['member.created'] },
  'put /v1/organizations/:id/members/:user_id': {
    body: { role: 'admin' },
    of: newMember,
    actions: ['member.changed'],
  },
  'delete /v1/organizations/:id/members/:user_id': { of: newMember, actions: ['member.ended'] },
  'post /v1/organizations/:id/agents': { body: { name: unique('A') }, actions: ['agent.created'] },
  'delete /v1/organizations/:id/agents/:agent_id': {
    of: () => made(`${base()}/agents`, { name: unique('A') }),
    actions: ['agent.ended'],
  },
  'post /v1/tokens': {
    body: { name: unique('k'), token_type: 'gateway' },
    actions: ['key.created'],
  },
  'delete /v1/tokens/:name': { of: newKey, actions: ['key.ended'] },
  'post /v1/tokens/:name/rotate': { of: newKey, actions: ['key.rotated'] },
  'post /v1/agents/:id/usage-constraints': { body: cap, actions: ['usage_constraint.created'] },
  'put /v1/agents/:id/usage-constraints/:cid': {
    body: { max_value: 2 },
    of: newCap,
    actions: ['usage_constraint.changed'],
  },
  'delete /v1/agents/:id/usage-constraints/:cid': {
    of: newCap,
    actions: ['usage_constraint.ended'],
  },
  'put /v1/payments/settings': {
    body: { max_topup_amount: 500 },
    actions: ['payment_settings.created'],
  },
  'put /v1/admin/payments/config': {
    body: { payment_provider_b: provider, active_provider: 'payment_provider_b' },
    actions: ['payment_provider.created', 'payment_config.created'],
  },
  'put /v1/admin/gateway-config': { body: { config: {} }, actions: ['gateway_config.created'] },
  'delete /v1/admin/gateway-config': { actions: ['gateway_config.created'] },
};

// Money that is moved by hand stands in the ledger with its actor; a person's payment in its session.
const elsewhere = [
  'post /v1/wallets/credit',
  'post /v1/wallets/allocate',
  'post /v1/wallets/reclaim',
  'post /v1/admin/wallets/credit',
  'post /v1/admin/settlement-excess/:id',
  'post /v1/cost-tickets/:id/approve',
  'post /v1/cost-tickets/:id/deny',
  'post /v1/payments/create-checkout',
  'post /v1/payments/confirm-checkout',
  'post /v1/payments/sessions/:id/cancel',
  'post /v1/payments/create-order',
  'post /v1/payments/capture-order',
  'post /v1/admin/payments/refund',
  'post /v1/admin/payments/:id/resolve',
];

const changing = routes.filter(
  ({ method, access }) => method !== 'get' && !['public', 'control_plane'].includes(access.label),
);
const nameOf = (row: (typeof routes)[number]) => `${row.method} ${row.path}`;

test('every route of people that changes something has a row here', () => {
  expect([...Object.keys(changes), ...elsewhere].sort()).toEqual(changing.map(nameOf).sort());
  const recorded = changing.filter(({ is_recorded }) => is_recorded).map(nameOf);
  expect(recorded.sort()).toEqual(Object.keys(changes).sort());
});

interface Recorded {
  action: string;
  actor: string;
  key_id: string;
  request_id: string;
  org_id: string | null;
}

async function since(id: string): Promise<Recorded[]> {
  return many<Recorded>(
    db,
    'select action, actor, key_id, request_id, org_id from audit_events where id > :id',
    { id },
  );
}

async function newest(): Promise<string> {
  const [row] = await many<{ id: string }>(db, `select max(id) as id from audit_events`);
  return row?.id ?? '';
}

function pathOf(name: string, id: string | undefined): string {
  const path = name.split(' ')[1] as string;
  const last = path.match(/:\w+/g)?.at(-1);
  const filled = last && id !== undefined ? path.replace(last, encodeURIComponent(id)) : path;
  return filled
    .replace('/organizations/:id', `/organizations/${tenant.org_id}`)
    .replace('/agents/:id', `/agents/${tenant.agent_id}`)
    .replace(':team_id', tenant.team_id);
}

test.each(Object.entries(changes))(
  '%s leaves its audit event with who did it, and none if it is undone',
  async (name, { body, of, actions }) => {
    const row = changing.find((one) => nameOf(one) === name);
    const key = row?.access.label === 'platform:admin' ? platform : tenant.owner_key;
    const [{ id: actor }] = (await many<{ id: string }>(
      db,
      `select t.id from tokens t where case when :is_platform then t.org_id is null
         else t.org_id = :org_id and cardinality(t.scopes) > 1 end order by t.id limit 1`,
      { org_id: tenant.org_id, is_platform: key === platform },
    )) as [{ id: string }];
    const id = await of?.();
    const isJoining = name === 'post /v1/organizations/:id/teams/:team_id/members';
    const sent = isJoining ? { user_id: await newMember() } : body;
    const send = () =>
      call(row?.method ?? '', pathOf(name, id), {
        key,
        body: sent,
        headers: { 'x-request-id': 'label-7' },
      });
    const before = await newest();

    await many(
      db,
      `create constraint trigger fail after insert on audit_events deferrable initially deferred
       for each row execute function fail_at_commit()`,
    );
    const undone = await send();
    await many(db, 'drop trigger fail on audit_events');
    expect(undone.status).toBe(500);
    expect(await since(before)).toEqual([]);

    // It was undone whole, or it could not be made now.
    expect((await send()).status).toBeLessThan(300);
    const events = await since(before);
    expect(events.map(({ action }) => action).sort()).toEqual([...actions].sort());
    for (const event of events) {
      expect(event).toMatchObject({ actor, key_id: actor, request_id: 'label-7' });
      const ofPlatform = /^(price|exchange_rate|payment_(provider|config)|gateway_config)\./;
      if (name !== 'post /v1/admin/organizations')
        expect(event.org_id).toBe(ofPlatform.test(event.action) ? null : tenant.org_id);
    }
  },
);
