import { type Db, many, one } from '../sql';

/** What a provider lists of money that goes back: a refund, or a dispute, which alone has an id. */
export interface Claim {
  id?: string;
  provider_refund_id?: string | null;
  /** Of a refund of our own. */
  payment_refund_id?: string | null;
  status: string;
}

/** A payment's claims, and what they have taken from the wallet. */
interface Standing {
  status: string;
  debited_nanos: bigint;
  claims: Claim[];
}

/** News of a claim, as members of the event that tells it. */
export interface ClaimNews {
  cause: 'refund' | 'dispute';
  cause_id: string;
  dispute_status?: 'lost' | 'won';
  reversed?: true;
}

/**
 * Locks a payment for the rest of the transaction, and reads how its claims stand.
 * @param trx a transaction.
 */
export async function lockClaims(trx: Db, id: string): Promise<Standing> {
  // The rows are read by a statement of its own, which sees what the lock has waited for.
  await many(trx, 'select lock_payment(:id)', { id });
  return standingOf(trx, id);
}

/**
 * Writes an event for each claim that was decided since `before` and moved too little, or nothing,
 * for the event of a payment that is refunded, or no longer so.
 */
export async function tellDecided(trx: Db, id: string, before: Standing): Promise<void> {
  for (const news of newsOf(before, await standingOf(trx, id)))
    await many(
      trx,
      `select payment_event(s, 'payment.refunded',
         jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text) || cast(:news as jsonb))
       from payment_sessions s where s.id = :id`,
      { id, news: JSON.stringify(news) },
    );
}

function standingOf(db: Db, id: string): Promise<Standing> {
  return one<Standing>(
    db,
    'select s.status, s.debited_nanos, s.refunds || s.disputes as claims from payment_sessions s where s.id = :id',
    { id },
    'No payment session',
  );
}

/** What `bring_debit` writes no event of. */
export function newsOf(before: Standing, after: Standing): ClaimNews[] {
  const is_money_back = after.debited_nanos < before.debited_nanos;
  // Then the event of that says so.
  const is_told = before.status === 'refunded' && after.status === 'completed';
  const known = new Map(before.claims.map((one) => [nameOf(one), one.status]));
  return after.claims.flatMap((claim): ClaimNews[] => {
    const cause_id = nameOf(claim);
    const was = known.get(cause_id);
    if (cause_id === undefined || was === undefined || was === claim.status) return [];
    if (claim.id === undefined) {
      // A refund of our own tells of itself.
      if (claim.status !== 'failed' || claim.payment_refund_id != null) return [];
      return is_money_back && !is_told ? [{ cause: 'refund', cause_id, reversed: true }] : [];
    }
    if (claim.status === 'lost' && was === 'open')
      return [{ cause: 'dispute', cause_id, dispute_status: 'lost' }];
    if (claim.status !== 'won' || !is_money_back || is_told) return [];
    return [{ cause: 'dispute', cause_id, dispute_status: 'won', reversed: true }];
  });
}

function nameOf({ id, payment_refund_id, provider_refund_id }: Claim): string | undefined {
  return id ?? payment_refund_id ?? provider_refund_id ?? undefined;
}
