import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import { lifeBudgetExceeded } from '../../../domain/ledger/budget-refusals';
import * as budgets from '../../../domain/ledger/budgets';
import * as constraints from '../../../domain/ledger/constraints';
import { spentSession } from '../../../domain/ledger/sessions';
import * as verdicts from '../../../domain/ledger/verdicts';
import { fundsOf } from '../../../domain/ledger/views/key-funds';
import * as tokens from '../../../domain/people/tokens';
import { type Db, many, one } from '../../../domain/sql';
import { makeKeyId } from '../../support/keys';
import {
  balance,
  credit,
  makeOrg,
  openLedger,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
} from '../../support/ledger';
import { makeBudget, ownBody } from './making';

// Each amount here is one that a person may give: 9,000,000,000 units at most.

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

const UNIT = 1_000_000_000n;
const BIGINT_MAX = 9_223_372_036_854_775_807n;
/** Tokens that cost so many thousand million units at the test price. */
const tokensOf = (milliards: number): number => milliards * 1e15;

function fill(org: TestOrg, milliards: number): Promise<void> {
  return credit(db, org.org_id, org.org_wallet, BigInt(milliards) * 1_000_000_000n * UNIT);
}

async function hold(org: TestOrg, milliards: number, more: object = {}): Promise<string> {
  const row = await lanes.reserve(
    reserveBody(org.org_id, tokensOf(milliards), { ...ownBody(), ...more }),
  );
  expect(row).toMatchObject({ code: null });
  return String(row.reservation_id);
}

async function settle(org: TestOrg, id: string, milliards: number): Promise<void> {
  expect(await lanes.settle(settleBody(org.org_id, id, tokensOf(milliards)))).toMatchObject({
    code: null,
    status: 'settled',
    actual_cost_nanos: BigInt(tokensOf(milliards)) * TOKEN,
  });
}

const approve = async ({ org_id }: TestOrg, ticket_id: string) =>
  verdicts.decide(db, {
    id: randomUUID(),
    ticket_id,
    org_id,
    verdict: 'approved',
    by: 'user_1',
    is_platform: false,
    valid_until: await verdicts.verdictDeadline(db),
  });

test('a call is charged whatever its key has cost in its life, and a limit that is set then holds', async () => {
  const org = await makeOrg(db);
  const { org_id, org_wallet } = org;
  const key_id = await makeKeyId(db, org_id);
  await fill(org, 9);
  for (let calls = 0; calls < 4; calls += 1) {
    await settle(org, await hold(org, 3, { key_id }), 3);
    await fill(org, 3);
  }
  expect((await balance(db, org_wallet)).balance_nanos).toBe(9_000_000_000n * UNIT);
  const spent = await one(db, 'select spent_nanos from tokens where id = :key_id', { key_id });
  expect(spent).toEqual({ spent_nanos: BIGINT_MAX });
  await hold(org, 3, { key_id });
  for (const limit of [9_000_000_000n * UNIT, 1n]) {
    await many(db, 'update tokens set max_budget_nanos = :limit where id = :key_id', {
      key_id,
      limit,
    });
    expect(await lanes.reserve(reserveBody(org_id, 0, { key_id }))).toMatchObject({
      code: 'key_budget_exceeded',
    });
    await expect(fundsOf(db, { org_id, key_id })).resolves.toBeDefined();
    // What it holds comes on top of that.
    expect(await lifeBudgetExceeded(db, { org_id, key_id })).toMatchObject({
      code: 'key_budget_exceeded',
      details: {
        extra: { budget: { used_nanos: String(BIGINT_MAX + 3_000_000_000n * UNIT) } },
      },
    });
  }
  const { name } = await one<{ name: string }>(db, 'select name from tokens where id = :key_id', {
    key_id,
  });
  expect(await tokens.find(db, org_id, name)).toMatchObject({ budget_used_nanos: BIGINT_MAX });
});

test('a session that has cost more than a bigint holds is refused with what it has cost', async () => {
  const org = await makeOrg(db);
  const session = { session_id: 'dear', session_limits: { max_cost_usd: 1 } };
  for (let calls = 0; calls < 2; calls += 1) {
    await fill(org, 9);
    await settle(org, await hold(org, 9, { session_id: 'dear' }), 9);
  }
  // A unit of its currency is worth two dollars.
  await many(db, 'update reservations set exchange_rate = 0.5 where org_id = :org_id', {
    org_id: org.org_id,
  });
  const body = reserveBody(org.org_id, 1, { ...ownBody(), ...session });
  expect(await lanes.reserve(body)).toMatchObject({ code: 'session_limit_exceeded' });
  const { message } = await spentSession(db, body);
  expect(message).toContain('has cost 36000000000 of its 1 USD');
});

