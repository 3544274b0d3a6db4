import { type Entry, folded, nothing_folded } from '../../../domain/ledger/gifts';

// What is left of what teams gave to a person, by the entries of the person's wallet.

const entry = (type: string, amount: number, more: Partial<Entry> = {}): Entry => ({
  type,
  amount_nanos: BigInt(amount),
  actual_cost_nanos: null,
  team_wallet_id: null,
  ...more,
});
const gift = (team: string, amount: number) =>
  entry('allocation_in', amount, { team_wallet_id: team });
const back = (team: string | null, amount: number) =>
  entry('allocation_out', -amount, { team_wallet_id: team });
const paid = (amount: number) => entry('payment_credit', amount);
const refunded = (amount: number) => entry('payment_refund', -amount);
const credit = (amount: number) => entry('credit', amount);
const approved = (amount: number) => entry('allocation_in', amount);
/** A call: what it held is given back but for its cost. */
const call = (held: number, cost: number) => [
  entry('reservation', -held),
  entry('settlement', held - cost, { actual_cost_nanos: BigInt(cost) }),
];
const late = (cost: number) => entry('settlement', -cost, { actual_cost_nanos: BigInt(cost) });

type Left = Record<string, number>;

function leftOf(entries: readonly Entry[]): Left {
  const { lots } = entries.reduce(folded, nothing_folded);
  const left: Left = {};
  for (const { giver, nanos } of lots) left[giver] = (left[giver] ?? 0) + Number(nanos);
  return left;
}

test.each<[what: string, entries: Entry[], left: Left]>([
  ['a gift', [gift('a', 5)], { a: 5 }],
  [
    'what was spent comes out of a gift ahead of what was paid in',
    [paid(5), gift('a', 5), ...call(4, 3)],
    { a: 2 },
  ],
  ['what was spent before it does not', [paid(5), ...call(4, 3), gift('a', 5)], { a: 5 }],
  ['of an older gift first', [gift('a', 5), gift('b', 5), ...call(9, 7)], { b: 3 }],
  ['a hold spends nothing', [gift('a', 5), entry('reservation', -4)], { a: 5 }],
  ['what is taken back is of its own team', [gift('b', 5), gift('a', 5), back('a', 5)], { b: 5 }],
  ['what goes elsewhere is of all', [gift('a', 5), gift('b', 5), back(null, 6)], { b: 4 }],
  [
    'more than a team gave is of the others too',
    [gift('b', 5), gift('a', 5), back('a', 6)],
    { b: 4 },
  ],
  ['what an approval moved is no gift', [approved(5)], {}],
  ['a gift that pays a debt is gone', [late(3), gift('a', 3), paid(3)], {}],
  ['a gift is left as far as it went beyond a debt', [late(3), gift('a', 5), paid(3)], { a: 2 }],
  ['a debt takes all gifts', [gift('a', 5), late(8), paid(9)], {}],
  ['a refund is of what the person paid in', [gift('a', 5), paid(5), refunded(5)], { a: 5 }],
  ['a refund beyond it takes gifts', [gift('a', 5), paid(5), ...call(7, 7), refunded(3)], {}],
  ['a correction downwards that leaves less than the gifts', [gift('a', 5), credit(-2)], { a: 3 }],
])('%s', (_, entries, left) => {
  expect(leftOf(entries)).toEqual(left);
});

test('whatever is booked, no more is left of gifts than the wallet has, and of a team no more than it gave', () => {
  let seed = 7;
  const draw = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % below;
  };
  for (let run = 0; run < 200; run += 1) {
    const given: Left = {};
    let now = nothing_folded;
    for (let step = 0; step < 40; step += 1) {
      const amount = draw(9) + 1;
      const team = ['a', 'b', 'c'][draw(3)] as string;
      const next = [
        () => gift(team, amount),
        () => back(draw(4) === 0 ? null : team, amount),
        () => paid(amount),
        () => refunded(amount),
        () => late(amount),
        () => approved(amount),
      ][draw(6)] as () => Entry;
      const one = next();
      if (one.type === 'allocation_in' && one.team_wallet_id !== null)
        given[team] = (given[team] ?? 0) + amount;
      now = folded(now, one);
      const sum = now.lots.reduce((all, { nanos }) => all + nanos, 0n);
      expect(sum <= (now.total_nanos > 0n ? now.total_nanos : 0n)).toBe(true);
      for (const { giver, nanos } of now.lots) {
        expect(nanos > 0n).toBe(true);
        expect(Number(nanos)).toBeLessThanOrEqual(given[giver] ?? 0);
      }
    }
  }
});
