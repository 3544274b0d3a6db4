import { AppError } from '../errors';
import { decimalText } from '../money';
import { type Db, many, maybe, one } from '../sql';

// What teams gave to a person's wallet, and what is left of it. The wallet's entries are folded in
// their order into lots, the oldest first. What is spent or goes elsewhere comes out of them ahead
// of what the person paid in, of an older gift first; what a team takes back comes out of its own
// gifts first; and what pays a debt is gone. What an approval moved was for a call and is no gift.

/** What is left of one gift. */
interface Lot {
  /** The team's wallet. */
  giver: string;
  nanos: bigint;
}

/** What a wallet's entries come to. */
interface Folded {
  /** What the wallet has, holds included: below 0 in debt. */
  total_nanos: bigint;
  lots: readonly Lot[];
}

/** An entry of the ledger as far as gifts depend on it. */
export interface Entry {
  type: string;
  amount_nanos: bigint;
  actual_cost_nanos: bigint | null;
  /** The team's wallet on the other side of a gift or of its return; null for anything else. */
  team_wallet_id: string | null;
}

export const nothing_folded: Folded = { total_nanos: 0n, lots: [] };

/** Whose gifts are meant: those of one giver, or everybody's. */
const of = (giver: string | null) => (lot: Lot) => giver === null || lot.giver === giver;

/** The lots without so much, and what they could not give. */
function without(lots: readonly Lot[], nanos: bigint, isMeant: (lot: Lot) => boolean) {
  let rest_nanos = nanos;
  const left = lots.flatMap((lot) => {
    const part = isMeant(lot) && rest_nanos > 0n ? least(lot.nanos, rest_nanos) : 0n;
    rest_nanos -= part;
    return part === lot.nanos ? [] : [{ ...lot, nanos: lot.nanos - part }];
  });
  return { lots: left, rest_nanos };
}

const least = (one: bigint, other: bigint) => (one < other ? one : other);
const sumOf = (lots: readonly Lot[]) => lots.reduce((sum, { nanos }) => sum + nanos, 0n);

/** Adds the next entry of a wallet. */
export function folded({ total_nanos: before_nanos, lots: before }: Folded, entry: Entry): Folded {
  const spent_nanos = entry.type === 'settlement' ? (entry.actual_cost_nanos ?? 0n) : 0n;
  const moved_nanos = /^(?:reservation|settlement)$/.test(entry.type) ? 0n : entry.amount_nanos;
  const total_nanos = before_nanos + moved_nanos - spent_nanos;
  const lots = lotsAfter(before, entry, spent_nanos);
  // What is lacking was spent: a gift that pays a debt, and a debt that no gift covered.
  const lacking_nanos = sumOf(lots) - (total_nanos > 0n ? total_nanos : 0n);
  return { total_nanos, lots: without(lots, lacking_nanos, of(null)).lots };
}

function lotsAfter(lots: readonly Lot[], entry: Entry, spent_nanos: bigint): readonly Lot[] {
  const { type, amount_nanos, team_wallet_id: giver } = entry;
  if (type === 'allocation_in' && giver !== null) return [...lots, { giver, nanos: amount_nanos }];
  if (type !== 'allocation_out') return without(lots, spent_nanos, of(null)).lots;
  const own = without(lots, -amount_nanos, of(giver));
  return without(own.lots, own.rest_nanos, of(null)).lots;
}

const STEP = 5_000;

/**
 * Folds what a person's wallet has booked since it was folded last, in short transactions of their
 * own: ahead of the organization's lock, so that nobody waits for a long ledger.
 */
export async function foldUp(db: Db, org_id: string, user_id: string): Promise<void> {
  const wallet = await maybe<{ id: string }>(
    db,
    `select w.id from wallets w where w.org_id = :org_id and w.owner_type = 'user' and w.owner_user_id = :user_id`,
    { org_id, user_id },
  );
  if (wallet !== undefined) await foldWallet(db, wallet.id);
}

/** Folds a wallet up to its last entry; where it stands. */
async function foldWallet(db: Db, wallet_id: string): Promise<Folded> {
  for (;;) {
    const { entries, ...now } = await db.transaction((trx) => fold(trx, wallet_id));
    if (entries < STEP) return now;
  }
}

