import type { Answer } from '../api/client';
import { nanosOf } from '../base/decimals';

type CostTicket = Answer<'GET /api/tickets/:id'>;
/** What is looked at of a ticket. */
export type Asking = Pick<CostTicket, 'cause' | 'estimated_cost' | 'wallets'>;
type Wallet = CostTicket['wallets'][number];

/** Which wallet gives what an approval adds; null: it is new money. */
export type Giver = 'team' | 'organization' | null;

/** Of several that cover a call of a budget, whose wallet holds it. */
const holders = ['user', 'team', 'organization'];

/**
 * What approving these adds to their wallets, one after the other, in billionths. Each holds what
 * its call may cost, so that the next finds less there than both find now. The API chooses each
 * wallet by the same rules as the call comes to it (the SQL function `wallet_to_hold`).
 */
export function addedTogether(
  tickets: readonly Asking[],
  { giver, is_of_team }: { giver: Giver; is_of_team: boolean },
): bigint {
  const left = new Map<string, bigint>();
  const freeOf = ({ wallet_id, balance }: Wallet) => left.get(wallet_id) ?? nanosOf(balance);
  let added = 0n;
  for (const { cause, estimated_cost, wallets } of tickets) {
    const need = nanosOf(estimated_cost);
    const source = wallets.find(({ owner_type }) => owner_type === giver);
    const holding = wallets
      .filter((one) => one !== source || freeOf(one) >= need)
      .sort(byFree(freeOf));
    const is_least = cause === 'budget' || is_of_team;
    const covering = is_least ? holding.filter((one) => freeOf(one) >= need) : [];
    const chosen = covering.sort(byHolder)[0] ?? holding[0];
    if (chosen === undefined) continue;
    const missing = max(need - freeOf(chosen), 0n);
    if (source !== undefined) left.set(source.wallet_id, freeOf(source) - missing);
    left.set(chosen.wallet_id, freeOf(chosen) + missing - need);
    added += missing;
  }
  return added;
}

function byHolder(a: Wallet, b: Wallet): number {
  return holders.indexOf(a.owner_type) - holders.indexOf(b.owner_type);
}

/** The fullest first; of equal ones that of more people. */
function byFree(freeOf: (wallet: Wallet) => bigint) {
  return (a: Wallet, b: Wallet) => {
    const more = freeOf(b) - freeOf(a);
    if (more !== 0n) return more > 0n ? 1 : -1;
    return byHolder(b, a);
  };
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
