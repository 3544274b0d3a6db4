import fc from 'fast-check';
import type * as calls from '../../domain/ledger/calls';
import { TOKEN } from './ledger';

// Random operations on one organization's ledger, and the ledger in plain arithmetic.

type Owner = 'user' | 'team' | 'organization';
export const owners: Owner[] = ['user', 'team', 'organization'];

export interface ReserveItem {
  do: 'reserve';
  tokens: number;
  as_user: boolean;
  as_team: boolean;
  with_key: boolean;
}

export interface SettleItem {
  do: 'settle';
  pick: number;
  tokens: number;
}

export type Step =
  | { do: 'credit'; owner: Owner; tokens: number }
  | { do: 'transfer'; from: Owner; to: Owner; tokens: number }
  | { do: 'group'; items: (ReserveItem | SettleItem)[] }
  | { do: 'cancel'; pick: number }
  | { do: 'lapse'; pick: number }
  | { do: 'repeat'; pick: number };

const tokens = fc.integer({ min: 1, max: 60 });
const pick = fc.nat({ max: 30 });
const owner = fc.constantFrom(...owners);
const item: fc.Arbitrary<ReserveItem | SettleItem> = fc.oneof(
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
);
export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant('credit' as const), owner, tokens }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('transfer' as const), from: owner, to: owner, tokens }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('group' as const),
      items: fc.array(item, { minLength: 1, maxLength: 8, size: 'max' }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lapse' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('repeat' as const), pick }) },
);

export interface ModelHold {
  body: calls.Reserve;
  id: string;
  owner: Owner;
  held: bigint;
  charged: bigint;
  state: 'open' | 'settled' | 'expired' | 'late';
  with_key: boolean;
}

/** The budget of the key of the holds `with_key`. */
export const BUDGET = 200n * TOKEN;

/** The budgets of user and team, for this month. */
export const budgetsOf = { user: 260n * TOKEN, team: 300n * TOKEN };

function cascade(as_user: boolean, as_team: boolean): Owner[] {
  return owners.filter((one) => one === 'organization' || (one === 'user' ? as_user : as_team));
}

/** The ledger in plain arithmetic: the state of every wallet, hold and key after each step. */
export class Model {
  balance: Record<Owner, bigint> = { user: 0n, team: 0n, organization: 0n };
  holds: ModelHold[] = [];

  payer(amount: bigint, as_user: boolean, as_team: boolean): Owner | undefined {
    return cascade(as_user, as_team).find((one) => this.balance[one] >= amount);
  }

  /** The most that any wallet of a call holds. */
  best(as_user: boolean, as_team: boolean): bigint {
    const balances = cascade(as_user, as_team).map((one) => this.balance[one]);
    return balances.sort((a, b) => Number(b - a))[0] as bigint;
  }

  keyRoom(): bigint {
    return BUDGET - this.used((hold) => hold.with_key);
  }

  /** What is left of the user's budget, which refuses, and of the team's, which asks. */
  room(of: 'user' | 'team'): bigint {
    return budgetsOf[of] - this.used(({ body }) => body[`${of}_id`] !== undefined);
  }

  private used(isCounted: (hold: ModelHold) => boolean): bigint {
    return this.holds
      .filter(isCounted)
      .map((hold) => (hold.state === 'open' ? hold.held : hold.charged))
      .reduce((sum, amount) => sum + amount, 0n);
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
