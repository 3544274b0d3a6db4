import { type Db, many, one } from '../../../domain/sql';
import { makeTenant, startApi, type Tenant, type TestApi } from '../../support/api';

// What a call's own three wallets answer is read by their owners: the organization's other wallets
// are not looked at, however many people it has.

const PEOPLE = 4_000;
/** Far fewer than the blocks of so many wallets, far more than those of three. */
const BLOCKS_MAX = 40;

let api: TestApi;
let tenant: Tenant;
let blocks_of_wallets: number;

beforeAll(async () => {
  api = await startApi();
  tenant = await makeTenant(api.db);
  const at = { org_id: tenant.org_id, team_id: tenant.team_id, member_id: tenant.member_id };
  await many(
    api.db,
    `with u as (insert into users (name) select 'Person ' || n from generate_series(1, :people::int) as n returning id),
       m as (insert into memberships (org_id, user_id, role) select :org_id, id, 'member' from u returning user_id)
     insert into wallets (org_id, owner_type, owner_user_id, currency) select :org_id, 'user', user_id, 'USD' from m`,
    { ...at, people: PEOPLE },
  );
  await many(
    api.db,
    `insert into cost_tickets (org_id, user_id, team_id, provider, model, request_body_hash, estimated_cost_nanos, currency, reserve,
       expires_at)
     select :org_id, :member_id, :team_id, 'openai', 'gpt-4o', 'sha256:' || md5('body'), 1000, 'USD',
       jsonb_build_object('request_body_hash', 'sha256:' || md5('body'), 'family', 'chat_completions', 'request_id', 'r1'),
       clock_timestamp() + interval '1 day'`,
    at,
  );
  ({ blocks: blocks_of_wallets } = await one<{ blocks: number }>(
    api.db,
    `select (pg_relation_size('wallets') / current_setting('block_size')::int)::int as blocks`,
  ));
});

afterAll(() => api.close());

/** The blocks that a statement reads once its plans are made, in the least of several times. */
async function blocksOf(db: Db, sql: string): Promise<number> {
  const counts: number[] = [];
  for (let n = 0; n < 8; n += 1) {
    const { 'QUERY PLAN': plans } = await one<{ 'QUERY PLAN': { Plan: Blocks }[] }>(
      db,
      `explain (analyze, buffers, format json) ${sql}`,
      { org_id: tenant.org_id },
    );
    const plan = plans[0]?.Plan;
    counts.push((plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0));
  }
  return Math.min(...counts);
}

interface Blocks {
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
}

const of_ticket =
  'from cost_tickets t join organizations o on o.id = t.org_id where t.org_id = :org_id';

test('the organization has many more wallets than are looked at', () => {
  expect(blocks_of_wallets).toBeGreaterThan(1.5 * BLOCKS_MAX);
});

test.each([
  ['a ticket as it is shown', `select ticket_answer(t, '{}') ${of_ticket}`],
  ['the wallet that an approval fills', `select wallet_to_hold(t, '{}', 1000, null) ${of_ticket}`],
  [
    'the wallet that an approval moves money from',
    `select approval_source(t, '{"authority": "team"}', true) ${of_ticket}`,
  ],
  ['whether a rule approves', `select approve_by_rule(o, t) ${of_ticket}`],
])('%s takes no look at wallets of others', async (_, sql) => {
  expect(await blocksOf(api.db, sql)).toBeLessThan(BLOCKS_MAX);
});

test('nor does the question whether a waiting call may go', async () => {
  await many(
    api.db,
    `insert into ticket_waiters (org_id, request_id, ticket_id, redeem, user_id, team_id, need_nanos, since, until)
     select t.org_id, 'r1', t.id, '{}', t.user_id, t.team_id, 1000, clock_timestamp(), clock_timestamp() + interval '1 hour'
     ${of_ticket}`,
    { org_id: tenant.org_id },
  );
  expect(await blocksOf(api.db, 'select waiters_may_go(:org_id)')).toBeLessThan(BLOCKS_MAX);
});