/** Folds the next entries of a wallet; how many those were, and where it stands. */
async function fold(trx: Db, wallet_id: string): Promise<Folded & { entries: number }> {
  await many(trx, 'insert into gift_folds (wallet_id) values (:wallet_id) on conflict do nothing', {
    wallet_id,
  });
  const { folded_seq, total_nanos, lots } = await one<{
    folded_seq: bigint;
    total_nanos: string;
    lots: { giver: string; nanos: string }[];
  }>(
    trx,
    `select folded_seq, total_nanos::text as total_nanos, lots from gift_folds where wallet_id = :wallet_id for update`,
    { wallet_id },
  );
  const before = {
    total_nanos: BigInt(total_nanos),
    lots: lots.map(({ giver, nanos }) => ({ giver, nanos: BigInt(nanos) })),
  };
  const entries = await many<Entry & { seq: bigint }>(
    trx,
    `select t.seq, t.type, t.amount_nanos, t.actual_cost_nanos, g.wallet_id as team_wallet_id
     from wallet_transactions t
     left join lateral (
       select w.id as wallet_id from wallets w
       where t.transfer_id is not null and w.org_id = t.org_id and w.owner_type = 'team'
         and exists (select 1 from wallet_transactions o where o.wallet_id = w.id and o.transfer_id = t.transfer_id)
         and not exists (select 1 from approval_entries a where a.transaction_id = t.id) limit 1) as g on true
     where t.wallet_id = :wallet_id and t.seq > :folded_seq order by t.seq limit :step`,
    { wallet_id, folded_seq, step: STEP },
  );
  const last = entries.at(-1);
  if (last === undefined) return { ...before, entries: 0 };
  const after = entries.reduce(folded, before);
  await many(
    trx,
    `update gift_folds set folded_seq = :seq, total_nanos = :total_nanos, lots = :lots where wallet_id = :wallet_id`,
    {
      wallet_id,
      seq: last.seq,
      total_nanos: String(after.total_nanos),
      lots: JSON.stringify(after.lots.map(({ giver, nanos }) => ({ giver, nanos: `${nanos}` }))),
    },
  );
  return { ...after, entries: entries.length };
}

interface Ends {
  /** A team's wallet. */
  giver: string;
  /** A person's. */
  taker: string;
}

/** What is left of a giver's gifts: what the person holds for calls under way counts as spent. */
function leftOf({ lots }: Folded, giver: string, reserved_nanos: bigint): bigint {
  return sumOf(without(lots, reserved_nanos, of(null)).lots.filter(of(giver)));
}

/**
 * Refuses (409) to take more out of a person's wallet than is left of what a team's gave to it. The
 * organization is locked.
 */
export async function requireGiven(
  trx: Db,
  { giver, taker }: Ends,
  amount_nanos: bigint,
): Promise<void> {
  const now = await foldWallet(trx, taker);
  const { reserved_nanos, currency } = await one<{ reserved_nanos: bigint; currency: string }>(
    trx,
    'select reserved_nanos, currency from wallets where id = :taker',
    { taker },
  );
  const given_left_nanos = leftOf(now, giver, reserved_nanos);
  if (given_left_nanos >= amount_nanos) return;
  const left =
    given_left_nanos > 0n ? `Only ${decimalText(given_left_nanos)} ${currency} is` : 'Nothing is';
  throw new AppError(
    'insufficient_balance',
    `${left} left of what the team gave to this wallet. What was spent came out of it first.`,
    { status: 409, param: 'amount', extra: { given_left_nanos } },
  );
}

/** What each of a team's people may be asked back for, in nanos; no entry for who got nothing. */
export async function leftOfTeam(
  db: Db,
  at: { org_id: string; team_id: string; user_ids: readonly string[] },
): Promise<ReadonlyMap<string, bigint>> {
  const given = await many<Ends & { user_id: string; reserved_nanos: bigint }>(
    db,
    `select g.id as giver, w.id as taker, w.owner_user_id as user_id, w.reserved_nanos from wallets g
     join wallets w on w.org_id = g.org_id and w.owner_type = 'user' and w.owner_user_id = any(:user_ids)
     where g.org_id = :org_id and g.owner_type = 'team' and g.owner_team_id = :team_id and exists (
       select 1 from wallet_transactions t where t.wallet_id = w.id and t.transfer_id is not null and t.type = 'allocation_in'
         and exists (select 1 from wallet_transactions o where o.wallet_id = g.id and o.transfer_id = t.transfer_id))`,
    at,
  );
  const left = new Map<string, bigint>();
  for (const { user_id, giver, taker, reserved_nanos } of given)
    left.set(user_id, leftOf(await foldWallet(db, taker), giver, reserved_nanos));
  return left;
}
