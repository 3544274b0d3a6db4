import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { type Batches, openBatches } from '../../../api/ledger/batches';
import { audit } from '../../../domain/ledger/audit';
import * as reservations from '../../../domain/ledger/reservations';
import { type Db, many, one } from '../../../domain/sql';
import { createLog } from '../../../runtime/log';
import { openTestDatabase } from '../../support/database';
import { makeKeyId } from '../../support/keys';
import {
  credit,
  makeOrg,
  makeOverdue,
  makePrice,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
} from '../../support/ledger';
import {
  BUDGET,
  budgetsOf,
  Model,
  type ModelHold,
  owners,
  type ReserveItem,
  type SettleItem,
  type Step,
  step,
} from '../../support/ledger-model';
import { makeBudget } from '../budgets/making';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  lanes = openBatches(db, createLog('test', 'fatal'));
  await makePrice(db);
});

afterAll(async () => {
  await lanes.close();
  await close();
});

interface World {
  model: Model;
  org: TestOrg;
  key_id: string;
}

function picked(model: Model, number: number): ModelHold | undefined {
  return model.holds[number % Math.max(model.holds.length, 1)];
}

async function runStep(given: Step, world: World): Promise<void> {
  const { model, org } = world;
  const wallet = { user: org.user_wallet, team: org.team_wallet, organization: org.org_wallet };
  const hold = 'pick' in given ? picked(model, given.pick) : undefined;
  switch (given.do) {
    case 'credit':
      await credit(db, org.org_id, wallet[given.owner], BigInt(given.tokens) * TOKEN);
      model.balance[given.owner] += BigInt(given.tokens) * TOKEN;
      return;
    case 'transfer': {
      if (given.from === given.to) return;
      const amount = BigInt(given.tokens) * TOKEN;
      const rows = await many(db, `select * from transfer(:org_id, :from, :to, :amount, null)`, {
        org_id: org.org_id,
        from: wallet[given.from],
        to: wallet[given.to],
        amount,
      });
      const isCovered = model.balance[given.from] >= amount;
      expect(rows).toHaveLength(isCovered ? 2 : 0);
      if (!isCovered) return;
      model.balance[given.from] -= amount;
      model.balance[given.to] += amount;
      return;
    }
    case 'group':
      return runGroup(given.items, world);
    case 'cancel':
      if (!hold) return;
      await lanes.settle({
        ...settleBody(org.org_id, null, 0),
        request_id: hold.body.request_id,
        outcome: 'canceled',
      });
      model.close(hold, 0n);
      return;
    case 'lapse':
      if (hold?.state !== 'open') return;
      await makeOverdue(db, hold.id);
      await reservations.sweep(db, org.org_id);
      model.balance[hold.owner] += hold.held;
      hold.state = 'expired';
      return;
    case 'repeat':
      if (hold) expect((await lanes.reserve(hold.body)).reservation_id).toBe(hold.id);
      return;
  }
}

/**
 * One call of a group: it is sent with the others, and its answer compared when the model has come
 * to it.
 */
interface Call {
  op: 'settle' | 'reserve';
  answer: Promise<reservations.ItemAnswer>;
  compare: (row: reservations.ItemAnswer) => void;
}

/**
 * Sends reserves and settlements at once, so that they share a commit: reserves can hold the money
 * that settlements give back.
 */
async function runGroup(items: (ReserveItem | SettleItem)[], world: World): Promise<void> {
  const { model, org } = world;
  const known = model.holds.length;
  // An idle lane sends its first call at once; the group gathers while this one, which changes
  // nothing, is out.
  const plug = lanes.settle(settleBody(org.org_id, 'res_unknown', 0));
  const settled = new Set<ModelHold>();
  const calls = items.flatMap((one): Call[] => {
    if (one.do === 'reserve') return [reserveCall(one, world)];
    const hold = picked(model, one.pick);
    // Another settlement of a hold waits for the answer of the first, and would be in a later
    // commit.
    if (hold === undefined || settled.has(hold)) return [];
    settled.add(hold);
    return [settleCall(one, hold, world)];
  });
  expect((await plug).code).toBe('not_found');
  const rows = await Promise.all(calls.map(({ answer }) => answer));
  for (const op of ['settle', 'reserve'] as const) {
    for (const [at, call] of calls.entries())
      if (call.op === op) call.compare(rows[at] as reservations.ItemAnswer);
  }
  await expectOneCommit(model.holds.slice(known).map(({ id }) => id));
}

