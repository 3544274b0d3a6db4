import { type Db, many, one } from '../sql';

/** What a provider lists of money that goes back: a refund, or a dispute, which alone has an id. */
export interface Claim {
  id?: string;
  provider_refund_id?: string | null;
  /** Of a refund of our own. */
  payment_refund_id?: string | null;
  status: string;
}

/** A refund of our own, whether or not its provider lists it. */
interface OwnRefund {
  id: string;
  provider_refund_id: string | null;
  status: 'pending' | 'succeeded' | 'failed';
  /** Its provider was asked for it. */
  is_asked: boolean;
}

/** A payment's claims, and what they have taken from the wallet. */
interface Standing {
  status: string;
  debited_nanos: bigint;
  claims: Claim[];
  own: OwnRefund[];
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
    `select s.status, s.debited_nanos, s.refunds || s.disputes as claims, coalesce((
       select jsonb_agg(jsonb_build_object('id', o.id, 'provider_refund_id', o.provider_refund_id, 'status', o.status,
         'is_asked', o.checks > 0) order by o.id)
       from payment_refunds o where o.payment_session_id = s.id), '[]') as own
     from payment_sessions s where s.id = :id`,
    { id },
    'No payment session',
  );
}

/** What `bring_debit` writes no event of. */
function newsOf(before: Standing, after: Standing): ClaimNews[] {
  const is_money_back =
    after.debited_nanos < before.debited_nanos &&
    // Else the event of that says so.
    !(before.status === 'refunded' && after.status === 'completed');
  const isOwn = ({ payment_refund_id, provider_refund_id }: Claim) =>
    after.own.some(
      (one) =>
        one.id === payment_refund_id ||
        (one.provider_refund_id !== null && one.provider_refund_id === provider_refund_id),
    );
  const [was, now] = [before, after].map(
    ({ claims }) =>
      new Map(claims.filter((one) => !isOwn(one)).map((one) => [nameOf(one), one] as const)),
  ) as [Map<string | undefined, Claim>, Map<string | undefined, Claim>];
  return [
    ...ownNews(before, after, is_money_back),
    ...[...was].flatMap(([cause_id, claim]) =>
      cause_id === undefined ? [] : claimNews(cause_id, claim, now.get(cause_id), is_money_back),
    ),
  ];
}

/**
 * A refund of ours is told when its provider was asked for it, if it is not all done by then, and
 * when it fails after that: one that is refused at once is told to whoever asked.
 */
function ownNews(before: Standing, after: Standing, is_money_back: boolean): ClaimNews[] {
  return after.own.flatMap(({ id: cause_id, status, is_asked }): ClaimNews[] => {
    const was = before.own.find(({ id }) => id === cause_id);
    const is_new = was?.is_asked === false && is_asked;
    if (is_new && status !== 'failed' && after.status === 'completed' && after.debited_nanos > 0n)
      return [{ cause: 'refund', cause_id }];
    const has_failed = was?.is_asked && was.status !== 'failed' && status === 'failed';
    return has_failed && is_money_back ? [{ cause: 'refund', cause_id, reversed: true }] : [];
  });
}

/** What a claim has become that was there before; `now` is undefined if it is listed no more. */
function claimNews(
  cause_id: string,
  was: Claim,
  now: Claim | undefined,
  is_money_back: boolean,
): ClaimNews[] {
  const cause = was.id === undefined ? 'refund' : 'dispute';
  if (now?.status === was.status) return [];
  if (cause === 'dispute' && was.status === 'open' && now?.status === 'lost')
    return [{ cause, cause_id, dispute_status: 'lost' }];
  const taken = cause === 'refund' ? ['pending', 'succeeded'] : ['open', 'lost'];
  if (!is_money_back || !taken.includes(was.status)) return [];
  if (now === undefined) return [{ cause, cause_id, reversed: true }];
  if (now.status === 'won') return [{ cause, cause_id, dispute_status: 'won', reversed: true }];
  return now.status === 'failed' ? [{ cause, cause_id, reversed: true }] : [];
}

function nameOf({ id, payment_refund_id, provider_refund_id }: Claim): string | undefined {
  return id ?? payment_refund_id ?? provider_refund_id ?? undefined;
}
