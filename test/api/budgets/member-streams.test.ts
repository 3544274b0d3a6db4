import * as teams from '../../../domain/people/teams';
import { type Db, many } from '../../../domain/sql';
import { makePerson, makeTenant, serve } from '../../support/api';
import { openTestDatabase } from '../../support/database';
import { until } from '../../support/until';
import { follow } from '../routes/following';

let db: Db;
let api: Awaited<ReturnType<typeof serve>>;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  api = await serve({ db });
});

afterAll(async () => {
  await api.close();
  await close();
});

function write(org_id: string, type: string, payload: object) {
  return many(db, 'select append_event(:org_id, :type, :payload)', {
    org_id,
    type,
    payload: JSON.stringify(payload),
  });
}

test('a member follows their own tickets and payments, and nothing else', async () => {
  const tenant = await makeTenant(db);
  const { org_id } = tenant;
  const ann = await makePerson({ db, call: api.call }, tenant, 'member');
  const seen = await follow(api.url, ann.key);
  const payments = await follow(api.url, ann.key, { query: '?type=payment.completed' });
  const own = { user_id: ann.user_id };
  await write(org_id, 'cost_ticket.created', { user_id: tenant.member_id });
  await write(org_id, 'cost_ticket.created', {});
  await write(org_id, 'cost_ticket.created', own);
  await write(org_id, 'wallet.balance_low', own);
  await write(org_id, 'request.completed', own);
  await write(org_id, 'payment.completed', { user_id: tenant.member_id });
  await write(org_id, 'payment.completed', own);
  // Events are sent in their order: with the last nothing before it is to come.
  await write(org_id, 'cost_ticket.resolved', own);
  await write(org_id, 'payment.completed', own);
  await until(() => seen.types.length >= 4 && payments.types.length >= 2);
  const all = [
    'cost_ticket.created',
    'payment.completed',
    'cost_ticket.resolved',
    'payment.completed',
  ];
  expect(seen.types).toEqual(all);
  expect(payments.types).toEqual(['payment.completed', 'payment.completed']);
  seen.close();
  payments.close();
});

test('what a member may follow is looked at with each heartbeat: one who leaves is let go', async () => {
  const tenant = await makeTenant(db);
  const ann = await makePerson({ db, call: api.call }, tenant, 'member');
  const seen = await follow(api.url, ann.key);
  await many(
    db,
    'update memberships set archived_at = clock_timestamp() where org_id = :org_id and user_id = :user_id',
    { org_id: tenant.org_id, user_id: ann.user_id },
  );
  await many(db, 'update tokens set revoked_at = clock_timestamp() where user_id = :user_id', {
    user_id: ann.user_id,
  });
  await until(() => seen.has_ended());
});

test('a member who is given the right sees all with the next heartbeat, and no more once it is taken', async () => {
  const tenant = await makeTenant(db);
  const { org_id } = tenant;
  const ann = await makePerson({ db, call: api.call }, tenant, 'billing_admin');
  const seen = await follow(api.url, ann.key);
  const setRole = (role: 'member' | 'billing_admin') =>
    many(db, 'update memberships set role = :role where org_id = :org_id and user_id = :user_id', {
      org_id,
      user_id: ann.user_id,
      role,
    });
  await write(org_id, 'wallet.balance_low', {});
  await until(() => seen.types.length === 1);
  await setRole('member');
  const { beats } = seen;
  await until(() => seen.beats > beats + 1);
  await write(org_id, 'wallet.balance_low', {});
  await write(org_id, 'cost_ticket.created', { user_id: ann.user_id });
  await until(() => seen.types.length === 2);
  expect(seen.types).toEqual(['wallet.balance_low', 'cost_ticket.created']);
  seen.close();
});

test('an admin of a team follows its tickets, and no more of others, until they lead it no longer', async () => {
  const tenant = await makeTenant(db);
  const { org_id, team_id } = tenant;
  const lead = await makePerson({ db, call: api.call }, tenant, 'member');
  const { user_id } = lead;
  const setRole = (role: 'member' | 'admin') =>
    many(db, 'update team_members set role = :role where user_id = :user_id', { role, user_id });
  await teams.add(db, { org_id, team_id, user_id });
  await setRole('admin');
  const seen = await follow(api.url, lead.key);
  const of_team = { team_id, user_id: tenant.member_id };
  await write(org_id, 'cost_ticket.created', { team_id: 'team_other', user_id: tenant.member_id });
  await write(org_id, 'cost_ticket.created', { user_id: tenant.member_id });
  await write(org_id, 'payment.completed', of_team);
  await write(org_id, 'request.completed', of_team);
  await write(org_id, 'cost_ticket.created', of_team);
  await write(org_id, 'cost_ticket.resolved', of_team);
  await until(() => seen.types.length >= 2);
  expect(seen.types).toEqual(['cost_ticket.created', 'cost_ticket.resolved']);
  await setRole('member');
  const { beats } = seen;
  await until(() => seen.beats > beats + 1);
  await write(org_id, 'cost_ticket.created', of_team);
  await write(org_id, 'payment.completed', { user_id });
  await until(() => seen.types.length >= 3);
  expect(seen.types.slice(2)).toEqual(['payment.completed']);
  seen.close();
});