async function expectOneCommit(ids: string[]): Promise<void> {
  if (ids.length === 0) return;
  const { commits } = await one<{ commits: number }>(
    db,
    `select count(distinct xmin::text)::int as commits from wallet_transactions
     where reservation_id = any(:ids) and type = 'reservation'`,
    { ids },
  );
  expect(commits).toBe(1);
}

function settleCall(given: SettleItem, hold: ModelHold, { model, org }: World): Call {
  const answer = lanes.settle(settleBody(org.org_id, hold.id, given.tokens));
  const compare = (row: reservations.ItemAnswer) => {
    const was = hold.state;
    if (given.tokens === 0 && (was === 'open' || was === 'expired')) {
      expect(row.code).toBe('usage_not_priced');
      return;
    }
    model.close(hold, BigInt(given.tokens) * TOKEN);
    if (was === 'open' || was === 'expired')
      expect(row.balance_after_nanos).toBe(model.balance[hold.owner]);
    expect(row.actual_cost_nanos).toBe(hold.charged);
    expect(row.status === 'late').toBe(was === 'expired' || was === 'late');
  };
  return { op: 'settle', answer, compare };
}

function reserveCall(given: ReserveItem, { model, org, key_id }: World): Call {
  const amount = BigInt(given.tokens) * TOKEN;
  const body = reserveBody(org.org_id, given.tokens, {
    ...(given.as_user ? { user_id: org.user_id } : {}),
    ...(given.as_team ? { team_id: org.team_id } : {}),
    ...(given.with_key ? { key_id } : {}),
  });
  const compare = (row: reservations.ItemAnswer) => {
    if (given.with_key && model.keyRoom() < amount) {
      expect(row.code).toBe('key_budget_exceeded');
      return;
    }
    if (given.as_user && model.room('user') < amount) {
      expect(row.code).toBe('key_budget_exceeded');
      return;
    }
    const is_short = given.as_team && model.room('team') < amount;
    if (is_short) {
      expect(row).toMatchObject({
        code: 'insufficient_balance',
        cost_ticket: {
          cause: 'budget',
          budget: { missing_nanos: String(amount - model.room('team')) },
        },
      });
      return;
    }
    const payer = model.payer(amount, given.as_user, given.as_team);
    if (payer === undefined) {
      expect(row.code).toBe('insufficient_balance');
      const best = model.best(given.as_user, given.as_team);
      expect(row.cost_ticket).toMatchObject({
        balance_nanos: String(best),
        shortfall_nanos: String(amount - best),
      });
      return;
    }
    model.balance[payer] -= amount;
    expect(row).toMatchObject({
      code: null,
      wallet_owner_type: payer,
      balance_after_nanos: model.balance[payer],
    });
    const { with_key } = given;
    const id = row.reservation_id as string;
    model.holds.push({
      body,
      id,
      owner: payer,
      held: amount,
      charged: 0n,
      state: 'open',
      with_key,
    });
  };
  return { op: 'reserve', answer: lanes.reserve(body), compare };
}

test('random operations leave every wallet, hold and key as plain arithmetic says, and the audit clean', async () => {
  const property = fc.asyncProperty(
    fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }),
    async (steps) => {
      const org = await makeOrg(db, { name: randomUUID() });
      const key_id = await makeKeyId(db, org.org_id, { max_budget_nanos: BUDGET });
      const model = new Model();
      for (const whose of ['user', 'team'] as const)
        await makeBudget(db, org, Number(budgetsOf[whose] / TOKEN), {
          owner_type: whose,
          owner_id: org[`${whose}_id`],
          on_exceed: whose === 'team' ? 'ticket' : 'refuse',
        });
      for (const given of steps) await runStep(given, { model, org, key_id });
      for (const of of owners) {
        const id =
          of === 'user' ? org.user_wallet : of === 'team' ? org.team_wallet : org.org_wallet;
        expect(
          await one(db, 'select balance_nanos, reserved_nanos from wallets where id = :id', { id }),
        ).toEqual({
          balance_nanos: model.balance[of],
          reserved_nanos: model.reserved(of),
        });
      }
      expect((await audit(db)).broken).toEqual([]);
    },
  );
  // fast-check prints the seed and the shrunk steps of a failure; it stops shrinking in time for
  // that.
  const limits = { interruptAfterTimeLimit: 800_000, markInterruptAsFailure: true };
  await fc.assert(property, { numRuns: 60, endOnFailure: false, ...limits });
}, 900_000);
