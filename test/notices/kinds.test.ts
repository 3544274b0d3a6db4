import { randomUUID } from 'node:crypto';
import * as events from '../../domain/events';
import * as fleet from '../../domain/gateways/fleet';
import * as rules from '../../domain/ledger/approval-rules';
import { tellExpiringKeys } from '../../domain/notices/messages';
import { many } from '../../domain/sql';
import { makeBudget } from '../domain/budgets/making';
import { makePerson, makeTenant, type Tenant } from '../support/api';
import { platformKey } from '../support/keys';
import { credit, reserveBody, TOKEN } from '../support/ledger';
import { bodyHash, makeShort } from '../support/tickets';
import { until } from '../support/until';
import { restOf } from '../support/worker';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from './world';

let world: NoticeWorld;
let platform: string;
beforeAll(async () => {
  world = await openNoticeWorld();
  platform = await platformKey(world.db);
});
afterAll(() => world.close());

const kindsAt = (path: string) =>
  world.receiver.arrivals.filter((one) => one.path === path).map(({ body }) => body.type);

async function told(kinds?: string[]): Promise<{ tenant: Tenant; path: string }> {
  const tenant = await makeTenant(world.db);
  const path = `/hooks/${randomUUID()}`;
  await makeDestination(world, tenant.owner_key, {
    channel: 'webhook',
    path,
    ...(kinds && { kinds }),
  });
  return { tenant, path };
}

const append = (org_id: string, type: string, payload: object) =>
  many(world.db, 'select append_event(:org_id, :type, :payload)', {
    org_id,
    type,
    payload: JSON.stringify(payload),
  });

test('a ticket that is decided is told of as resolved, to those alone who asked for that', async () => {
  const { tenant, path } = await told(['ticket_resolved']);
  const { ticket_id } = await makeShort(world, 100, {}, tenant);
  await world.call('post', `/v1/cost-tickets/${ticket_id}/deny`, {
    key: tenant.owner_key,
    body: {},
  });
  await until(() => kindsAt(path).length > 0);
  expect(kindsAt(path)).toEqual(['ticket_resolved']);
});

test('a call that a rule approves is told to nobody, one that the rule does not cover is', async () => {
  const { tenant, path } = await told();
  const { org_id, wallet_id } = tenant;
  await credit(world.db, org_id, wallet_id, 10_000n * TOKEN);
  await makeBudget(world.db, tenant, 0, { on_exceed: 'ticket', thresholds: [] });
  await rules.create(world.db, {
    ...{ org_id, name: 'Small calls', team_id: null, source: 'organization', created_by: 'test' },
    ...{ max_per_call_nanos: 10n * TOKEN, max_per_day_nanos: 100n * TOKEN },
  });
  const body = { ...reserveBody(org_id, 10), request_body_hash: bodyHash() };
  const reserve = () =>
    world.call('post', '/v1/gateway/wallets/reserve', { key: world.machine, body });
  expect((await reserve()).status).toBe(200);
  const tickets = await many(world.db, 'select status from cost_tickets where org_id = :org_id', {
    org_id,
  });
  expect(tickets).toEqual([{ status: 'redeemed' }]);
  const { ticket_id } = await makeShort(world, 11, {}, tenant);
  await until(() => kindsAt(path).length > 0);
  const notices = await many(
    world.db,
    'select kind, cost_ticket_id from notices where org_id = :org_id',
    { org_id },
  );
  expect(notices).toEqual([{ kind: 'ticket_created', cost_ticket_id: ticket_id }]);
  expect(kindsAt(path)).toEqual(['ticket_created']);
});

test('who was told that a ticket waits is told that a rule has approved it since', async () => {
  const { tenant, path } = await told();
  const { org_id, wallet_id } = tenant;
  await credit(world.db, org_id, wallet_id, 10_000n * TOKEN);
  await makeBudget(world.db, tenant, 0, { on_exceed: 'ticket', thresholds: [] });
  const { body } = await makeShort(world, 10, {}, tenant);
  await until(() => kindsAt(path).length === 1);
  await rules.create(world.db, {
    ...{ org_id, name: 'Small calls', team_id: null, source: 'organization', created_by: 'test' },
    ...{ max_per_call_nanos: 10n * TOKEN, max_per_day_nanos: 100n * TOKEN },
  });
  const again = { ...body, request_id: randomUUID() };
  const path_of_reserve = '/v1/gateway/wallets/reserve';
  const answer = await world.call('post', path_of_reserve, { key: world.machine, body: again });
  expect(answer.status).toBe(200);
  // Approved, and redeemed by its call.
  await until(() => kindsAt(path).length === 3);
  expect(kindsAt(path)).toEqual(['ticket_created', 'ticket_resolved', 'ticket_resolved']);
});

test('a new threshold above the balance is a low balance, once', async () => {
  const { tenant, path } = await told(['balance_low']);
  const set = (low_balance_threshold: number | null) =>
    world.call('put', `/v1/wallets/${tenant.wallet_id}`, {
      key: tenant.owner_key,
      body: { low_balance_threshold },
    });
  expect((await set(5)).status).toBe(200);
  await until(() => kindsAt(path).length === 1);
  // It was below the one before, too.
  expect((await set(7)).status).toBe(200);
  const settings = `/v1/admin/organizations/${tenant.org_id}/wallet-settings`;
  expect((await set(null)).status).toBe(200);
  const body = { low_balance_threshold: 9 };
  expect((await world.call('put', settings, { key: platform, body })).status).toBe(200);
  await until(() => kindsAt(path).length === 2);
  expect(kindsAt(path)).toEqual(['balance_low', 'balance_low']);
});

