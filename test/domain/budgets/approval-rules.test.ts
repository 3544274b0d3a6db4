import type { Batches } from '../../../api/ledger/batches';
import * as rules from '../../../domain/ledger/approval-rules';
import { audit } from '../../../domain/ledger/audit';
import * as budgets from '../../../domain/ledger/budgets';
import { type Db, many, one } from '../../../domain/sql';
import {
  balance,
  credit,
  eventsOf,
  inFlight,
  makeFundedOrg,
  makeOrg,
  openLedger,
  reserveBody,
  type TestOrg,
  TOKEN,
} from '../../support/ledger';
import { makeBudget, ownBody } from './making';

let db: Db;
let lanes: Batches;
let other: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, other, close } = await openLedger());
});

afterAll(() => close());

function makeRule(
  { org_id }: Pick<TestOrg, 'org_id'>,
  [call, day]: [number, number],
  more: Partial<Parameters<typeof rules.create>[1]> = {},
) {
  return rules.create(db, {
    org_id,
    name: 'Small calls',
    team_id: null,
    max_per_call_nanos: BigInt(call) * TOKEN,
    max_per_day_nanos: BigInt(day) * TOKEN,
    source: 'organization',
    created_by: 'test',
    ...more,
  });
}

test('200 parallel calls beyond a budget, on a rule for 20: exactly 20 are approved and hold', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const budget = await makeBudget(db, org, 0, { on_exceed: 'ticket', thresholds: [] });
  const rule = await makeRule(org, [10, 200]);
  const calls = Array.from({ length: 200 }, (_, n) => () => {
    return (n % 2 ? lanes : other).reserve(reserveBody(org_id, 10, ownBody()));
  });
  const rows = await inFlight(200, calls);
  expect(rows.filter(({ code }) => code === null)).toHaveLength(20);
  expect(rows.filter(({ code }) => code === 'insufficient_balance')).toHaveLength(180);
  expect(await rules.get(db, org_id, rule.id)).toMatchObject({
    approved_today_nanos: 200n * TOKEN,
    approvals_today: 20,
  });
  expect(await budgets.get(db, org_id, budget.id)).toMatchObject({ raised_nanos: 200n * TOKEN });
  const decided = await many(
    db,
    `select status, count(*)::int as count from cost_tickets where org_id = :org_id and decided_by = 'rule'
       and approval_rule_id = :id group by 1`,
    { org_id, id: rule.id },
  );
  expect(decided).toEqual([{ status: 'redeemed', count: 20 }]);
  const resolved = await eventsOf(db, org_id, 'cost_ticket.resolved');
  expect(resolved[0]).toMatchObject({ decided_by: 'rule', approval_rule_id: rule.id });
  expect((await audit(db)).broken).toEqual([]);
});

test('a rule moves what is missing from its wallet, and approves nothing that this does not cover', async () => {
  const org = await makeOrg(db);
  const { org_id, user_id, team_id, org_wallet, user_wallet } = org;
  await credit(db, org_id, org_wallet, 60n * TOKEN);
  await credit(db, org_id, user_wallet, 30n * TOKEN);
  await makeRule(org, [1_000, 10_000]);
  const body = () => reserveBody(org_id, 80, { user_id, team_id, ...ownBody() });
  const held = await lanes.reserve(body());
  expect(held).toMatchObject({ code: null, wallet_id: user_wallet });
  expect(await balance(db, org_wallet)).toMatchObject({ balance_nanos: 10n * TOKEN });
  const entry = await one(
    db,
    `select t.type, t.amount_nanos, a.decided_by from wallet_transactions t join approval_entries a on a.transaction_id = t.id
     where t.wallet_id = :org_wallet`,
    { org_wallet },
  );
  expect(entry).toEqual({ type: 'allocation_out', amount_nanos: -50n * TOKEN, decided_by: 'rule' });
  expect((await lanes.reserve(body())).code).toBe('insufficient_balance');
});

test('a rule of an archived team is renamed and lowered, and given to no archived one', async () => {
  const org = await makeOrg(db);
  const { org_id, team_id } = org;
  const { id } = await makeRule(org, [50, 500], { team_id, source: 'team' });
  await many(db, 'update teams set archived_at = clock_timestamp() where id = :team_id', {
    team_id,
  });
  const lower = { name: 'Less', max_per_call_nanos: TOKEN, max_per_day_nanos: 2n * TOKEN };
  expect(await rules.update(db, org_id, id, lower)).toMatchObject({ ...lower, team_id });
  await expect(rules.update(db, org_id, id, { team_id })).rejects.toMatchObject({
    code: 'not_found',
    details: { param: 'team_id' },
  });
  const free = { team_id: null, source: 'organization' as const };
  expect(await rules.update(db, org_id, id, free)).toMatchObject(free);
});

test('a rule of a team approves its calls only, and none that costs more than it says', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id, team_id } = org;
  await makeBudget(db, org, 0, { window: 'life', on_exceed: 'ticket', thresholds: [] });
  await makeRule(org, [50, 500], { team_id, source: 'team' });
  const code = async (tokens: number, more: object) =>
    (await lanes.reserve(reserveBody(org_id, tokens, { ...more, ...ownBody() }))).code;
  expect(await code(50, { team_id })).toBeNull();
  expect(await code(51, { team_id })).toBe('insufficient_balance');
  expect(await code(50, {})).toBe('insufficient_balance');
});