test('a call is charged whatever its budgets have counted in their windows, also in those that are over', async () => {
  const org = await makeOrg(db);
  const { org_id, org_wallet, user_id } = org;
  await fill(org, 9);
  const own = { owner_type: 'user', owner_id: user_id } as const;
  const { id } = await makeBudget(db, org, tokensOf(9), own);
  const life = await makeBudget(db, org, tokensOf(9), { ...own, window: 'life' });
  const held = [await hold(org, 1, { user_id }), await hold(org, 1, { user_id })];
  const last = await hold(org, 1, { user_id });
  await budgets.update(db, org_id, id, { window: 'day' });
  for (const one of held) await settle(org, one, 8);
  expect((await balance(db, org_wallet)).balance_nanos).toBe(-8_000_000_000n * UNIT);
  const counted = await many(
    db,
    `select spent_nanos from budgets where org_id = :org_id
     union all select spent_nanos from budget_windows where budget_id = :id`,
    { org_id, id },
  );
  expect(counted).toEqual(Array.from({ length: 3 }, () => ({ spent_nanos: BIGINT_MAX })));
  await budgets.update(db, org_id, life.id, { limit_nanos: 1n });
  expect(await budgets.get(db, org_id, life.id)).toMatchObject({
    spent_nanos: BIGINT_MAX,
    remaining_nanos: -BIGINT_MAX,
  });
  // One that is made now has counted as much.
  await many(db, `update budgets set archived_at = now() where id = :id`, { id: life.id });
  await settle(org, last, 0.000001);
  expect(await makeBudget(db, org, tokensOf(9))).toMatchObject({ spent_nanos: BIGINT_MAX });
  await fill(org, 9);
  await fill(org, 6);
  expect(await lanes.reserve(reserveBody(org_id, 1, { user_id }))).toMatchObject({
    code: 'key_budget_exceeded',
  });
});

test('what a person charges beyond the bound is counted likewise', async () => {
  const org = await makeOrg(db);
  const { org_id } = org;
  const key_id = await makeKeyId(db, org_id);
  await fill(org, 9);
  await settle(org, await hold(org, 9, { key_id }), 9);
  await fill(org, 9);
  const id = await hold(org, 0.001, { key_id });
  await lanes.settle(settleBody(org_id, id, tokensOf(1)));
  const excess = await one<{ id: string }>(
    db,
    'select id from settlement_excess where org_id = :org_id',
    { org_id },
  );
  const decided = await one(db, `select decide_excess(:id, 'charge', null, 'user_1') as code`, {
    ...excess,
  });
  expect(decided).toEqual({ code: null });
});

test('an agent with a cap holds in a full wallet', async () => {
  const org = await makeOrg(db);
  await fill(org, 9);
  const [agent] = await db('agents').insert({ org_id: org.org_id, name: 'Bot' }).returning('id');
  const owner = { org_id: org.org_id, agent_id: agent.id };
  await constraints.create(db, owner, {
    constraint_type: 'cost',
    provider: 'openai',
    model_pattern: 'gpt*',
    max_value: 1,
    interval: 'month',
    enforcement_mode: 'warn',
  });
  for (let calls = 0; calls < 3; calls += 1)
    await settle(org, await hold(org, 3, { agent_id: agent.id }), 3);
  const caps = await constraints.listStanding(db, agent.id);
  expect(caps.map(({ current_value }) => current_value)).toEqual([9_000_000_000]);
});

test('a budget that asks is raised in a full wallet, up to what a limit may be', async () => {
  const org = await makeOrg(db);
  const { org_id } = org;
  await fill(org, 9);
  const { id } = await makeBudget(db, org, tokensOf(2), { on_exceed: 'ticket' });
  const ask = async () => {
    const { cost_ticket } = await lanes.reserve(reserveBody(org_id, tokensOf(3), ownBody()));
    return String(cost_ticket?.id);
  };
  for (let calls = 0; calls < 3; calls += 1)
    expect(await approve(org, await ask())).toBe('approved');
  expect(await budgets.get(db, org_id, id)).toMatchObject({
    raised_nanos: 7_000_000_000n * UNIT,
    remaining_nanos: 0n,
  });
  const full = await ask();
  await expect(approve(org, full)).rejects.toMatchObject({ code: 'amount_too_large' });
  // A raise is no reason to pass what is the most that a limit may be.
  expect(
    await budgets.update(db, org_id, id, { limit_nanos: 9_000_000_000n * UNIT }),
  ).toMatchObject({ remaining_nanos: 0n });
  await expect(approve(org, full)).rejects.toMatchObject({ code: 'amount_too_large' });
});

test('a wallet that owes as much as it may, and has kept money for others, pays for nothing', async () => {
  const org = await makeOrg(db);
  const { org_id, org_wallet, user_id } = org;
  // More is kept than is there, as a debit takes nothing from what is kept.
  await fill(org, 9);
  await settle(org, await hold(org, 0.1), 9);
  await many(db, 'update wallets set kept_nanos = :kept where id = :org_wallet', {
    org_wallet,
    kept: 9_000_000_000n * UNIT,
  });
  await many(
    db,
    `select post_entries(:org_id, array[(:org_wallet, 'allocation_out', :taken, 0, null, null, null, null, null, null, null,
       null)::ledger_entry])`,
    { org_id, org_wallet, taken: -9_000_000_000n * UNIT },
  );
  for (const more of [{}, { user_id }])
    expect(await lanes.reserve(reserveBody(org_id, 1, { ...more, ...ownBody() }))).toMatchObject({
      code: 'insufficient_balance',
    });
});
