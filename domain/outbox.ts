import { AppError } from './errors';
import { isMadeBefore, type Page, type PageRequest, pageOf } from './pages';
import { type Db, many, maybe, one } from './sql';
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
 * Notices do not stand behind what else their organization sends.
 */
export function claim(db: Db, limit: number): Promise<Message[]> {
  return many<Message>(
    db,
    `with turn as (
       select o.id, o.workflow like 'payment%' as is_payment, row_number() over (partition by o.org_id, o.workflow = 'notices' order by o.id) as place
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

/** Milliseconds until a message is due that is not parked; undefined if none waits. */
export async function nextDueIn(db: Db): Promise<number | undefined> {
  const { left_ms } = await one<{ left_ms: number | null }>(
    db,
    `select (extract(epoch from min(next_at) - clock_timestamp()) * 1000)::float8 as left_ms
     from outbox where parked_at is null`,
  );
  return left_ms === null ? undefined : Math.max(0, left_ms);
}

/**
 * The message has arrived. So has what an older one like it would have said, which was given up: a
 * worker of the version before may not know its workflow.
 */
export async function done(
  db: Db,
  { id, workflow_id, signal }: Pick<Message, 'id' | 'workflow_id' | 'signal'>,
): Promise<void> {
  await many(
    db,
    `delete from outbox o where o.id = :id or o.workflow_id = :workflow_id and o.id < :id and o.parked_at is not null
       and o.signal is not distinct from :signal`,
    { id, workflow_id, signal },
  );
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

/** What waits to be sent, and what was given up. */
export interface OutboxCounts {
  waiting: number;
  /** Kept for an operator: no longer sent. */
  parked: number;
  /** Since when the oldest message waits; null if none does. */
  oldest_waiting_since: Date | null;
  /** When the last one was given up; null if none is kept. */
  newest_parked_at: Date | null;
}

/** The same, with the database's time, by which all of it is dated. */
export type OutboxLook = OutboxCounts & { now: Date };

export function counts(db: Db): Promise<OutboxLook> {
  return one<OutboxLook>(
    db,
    `select count(*) filter (where parked_at is null)::int as waiting, count(*) filter (where parked_at is not null)::int as parked,
       min(created_at) filter (where parked_at is null) as oldest_waiting_since,
       max(parked_at) as newest_parked_at, clock_timestamp() as now
     from outbox`,
  );
}

/** A message as operators see it: without its content. */
export interface OutboxMessage {
  id: string;
  org_id: string;
  workflow: string;
  workflow_id: string;
  signal: string | null;
  created_at: Date;
  attempts: number;
  next_at: Date;
  parked_at: Date | null;
  last_error: string | null;
}

const message_columns =
  'o.id::text as id, o.org_id, o.workflow, o.workflow_id, o.signal, o.created_at, o.attempts, o.next_at, o.parked_at, o.last_error';

/** Messages in the order in which they were written. */
export function list(
  db: Db,
  status: 'waiting' | 'parked' | undefined,
  window: PageRequest,
): Promise<Page<OutboxMessage>> {
  return pageOf(
    db,
    {
      select: `select ${message_columns}`,
      all: `from outbox o where (:status::text is null or (o.parked_at is not null) = (:status = 'parked'))
        and ${isMadeBefore('o.created_at')}`,
      ordered: 'order by o.id',
    },
    { status: status ?? null },
    window,
  );
}

/**
 * Sends a parked message once more; an audit event says who asked. Throws not_found if no message
 * has the id (it may have been sent), message_not_parked if it still is sent by itself.
 */
export async function retry(trx: Db, id: string): Promise<OutboxMessage> {
  // No number of digits more is an id.
  const message = /^\d{1,18}$/.test(id)
    ? await maybe<OutboxMessage>(
        trx,
        `select ${message_columns} from outbox o where o.id = :id for update`,
        { id },
      )
    : undefined;
  if (message === undefined)
    throw new AppError('not_found', 'No message waits under this id. One that was sent is gone.');
  if (message.parked_at === null)
    throw new AppError('message_not_parked', 'This message is not parked: it is sent by itself.');
  await many(
    trx,
    `select pg_notify('outbox', ''), write_audit_event(:org_id, 'outbox.retried', :workflow_id, null,
       jsonb_build_object('message_id', :id::text, 'workflow', :workflow::text))`,
    { ...message, id },
  );
  return one<OutboxMessage>(
    trx,
    `update outbox o set parked_at = null, attempts = 0, next_at = clock_timestamp() where o.id = :id
     returning ${message_columns}`,
    { id },
  );
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
 * open tickets, payments, refunds and exports under way, rollouts of configurations, notices.
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
       union all
       select coalesce(x.org_id, 'platform'), 'exportJob', x.id, null, jsonb_build_object('export_id', x.id)
       from exports x where x.status = 'running'
       union all
       select 'platform', 'configRollout', c.id, 'wake', jsonb_build_object('rollout_id', c.id)
       from config_rollouts c where c.status in ('running', 'paused')
       union all
       select coalesce(d.org_id, 'platform'), 'notices', 'notices-' || d.id, 'wakeNotices', jsonb_build_object('destination_id', d.id)
       from notice_destinations d
       where exists (select 1 from notices n where n.destination_id = d.id and n.message_id is null)
         or exists (select 1 from notice_messages m where m.destination_id = d.id and m.status = 'waiting')
     ) as u
     where not exists (select 1 from outbox b where b.workflow_id = u.workflow_id and b.parked_at is null)`,
  );
  return rows.length;
}
