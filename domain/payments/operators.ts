import { AppError } from '../errors';
import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { type Db, one } from '../sql';
import { listingOf, type SessionFilter } from './session-lists';
import { type Session, sessionColumns, sessionTable } from './sessions';

/**
 * The members of a session that only platform admins see: amount taken, decision, and the
 * provider's own message.
 */
interface AdminSession extends Session {
  captured_amount_nanos: bigint | null;
  captured_currency: string | null;
  resolved_by: string | null;
  resolution_note: string | null;
  provider_message: string | null;
  /** Open at the provider: a person answers them there, in time. */
  open_disputes: number;
  refunds: AdminRefund[];
}

interface AdminRefund {
  id: string;
  status: 'pending' | 'succeeded' | 'failed';
  amount_nanos: string;
  currency: string;
  reason: string;
  requested_by: string;
  provider_refund_id: string | null;
  error_message: string | null;
  ended_by: string | null;
  end_note: string | null;
  created_at: string;
}

const adminColumns = `${sessionColumns}, s.captured_nanos as captured_amount_nanos, s.captured_currency, s.resolved_by,
  s.resolution_note, s.provider_message,
  (select count(*)::int from jsonb_array_elements(s.disputes) as d where d ->> 'status' = 'open') as open_disputes,
  (select coalesce(jsonb_agg(jsonb_build_object('id', r.id, 'status', r.status, 'amount_nanos', r.amount_nanos::text, 'currency', r.currency,
    'reason', r.reason, 'requested_by', r.requested_by, 'provider_refund_id', r.provider_refund_id, 'error_message', r.error_message,
    'ended_by', r.ended_by, 'end_note', r.end_note, 'created_at', iso_time(r.created_at)) order by r.created_at), '[]') from payment_refunds r where r.payment_session_id = s.id) as refunds`;

export function getForAdmin(db: Db, id: string): Promise<AdminSession> {
  return one<AdminSession>(
    db,
    `${adminColumns} ${sessionTable} where s.id = :id`,
    { id },
    'No payment session',
  );
}

/** Sessions of all organizations, as platform admins see them. */
export function listForAdmin(
  db: Db,
  filter: SessionFilter,
  request: ListRequest,
): Promise<Page<AdminSession> | Part<AdminSession>> {
  const all = { name: 'all payments', select: adminColumns };
  return listOf(db, listingOf(all, filter), request);
}

type Resolution = 'credited' | 'closed';

/** What stands against a decision, by the database's code. */
const states: Readonly<Record<string, string>> = {
  refund_under_way: 'A refund of this payment is under way or done.',
  wallet_full:
    'The wallet cannot hold this much more. Make room in it, then decide again, or refund the payment.',
};

/**
 * An operator's decision about money that came in another amount or currency; a repeat changes
 * nothing. Throws 409 if there is nothing to decide, and `invalid_field` if the amount to credit
 * must be named.
 */
export async function resolve(
  db: Db,
  given: {
    id: string;
    resolution: Resolution;
    amount_nanos?: bigint | undefined;
    by: string;
    note: string;
  },
): Promise<void> {
  const { code } = await one<{ code: string | null }>(
    db,
    'select code from resolve_payment(:id, :resolution, :amount_nanos, :by, :note)',
    { ...given, amount_nanos: given.amount_nanos ?? null },
  );
  if (code === null || code === 'repeated') return;
  if (code === 'amount_needed') {
    throw new AppError(
      'invalid_field',
      "amount is needed: the money came in another currency. Name what to credit, in the wallet's currency.",
      { param: 'amount' },
    );
  }
  if (code === 'amount_not_captured') {
    throw new AppError('invalid_field', 'amount is above what the provider took.', {
      param: 'amount',
    });
  }
  throw new AppError(
    'payment_state',
    states[code] ?? 'This payment has no open mismatch to resolve.',
  );
}
