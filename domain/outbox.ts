import { type Db, many } from './sql';
import { cut } from './texts';

/** A message to a workflow, written in the transaction that causes it. */
export interface Message {
  id: bigint;
  org_id: string;
  workflow: string;
  workflow_id: string;
  signal: string | null;
  input: Record<string, unknown>;
  attempts: number;
}

const ATTEMPTS_MAX = 20;
/** A claimed message that nobody reports on is due again after this long. */
const LEASE_SECONDS = 30;

/**
 * Claims due messages for sending: payments first, then the oldest of each organization in turn.
 */
export function claim(db: Db, limit: number): Promise<Message[]> {
  return many<Message>(
    db,
    `with turn as (
       select o.id, o.workflow like 'payment%' as is_payment, row_number() over (partition by o.org_id order by o.id) as place
       from outbox o where o.parked_at is null and o.next_at <= clock_timestamp()
     ), due as (
       select o.id from outbox o join turn t on t.id = o.id
       order by t.is_payment desc, t.place, o.id limit :limit for update of o skip locked
     )
     update outbox o set attempts = o.attempts + 1, next_at = clock_timestamp() + :lease * interval '1 second'
     from due where o.id = due.id and o.next_at <= clock_timestamp()
     returning o.id, o.org_id, o.workflow, o.workflow_id, o.signal, o.input, o.attempts`,
    { limit, lease: LEASE_SECONDS },
  );
}

/** The message has arrived. */
export async function done(db: Db, id: bigint): Promise<void> {
  await many(db, 'delete from outbox where id = :id', { id });
}

/**
 * The message did not arrive: due again after a growing pause of at most a minute; parked after 20
 * tries.
 */
export async function failed(
  db: Db,
  message: Pick<Message, 'id' | 'attempts'>,
  reason: string,
): Promise<void> {
  await many(
    db,
    `update outbox set last_error = :reason, next_at = clock_timestamp() + least(60, power(2, :attempts)) * interval '1 second',
       parked_at = case when :attempts >= :attempts_max then clock_timestamp() end
     where id = :id`,
    {
      id: message.id,
      attempts: message.attempts,
      attempts_max: ATTEMPTS_MAX,
      reason: cut(reason, 500),
    },
  );
}

/** Nobody was there to take the message: due again soon, and the try does not count. */
export async function postponed(
  db: Db,
  message: Pick<Message, 'id'>,
  reason: string,
): Promise<void> {
  await many(
    db,
    `update outbox set last_error = :reason, attempts = attempts - 1, next_at = clock_timestamp() + interval '2 seconds'
     where id = :id`,
    { id: message.id, reason: cut(reason, 500) },
  );
}

/** Messages that were given up, oldest first: kept for an operator to look at. */
export function parked(db: Db, limit: number): Promise<Parked[]> {
  return many<Parked>(
    db,
    `select o.id::text as id, o.workflow, o.workflow_id, o.parked_at, o.last_error
     from outbox o where o.parked_at is not null order by o.id limit :limit`,
    { limit },
  );
}

interface Parked {
  id: string;
  workflow: string;
  workflow_id: string;
  parked_at: Date;
  last_error: string | null;
}

/** Sends all parked messages once more; how many. */
export async function unpark(db: Db): Promise<number> {
  const rows = await many(
    db,
    `update outbox set parked_at = null, attempts = 0, next_at = clock_timestamp() where parked_at is not null
     returning id, pg_notify('outbox', '')`,
  );
  return rows.length;
}

/**
 * Starts the workflows of all unfinished rows again, for when Temporal has lost them: open holds,
 * open tickets, payments and refunds under way.
 */
export async function resendUnfinished(db: Db): Promise<number> {
  const rows = await many(
    db,
    `select send_to_workflow(u.org_id, u.workflow, u.workflow_id, u.signal, u.input) from (
       select o.id as org_id, 'reservationLifetimes' as workflow, 'lifetimes-' || o.id as workflow_id, 'wake' as signal,
         jsonb_build_object('org_id', o.id) as input
       from organizations o where o.lifetimes_next_at is not null
       union all
       select t.org_id, 'costTicket', t.id, null, jsonb_build_object('ticket_id', t.id)
       from cost_tickets t where t.status = 'open'
       union all
       select s.org_id, 'paymentSession', s.id, 'providerEvent', jsonb_build_object('payment_session_id', s.id)
       from payment_sessions s where s.status in ('created', 'capturing', 'captured', 'confirming', 'confirmed')
       union all
       select r.org_id, 'paymentRefund', r.id, null, jsonb_build_object('payment_refund_id', r.id)
       from payment_refunds r where r.status = 'pending'
     ) as u
     where not exists (select 1 from outbox b where b.workflow_id = u.workflow_id and b.parked_at is null)`,
  );
  return rows.length;
}
