import { actAs } from '../audit-events';
import { AppError } from '../errors';
import { decimalText, fromNanos } from '../money';
import { type Db, many, maybe, one } from '../sql';
import { lockClaims, tellDecided } from './claims';
import type { ProviderName } from './currencies';
import type { SessionStatus } from './sessions';

export type RefundStatus = 'pending' | 'succeeded' | 'failed';

/** A refund, with all that a request to the provider needs. */
export interface Refund {
  id: string;
  org_id: string;
  payment_session_id: string;
  provider: ProviderName;
  provider_order_id: string;
  provider_capture_id: string;
  amount_nanos: bigint;
  currency: string;
  reason: string;
  status: RefundStatus;
  session_status: SessionStatus;
  provider_refund_id: string | null;
  error_code: string | null;
  error_message: string | null;
  spent_nanos: bigint | null;
  /** Until the provider is asked again; null if only news can move it. */
  wait_ms: number | null;
}

/**
 * Asks for a refund of all that can still go back; the id of the one that is under way or done if
 * there is one. Throws 409 if nothing was captured, or all of it has gone back.
 */
export async function request(
  db: Db,
  wanted: {
    payment_session_id: string;
    reason: string;
    by: string;
    allow_negative: boolean;
  },
): Promise<string> {
  const { code, refund_id } = await one<{ code: string | null; refund_id: string }>(
    db,
    'select code, refund_id from request_refund(:payment_session_id, :reason, :by, :allow_negative)',
    wanted,
  );
  if (code === null) return refund_id;
  const words: Record<string, string> = {
    nothing_to_refund: 'All of this payment has gone back already, or is disputed.',
    refunded_in_part:
      "This payment was refunded once. What is left of it can be sent back at the provider's own site; the wallet follows.",
    payment_not_refundable: 'Only a completed payment can be refunded; this one has no credit.',
  };
  throw new AppError('payment_state', words[code] ?? code);
}

export function get(db: Db, id: string): Promise<Refund> {
  return one<Refund>(
    db,
    `select r.id, r.org_id, r.payment_session_id, s.provider, s.provider_order_id, s.provider_capture_id, r.amount_nanos,
       r.currency, r.reason, r.status, s.status as session_status, r.provider_refund_id, r.error_code, r.error_message, r.spent_nanos,
       case when r.next_check_at is not null
         then extract(epoch from greatest(r.next_check_at - clock_timestamp(), interval '0'))::float * 1000 end as wait_ms
     from payment_refunds r join payment_sessions s on s.id = r.payment_session_id where r.id = :id`,
    { id },
    'No refund',
  );
}

/**
 * Takes the refund from the wallet. Throws `credit_spent` if the credit does not cover it any more.
 */
export async function debit(db: Db, id: string): Promise<void> {
  await db.transaction(async (trx) => {
    // Who asked, by which key or session and in which request, as the log has it since.
    const { actor, key_id, request_id } = await one<{
      actor: string;
      key_id: string | null;
      request_id: string | null;
    }>(
      trx,
      `select r.requested_by as actor, e.key_id, e.request_id
       from payment_refunds r left join audit_events e
         on e.object_id = r.id and e.action = 'payment_refund.created' and e.org_id = r.org_id and e.actor = r.requested_by
       where r.id = :id`,
      { id },
      'No refund',
    );
    await actAs(trx, {
      actor,
      key_id: key_id ?? undefined,
      request_id: request_id ?? undefined,
    });
    await many(trx, 'select debit_refund(:id)', { id });
  });
  const refund = await get(db, id);
  if (refund.error_code === 'credit_spent') throw refusalOf(refund);
}

/** Why a refund failed, for the caller that requested it. */
export function refusalOf({ error_code, error_message, spent_nanos, currency }: Refund): AppError {
  if (error_code === 'credit_spent' && spent_nanos !== null)
    return new AppError(
      'credit_spent',
      `${decimalText(spent_nanos)} ${currency} of this top-up has been spent. Refund it anyway, into debt, with allow_negative: true.`,
      { extra: { spent_amount: fromNanos(spent_nanos) } },
    );
  return new AppError(
    'refund_refused',
    `The provider refused this refund, and the wallet has its money again. ${error_message ?? ''}`.trim(),
  );
}

/** Notes that a refund is about to be asked for at its provider; true if it was before. */
export async function ask(db: Db, id: string): Promise<boolean> {
  const { was_asked } = await one<{ was_asked: boolean }>(
    db,
    'select ask_refund(:id) as was_asked',
    { id },
  );
  return was_asked;
}

