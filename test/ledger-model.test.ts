import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { createLanes, type Lanes } from '../api/lanes';
import { audit } from '../domain/audit';
import * as reservations from '../domain/reservations';
import { type Db, many, one } from '../domain/sql';
import { createLog } from '../log';
import { openTestDatabase } from './support/database';
import {
  credit,
  makeKey,
  makeOrg,
  makeOverdue,
  makePrice,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
} from './support/ledger';

let db: Db;
let lanes: Lanes;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  lanes = createLanes(db, createLog('test', 'fatal'));
  await makePrice(db);
});

afterAll(async () => {
  await lanes.close();
  await close();
});

type Owner = 'user' | 'team' | 'organization';
const owners: Owner[] = ['user', 'team', 'organization'];

type Step =
  | { do: 'credit'; owner: Owner; tokens: number }
  | { do: 'transfer'; from: Owner; to: Owner; tokens: number }
  | { do: 'reserve'; tokens: number; as_user: boolean; as_team: boolean; with_key: boolean }
  | { do: 'settle'; pick: number; tokens: number }
  | { do: 'cancel'; pick: number }
  | { do: 'lapse'; pick: number }
  | { do: 'repeat'; pick: number };

const tokens = fc.integer({ min: 1, max: 60 });
const pick = fc.nat({ max: 30 });
const owner = fc.constantFrom(...owners);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant('credit' as const), owner, tokens }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('transfer' as const), from: owner, to: owner, tokens }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('reserve' as const),
      tokens,
      as_user: fc.boolean(),
      as_team: fc.boolean(),
      with_key: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      pick,
      tokens: fc.integer({ min: 0, max: 150 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lapse' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('repeat' as const), pick }) },
);

interface ModelHold {
  body: reservations.Reserve;
  id: string;
  owner: Owner;
  held: bigint;
  charged: bigint;
  state: 'open' | 'settled' | 'expired' | 'late';
  with_key: boolean;
}

const BUDGET = 200n * TOKEN;

/** The ledger in plain arithmetic: what every wallet, hold and key must be after each step. */
class Model {
  balance: Record<Owner, bigint> = { user: 0n, team: 0n, organization: 0n };
  holds: ModelHold[] = [];

  payer(amount: bigint, as_user: boolean, as_team: boolean): Owner | undefined {
    const cascade = owners.filter(
      (one) => one === 'organization' || (one === 'user' ? as_user : as_team),
    );
    return cascade.find((one) => this.balance[one] >= amount);
  }

  keyRoom(): bigint {
    const used = this.holds
      .filter((hold) => hold.with_key)
      .map((hold) => (hold.state === 'open' ? hold.held : hold.charged));
    return BUDGET - used.reduce((sum, amount) => sum + amount, 0n);
  }

  reserved(of: Owner): bigint {
    return this.holds
      .filter((hold) => hold.state === 'open' && hold.owner === of)
      .reduce((sum, hold) => sum + hold.held, 0n);
  }

  close(hold: ModelHold, cost: bigint): void {
    if (hold.state === 'open') this.balance[hold.owner] += hold.held - cost;
    else if (hold.state === 'expired') this.balance[hold.owner] -= cost;
    else return;
    hold.state = hold.state === 'open' ? 'settled' : 'late';
    hold.charged = cost;
  }
}

async function runStep(given: Step, model: Model, org: TestOrg, key_id: string): Promise<void> {
  const wallet = { user: org.user_wallet, team: org.team_wallet, organization: org.org_wallet };
  const hold =
    'pick' in given ? model.holds[given.pick % Math.max(model.holds.length, 1)] : undefined;
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
    case 'reserve':
      return reserveStep(given, model, org, key_id);
    case 'settle': {
      if (!hold) return;
      const was = hold.state;
      const row = await lanes.settle(settleBody(org.org_id, hold.id, given.tokens));
      if (given.tokens === 0 && (was === 'open' || was === 'expired')) {
        expect(row.code).toBe('usage_not_priced');
        return;
      }
      model.close(hold, BigInt(given.tokens) * TOKEN);
      expect(row.actual_cost_nanos).toBe(hold.charged);
      expect(row.status === 'late').toBe(was === 'expired' || was === 'late');
      return;
    }
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

async function reserveStep(
  given: Step & { do: 'reserve' },
  model: Model,
  org: TestOrg,
  key_id: string,
): Promise<void> {
  const amount = BigInt(given.tokens) * TOKEN;
  const body = reserveBody(org.org_id, given.tokens, {
    ...(given.as_user ? { user_id: org.user_id } : {}),
    ...(given.as_team ? { team_id: org.team_id } : {}),
    ...(given.with_key ? { key_id } : {}),
  });
  const payer = model.payer(amount, given.as_user, given.as_team);
  const row = await lanes.reserve(body);
  if (given.with_key && model.keyRoom() < amount) {
    expect(row.code).toBe('key_budget_exceeded');
    return;
  }
  if (payer === undefined) {
    expect(row.code).toBe('insufficient_balance');
    const cascade = owners.filter(
      (one) => one === 'organization' || (one === 'user' ? given.as_user : given.as_team),
    );
    const [best = 0n] = cascade.map((one) => model.balance[one]).sort((a, b) => Number(b - a));
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
  model.holds.push({
    body,
    id: row.reservation_id as string,
    owner: payer,
    held: amount,
    charged: 0n,
    state: 'open',
    with_key: given.with_key,
  });
}

test('random operations leave every wallet, hold and key as plain arithmetic says, and the audit clean', async () => {
  const property = fc.asyncProperty(
    fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }),
    async (steps) => {
      const org = await makeOrg(db, { name: randomUUID() });
      const key_id = await makeKey(db, org.org_id, { max_budget_nanos: BUDGET });
      const model = new Model();
      for (const given of steps) await runStep(given, model, org, key_id);
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
  // fast-check prints the seed and the shrunk steps of a failure.
  await fc.assert(property, { numRuns: 60, endOnFailure: false });
}, 120_000);