test.each([
  ['payment.completed', {}, 'payment'],
  ['payment.failed', {}, 'payment'],
  ['payment.refunded', { cause: 'refund' }, 'refund'],
  ['payment.refunded', { cause: 'dispute' }, 'dispute'],
  ['budget.threshold', { budget_id: 'b', threshold_pct: 80 }, 'budget_threshold'],
])('the event %s %j of an organization is told of as %s', async (type, payload, kind) => {
  const { tenant, path } = await told();
  await append(tenant.org_id, type, payload);
  await until(() => kindsAt(path).length > 0);
  expect(kindsAt(path)).toEqual([kind]);
});

test('people read whose budget or wallet it is and who decided, by names of their own organization alone', async () => {
  const { tenant } = await told();
  const slack = `/slack/${randomUUID()}`;
  await makeDestination(world, tenant.owner_key, { channel: 'slack', path: slack });
  const other = await makeTenant(world.db);
  const person = await makePerson(world, tenant, 'billing_admin');
  const nameOf = async (table: string, id: string) =>
    (await world.db(table).where({ id }).first('name')).name as string;
  const budget = (owner_type: string, owner_id: string) =>
    append(tenant.org_id, 'budget.threshold', { owner_type, owner_id, used_nanos: '100' });
  await budget('team', tenant.team_id);
  await budget('team', other.team_id);
  const { ticket_id } = await makeShort(world, 100, {}, tenant);
  const deny = `/v1/cost-tickets/${ticket_id}/deny`;
  expect((await world.call('post', deny, { key: person.key, body: {} })).status).toBe(200);
  const facts = () =>
    world.receiver.arrivals
      .filter((one) => one.path === slack)
      .flatMap(({ body }) => body.blocks)
      .flatMap(({ fields = [] }: { fields?: { text: string }[] }) =>
        fields.map(({ text }) => text),
      );
  const decider = `Decided by: ${await nameOf('users', person.user_id)}`;
  await until(() => facts().includes(decider));
  await until(() => facts().filter((fact) => fact === 'Used: 0.0000001 USD').length === 2);
  expect(facts()).toContain(`Of: team ${await nameOf('teams', tenant.team_id)}`);
  expect(facts().join()).not.toContain(await nameOf('teams', other.team_id));
});

test('a key that ends within a week is told of once, one that was made for less never', async () => {
  const { tenant, path } = await told(['key_expiring']);
  const key = async (days_old: number, days_left: number) => {
    const name = randomUUID();
    const body = { name, token_type: 'gateway' };
    const made = await world.call('post', '/v1/tokens', { key: tenant.owner_key, body });
    expect(made.status).toBe(201);
    await many(
      world.db,
      `update tokens set created_at = clock_timestamp() - :days_old * interval '1 day',
         expires_at = clock_timestamp() + :days_left * interval '1 day' where org_id = :org_id and name = :name`,
      { days_old, days_left, org_id: tenant.org_id, name },
    );
  };
  await key(30, 3);
  await key(30, 30);
  await key(1, 3);
  expect(await tellExpiringKeys(world.db)).toBe(1);
  expect(await tellExpiringKeys(world.db)).toBe(0);
  await until(() => kindsAt(path).length > 0);
  expect(kindsAt(path)).toEqual(['key_expiring']);
});

test('gateways and the proof of the ledger are told of to the platform alone', async () => {
  const { path } = await told();
  const own = `/slack/${randomUUID()}`;
  await makeDestination(world, platform, { channel: 'slack', path: own });
  await fleet.report(world.db, {
    id: randomUUID(),
    host: 'gateway-1',
    config_version: null,
    config_hash: '1f0c2c1e5a774a5e',
    refused_version: 3n,
    error: 'no such provider',
    started_at: new Date(),
    software_version: '1.5.0',
    group_name: 'default',
    is_draining: false,
    in_flight: 0,
    held: 0,
    counts: null,
  });
  await events.tellBroken(world.db, 0);
  await events.tellBroken(world.db, 2);
  const texts = () =>
    world.receiver.arrivals.filter((one) => one.path === own).map(({ body }) => body.text);
  await until(() => texts().length === 2);
  expect(texts().sort()).toEqual([
    'A gateway rejected its configuration',
    'The proof of the ledger found a fault',
  ]);
  expect(kindsAt(path)).toEqual([]);
});

test('nothing of one organization reaches another, nor is its log there', async () => {
  const { tenant, path } = await told();
  const other = await makeTenant(world.db);
  const made = await makeShort(world, 100, {}, other);
  await makeShort(world, 100, {}, tenant);
  const [arrival] = [await present(() => world.receiver.arrivals.find((one) => one.path === path))];
  expect(JSON.stringify(arrival?.body)).not.toContain(made.ticket_id);
  const id = arrival?.headers['webhook-id'];
  const key = other.owner_key;
  expect((await world.call('get', `/v1/notice-messages/${id}`, { key })).status).toBe(404);
  expect((await world.call('post', `/v1/notice-messages/${id}/replay`, { key })).status).toBe(404);
  for (const list of ['notices', 'notice-messages', 'notice-destinations'])
    expect((await world.call('get', `/v1/${list}`, { key })).body.total).toBe(0);
});

test('a destination with nothing to tell rests', async () => {
  const { tenant, path } = await told();
  await makeShort(world, 100, {}, tenant);
  await until(() => kindsAt(path).length > 0);
  const { body } = await world.call('get', '/v1/notice-destinations', { key: tenant.owner_key });
  const id = `notices-${body.destinations[0].id}`;
  // It lingers for a minute, and wakes for nothing but a notice.
  expect(await restOf(world.client, id)).toBeGreaterThan(50);
});