/**
 * Records the provider's answer, and tells it; a definite no gives the money back to the wallet.
 */
export async function record(
  db: Db,
  id: string,
  answer: { status: RefundStatus; provider_refund_id: string | null; message: string | null },
): Promise<void> {
  const { payment_session_id } = await get(db, id);
  await db.transaction(async (trx) => {
    const before = await lockClaims(trx, payment_session_id);
    await many(trx, 'select from record_refund(:id, :status, :provider_refund_id, :message)', {
      id,
      ...answer,
    });
    await tellDecided(trx, payment_session_id, before);
  });
}

const NOT_PENDING = 'This payment has no refund of ours whose end is awaited.';
const NOT_ASKED =
  'This refund has not left the wallet yet. Wait until it has, or until the wallet does not cover it.';

/**
 * Says how a payment's pending refund ended, of which its provider says nothing more: failed, it
 * gives the money back to the wallet. What the provider tells after all is followed, as a refund at
 * its own site is. A repeat changes nothing. Throws 409 if none is pending.
 */
export async function end(
  trx: Db,
  payment_session_id: string,
  given: { status: 'succeeded' | 'failed'; by: string; note: string },
): Promise<void> {
  const before = await lockClaims(trx, payment_session_id);
  const newest = await maybe<{
    id: string;
    status: RefundStatus;
    is_debited: boolean;
    is_by_hand: boolean;
  }>(
    trx,
    `select r.id, r.status, r.debited_at is not null as is_debited, r.ended_by is not null as is_by_hand
     from payment_refunds r where r.payment_session_id = :payment_session_id order by r.created_at desc, r.id desc limit 1`,
    { payment_session_id },
  );
  if (newest?.is_by_hand && newest.status === given.status) return;
  if (newest?.status !== 'pending') throw new AppError('payment_state', NOT_PENDING);
  if (!newest.is_debited) throw new AppError('payment_state', NOT_ASKED);
  const { id } = newest;
  const { status } = given;
  if (status === 'failed')
    // As the provider listed it last it still takes its money.
    await many(
      trx,
      `update payment_sessions s set refunds = (select coalesce(jsonb_agg(c), '[]') from jsonb_array_elements(s.refunds) as c
         where c ->> 'provider_refund_id' is distinct from r.provider_refund_id)
       from payment_refunds r where r.id = :id and s.id = r.payment_session_id and r.provider_refund_id is not null`,
      { id },
    );
  await many(trx, 'select from record_refund(:id, :status, null, null)', { id, status });
  await many(trx, 'update payment_refunds set ended_by = :by, end_note = :note where id = :id', {
    ...given,
    id,
  });
  await tellDecided(trx, payment_session_id, before);
}

/** The members of a refund that its workflow needs. */
export interface RefundProgress {
  status: RefundStatus;
  /** Until the provider is asked again. */
  wait_ms: number | null;
  /** One line for operators. */
  summary: string;
}

/** How a refund stands, and when to ask for it again. */
export async function progress(db: Db, id: string): Promise<RefundProgress> {
  const { status, wait_ms } = await get(db, id);
  return { status, wait_ms, summary: await summary(db, id) };
}

/** One line for operators. */
export async function summary(db: Db, id: string): Promise<string> {
  const row = await maybe<{ line: string }>(
    db,
    `select to_char(r.amount_nanos / 1e9::numeric, 'FM9999999990.00') || ' ' || r.currency || ' refund of ' || r.payment_session_id
       || ' for ' || o.name || ', ' || r.status || ': ' || r.reason as line
     from payment_refunds r join organizations o on o.id = r.org_id where r.id = :id`,
    { id },
  );
  return row?.line ?? id;
}

/** True while the provider's last word is awaited. */
export async function isPending(db: Db, id: string): Promise<boolean> {
  const row = await maybe(
    db,
    `select 1 from payment_refunds where id = :id and status = 'pending'`,
    { id },
  );
  return row !== undefined;
}

/** Gives up to `limit` refunds that should have been asked for by now their workflow again. */
export async function adoptDue(db: Db, limit: number): Promise<number> {
  const rows = await many(
    db,
    `select send_to_workflow(q.org_id, 'paymentRefund', q.id, null, jsonb_build_object('payment_refund_id', q.id))
     from (select r.id, r.org_id from payment_refunds r
       where r.status = 'pending' and r.next_check_at < clock_timestamp() - interval '15 seconds'
         and not exists (select 1 from outbox b where b.workflow_id = r.id and b.parked_at is null)
       order by r.next_check_at limit :limit) as q`,
    { limit },
  );
  return rows.length;
}
