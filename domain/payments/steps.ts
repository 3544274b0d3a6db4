import { type Db, many, maybe, one } from '../sql';
import { lockClaims, tellDecided } from './claims';
import type { ProviderName } from './currencies';
import type { ErrorReason, SessionStatus } from './sessions';

/** The members of a session that a call to its provider needs. */
export interface Called {
  id: string;
  status: SessionStatus;
  provider: ProviderName;
  provider_order_id: string | null;
  error_code: ErrorReason | null;
  /** The number of this call, committed before it is made: it orders the answers. */
  reading: number;
  amount_nanos: bigint;
  currency: string;
  return_url: string;
  cancel_url: string;
  provider_expires_at: Date;
  is_overdue: boolean;
  /** Made lately and not captured yet: nothing can have gone back. */
  is_fresh: boolean;
  /** The number of the newest question that people have asked. */
  asked: number;
  /** The key of a capture that is under way at the provider. */
  capture_key: string | null;
  /** "Top-up of team Research" */
  description: string;
}

/**
 * Commits that a call to the provider begins; a session that waits for its buyer becomes capturing
 * if it is to be taken.
 */
export function begin(
  db: Db,
  id: string,
  { is_capture }: { is_capture: boolean },
): Promise<Called> {
  return one<Called>(
    db,
    `select s.id, s.status, s.provider, s.provider_order_id, s.error_code, s.provider_calls as reading, s.amount_nanos, s.currency,
       s.return_url, s.cancel_url, s.expires_at - interval '5 minutes' as provider_expires_at,
       s.expires_at <= clock_timestamp() as is_overdue,
       s.provider_capture_id is null and s.created_at > clock_timestamp() - interval '10 minutes' as is_fresh, s.asked, s.capture_key,
       ${target} as description
     from begin_payment_call(:id, :is_capture) as s ${names} where s.id is not null`,
    { id, is_capture },
    'No payment session',
  );
}

const target = `'Top-up of ' || case w.owner_type when 'team' then 'team ' || t.name when 'user' then u.name else o.name end`;
const names = `join wallets w on w.id = s.wallet_id join organizations o on o.id = s.org_id
  left join teams t on t.id = w.owner_team_id left join users u on u.id = w.owner_user_id`;

/** The provider has made the checkout; how the session stands, which may have ended meanwhile. */
export async function opened(
  db: Db,
  id: string,
  checkout: { order_id: string; approval_url: string },
): Promise<SessionStatus> {
  const { status } = await one<{ status: SessionStatus }>(
    db,
    'select status from open_payment(:id, :order_id, :approval_url)',
    { id, ...checkout },
  );
  return status;
}

/** The place of a session's checkout, read without a call to its provider. */
export function placeOf(
  db: Db,
  id: string,
): Promise<Pick<Called, 'provider' | 'provider_order_id' | 'status'>> {
  return one(
    db,
    'select provider, provider_order_id, status from payment_sessions where id = :id',
    { id },
    'No payment session',
  );
}

/** True if the provider is to be asked by now, or the session's time is over. */
export async function isDue(db: Db, id: string): Promise<boolean> {
  const row = await maybe(
    db,
    `select 1 from payment_sessions s cross join lateral payment_step(s) as p where s.id = :id and p.wait_ms <= 0`,
    { id },
  );
  return row !== undefined;
}

/** A provider's report in the database's form: amounts as text of nanos. */
export interface Report {
  status: string;
  capture_id: string | null;
  amount_nanos: bigint | null;
  currency: string | null;
  refunds: readonly object[];
  disputes: readonly object[] | null;
}

interface Answered {
  reading: number;
  /** The money was asked for. */
  is_asked?: boolean;
  /** Up to which question of people this is the answer. */
  asked?: number | undefined;
}

/**
 * Records the provider's report. Only here does a payment become captured; safe to run any number
 * of times at once.
 */
