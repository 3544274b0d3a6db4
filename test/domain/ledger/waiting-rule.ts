import fc from 'fast-check';

// Random operations on the wallets of one organization while calls wait for money, and the rule of
// who goes first in plain arithmetic.

export type Owner = 'user' | 'organization';
export const owners: Owner[] = ['user', 'organization'];

export interface Waiter {
  request_id: string;
  need: bigint;
  wallets: Owner[];
  /** Nobody waited for the organization's wallet when it came, and it has no other. */
  was_first: boolean;
  /** What was credited to the organization's wallet since. */
  credited: bigint;
}

export interface WaitingHold {
  id: string;
  owner: Owner;
  held: bigint;
}

export type WaitingStep =
  | { do: 'credit'; owner: Owner; tokens: number }
  | { do: 'reserve'; tokens: number; as_user: boolean; waits: boolean }
  | { do: 'settle'; pick: number; part: number }
  | { do: 'leave'; pick: number };

const tokens = fc.integer({ min: 1, max: 60 });
const pick = fc.nat({ max: 30 });

export const waitingStep: fc.Arbitrary<WaitingStep> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('credit' as const),
      owner: fc.constantFrom(...owners),
      tokens,
    }),
  },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant('reserve' as const),
      // One in four needs more than the wallets ever hold.
      tokens: fc.oneof({ weight: 3, arbitrary: tokens }, fc.integer({ min: 100, max: 900 })),
      as_user: fc.boolean(),
      waits: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      pick,
      part: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), pick }) },
);

export const least = (a: bigint, b: bigint) => (a < b ? a : b);
const most = (a: bigint, b: bigint) => (a > b ? a : b);

/** Two wallets and the calls that wait for them, oldest first. */
export class WaitingModel {
  balance: Record<Owner, bigint> = { user: 0n, organization: 0n };
  reserved: Record<Owner, bigint> = { user: 0n, organization: 0n };
  kept: Record<Owner, bigint> = { user: 0n, organization: 0n };
  queue: Waiter[] = [];

  /** More money in a wallet: new, or what is left of a hold. */
  rise(of: Owner, { credited = 0n, held = 0n, cost = 0n }): void {
    const change = credited + held - cost;
    const kept = least(this.kept[of], this.balance[of]);
    this.balance[of] += change;
    this.reserved[of] -= held;
    if (change === 0n) return;
    const wealth = this.balance[of] + this.reserved[of];
    let [all, covered] = [0n, 0n];
    for (const { need } of this.waitersOf(of)) {
      all += need;
      if (all <= wealth) covered = all;
    }
    this.kept[of] = most(least(kept + credited, all), least(kept + change, covered));
    if (of === 'organization') for (const waiter of this.queue) waiter.credited += credited;
  }

  /** The wallet that pays for a call that does not wait. */
  payer(amount: bigint, wallets: Owner[]): Owner | undefined {
    const free = (of: Owner) => this.balance[of] - this.kept[of] >= amount;
    const first = wallets.find(free);
    if (first !== undefined) return first;
    if (wallets.some((of) => this.kept[of] > 0n))
      for (const of of owners) this.kept[of] = least(this.kept[of], this.needOf(of));
    return wallets.find(free);
  }

  hold(of: Owner, amount: bigint): void {
    this.balance[of] -= amount;
    this.reserved[of] += amount;
  }

  /** Serves those whose turn it is; each leaves the queue. */
  serve(): { waiter: Waiter; owner: Owner }[] {
    const served = this.turns();
    for (const { waiter, owner } of served) {
      const free = this.balance[owner] - this.kept[owner];
      this.hold(owner, waiter.need);
      // What lies beside the kept money pays for a younger call; the kept money stays the older's.
      if (free < waiter.need) this.kept[owner] = most(this.kept[owner] - waiter.need, 0n);
      this.queue.splice(this.queue.indexOf(waiter), 1);
    }
    return served.length === 0 ? [] : [...served, ...this.serve()];
  }

  waitersOf(of: Owner): Waiter[] {
    return this.queue.filter(({ wallets }) => wallets.includes(of));
  }

  private needOf(of: Owner): bigint {
    return this.waitersOf(of).reduce((sum, { need }) => sum + need, 0n);
  }

  private turns(): { waiter: Waiter; owner: Owner }[] {
    const left = { ...this.balance };
    return this.queue.flatMap((waiter) => {
      const owner = waiter.wallets.find((of) => left[of] >= waiter.need);
      if (owner !== undefined) {
        left[owner] -= waiter.need;
        return [{ waiter, owner }];
      }
      for (const of of waiter.wallets) left[of] = least(left[of], this.balance[of] - this.kept[of]);
      return [];
    });
  }
}