export async function record(
  db: Db,
  id: string,
  report: Report,
  { reading, is_asked = false, asked }: Answered,
): Promise<SessionStatus> {
  const plain = JSON.stringify({ ...report, asked }, (_, value) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
  const bindings = { id, plain, reading, is_asked };
  // Most payments have no refund and no dispute, now or before, and need one statement.
  if (report.refunds.length + (report.disputes?.length ?? 0) === 0) {
    const done = await maybe<{ status: SessionStatus }>(
      db,
      `select r.status from payment_sessions s cross join lateral record_payment(s.id, :plain, :reading, :is_asked) as r
       where s.id = :id and s.refunds || s.disputes = '[]'`,
      bindings,
    );
    if (done) return done.status;
  }
  return db.transaction(async (trx) => {
    const before = await lockClaims(trx, id);
    const { status } = await one<{ status: SessionStatus }>(
      trx,
      'select status from record_payment(:id, :plain, :reading, :is_asked)',
      bindings,
    );
    await tellDecided(trx, id, before);
    return status;
  });
}

export interface End {
  to: 'canceled' | 'expired' | 'failed';
  error_code: ErrorReason;
  error_message: string;
  /** The provider's own message, for operators only. */
  provider_message?: string;
}

/** Ends a session that nobody has paid; changes nothing if it has moved on. */
export async function close(
  db: Db,
  id: string,
  { provider_message, ...end }: End,
): Promise<SessionStatus> {
  const { status } = await one<{ status: SessionStatus }>(
    db,
    'select status from close_payment(:id, :to, :error_code, :error_message)',
    { id, ...end },
  );
  if (provider_message !== undefined)
    await many(
      db,
      'update payment_sessions set provider_message = :provider_message where id = :id',
      {
        id,
        provider_message,
      },
    );
  return status;
}

/** Credits a captured payment; changes nothing if that is done. */
export async function credit(db: Db, id: string): Promise<void> {
  await many(db, 'select from credit_payment(:id)', { id });
}

/**
 * True while its provider is being asked: the workflow works on it. A call whose worker died counts
 * for 30 s.
 */
export async function isUnderWay(db: Db, id: string): Promise<boolean> {
  const row = await maybe(
    db,
    `select 1 from payment_sessions where id = :id and provider_called_at > clock_timestamp() - interval '30 seconds'`,
    { id },
  );
  return row !== undefined;
}

/** A session's status, and its workflow's next step. */
export interface Progress {
  status: SessionStatus;
  next: 'open' | 'wait' | 'credit' | 'end';
  /** Until the provider is asked, or the session expires; null if only news can move it. */
  wait_ms: number | null;
  /** One line for operators. */
  summary: string;
}

/** A session's status, its workflow's next step, and one line for operators. */
export async function progress(db: Db, id: string): Promise<Progress> {
  return one<Progress>(
    db,
    `select s.status, p.next, p.wait_ms, ${line} as summary
     from payment_sessions s cross join lateral payment_step(s) as p ${lineNames} where s.id = :id`,
    { id },
    'No payment session',
  );
}

// "50.00 EUR top-up of team Research by A., waiting for the buyer"
const line = `to_char(s.amount_nanos / 1e9::numeric, 'FM9999999990.00') || ' ' || s.currency || ' top-up of '
  || case w.owner_type when 'team' then 'team ' || t.name when 'user' then u.name else o.name end
  || coalesce(' by ' || b.name, '') || ', '
  || case s.status when 'created' then 'waiting for the buyer' when 'capturing' then 'being taken at the provider'
    when 'captured' then 'paid, to be credited' else s.status end
  || case when s.is_late then ', late' else '' end || coalesce(' (' || s.error_code || ')', '')`;
const lineNames = `${names} left join users b on b.id = s.user_id`;

/** One line for operators. */
export async function summary(db: Db, id: string): Promise<string> {
  const row = await maybe<{ line: string }>(
    db,
    `select ${line} as line from payment_sessions s ${lineNames} where s.id = :id`,
    { id },
  );
  return row?.line ?? id;
}

/**
 * Payments that only a person can bring on, or that hang for an hour: oldest first, a line each
 * that names the problem.
 */
export function needAttention(
  db: Db,
  limit: number,
): Promise<{ id: string; line: string; why: string }[]> {
  return many(
    db,
    `select s.id, ${line} as line, case when s.disputes @> '[{"status": "open"}]' then 'a dispute is open: answer it at the provider, in time'
         when s.status = 'failed' then s.error_message
         when r.id is not null then 'the refund ' || r.id || ' is pending at the provider since ' || iso_time(r.created_at)
         else coalesce(s.provider_message, s.error_message, 'the provider has not said how it ended') end as why
     from payment_sessions s ${lineNames}
     left join payment_refunds r on r.payment_session_id = s.id and r.status = 'pending' and r.created_at < clock_timestamp() - interval '1 hour'
     where s.disputes @> '[{"status": "open"}]'
       or s.error_code = 'provider_unavailable' and s.status in ('created', 'capturing')
       or s.status = 'failed' and s.error_code = 'amount_mismatch' and s.resolution is null
         and not exists (select 1 from payment_refunds q where q.payment_session_id = s.id and q.status = 'pending')
       or s.status = 'created' and s.expires_at < clock_timestamp() - interval '10 minutes'
       or s.status in ('capturing', 'captured', 'confirming', 'confirmed') and s.updated_at < clock_timestamp() - interval '10 minutes'
       or r.id is not null
     order by s.created_at, s.id limit :limit`,
    { limit },
  );
}

/** True if a workflow has something to do for the session. */
export async function isUnfinished(db: Db, id: string): Promise<boolean> {
  const row = await maybe(
    db,
    `select 1 from payment_sessions s cross join lateral payment_step(s) as p where s.id = :id and p.next <> 'end'`,
    { id },
  );
  return row !== undefined;
}

/** Sends a message to the workflows of up to `limit` sessions that are due for a question. */
export async function adoptDue(db: Db, limit: number): Promise<number> {
  const rows = await many(
    db,
    `select send_to_workflow(q.org_id, 'paymentSession', q.id, 'providerEvent', jsonb_build_object('payment_session_id', q.id))
     from (select s.id, s.org_id from payment_sessions s
       where (s.next_check_at < clock_timestamp() - interval '15 seconds' or s.ask_again_at < clock_timestamp() - interval '15 seconds')
         and not exists (select 1 from outbox b where b.workflow_id = s.id and b.signal is not null and b.parked_at is null)
       order by least(s.next_check_at, s.ask_again_at) limit :limit) as q`,
    { limit },
  );
  return rows.length;
}
