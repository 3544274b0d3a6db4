import { type Db, many, maybe, one } from '../sql';
import type { Owner } from './destinations';
import type { MessageKind, NoticeKind } from './kinds';

/** One message to a destination, and how it fares. */
export interface Message {
  id: string;
  destination_id: string;
  kind: MessageKind;
  /** How many notices it carries. */
  notice_count: number;
  status: 'waiting' | 'delivered' | 'failed';
  attempts: number;
  /** When it is tried next; null unless it waits. */
  next_at: Date | null;
  created_at: Date;
  attempted_at: Date | null;
  delivered_at: Date | null;
  /** HTTP status or SMTP reply code of the last try. */
  last_status: number | null;
  last_error: string | null;
  replayed_at: Date | null;
}

/** What happened, for one destination, and the message that it left in. */
export interface Notice {
  id: string;
  destination_id: string;
  org_id: string;
  kind: NoticeKind;
  event_id: string | null;
  cost_ticket_id: string | null;
  created_at: Date;
  /** Null while it waits to be put into one. */
  message_id: string | null;
  /** Who decided on its ticket, if somebody has; null for all else. */
  decided_by: string | null;
}

/** A message that was taken for sending. */
export interface TakenMessage extends Message {
  recipient_id: string | null;
  /** Who is still to be told by mail, after a try that told others; null: everybody. */
  put_off: string[] | null;
  /** Who was refused for good in that try. */
  refused: string[] | null;
}

/** A message's columns, of `notice_messages m`. */
export const columns = `m.id, m.destination_id, m.kind, m.notice_count, m.status, m.attempts,
  case when m.status = 'waiting' then m.next_at end as next_at, m.created_at, m.attempted_at, m.delivered_at, m.last_status,
  m.last_error, m.replayed_at`;
/** Of `notices n`: the columns of a notice. */
export const notice_columns = `n.id, n.destination_id, n.org_id, n.kind, n.event_id, n.cost_ticket_id, n.created_at, n.message_id,
  n.payload ->> 'decided_by' as decided_by`;
/** The condition of a destination `d` that it is of its owner: see `ownerBindings`. */
export const owned = '(:is_any or d.org_id is not distinct from :owner)';

export const ownerBindings = (owner: Owner) => ({
  owner: owner ?? null,
  is_any: owner === undefined,
});

export function get(db: Db, id: string, owner: Owner): Promise<Message> {
  return one<Message>(
    db,
    `select ${columns} from notice_messages m join notice_destinations d on d.id = m.destination_id where m.id = :id and ${owned}`,
    { id, ...ownerBindings(owner) },
    'No message',
  );
}

/** Asks the destination's workflow to look. */
export async function wake(trx: Db, destination_id: string): Promise<void> {
  await many(trx, 'select wake_notices(:destination_id)', { destination_id });
}

/**
 * Takes what is due for a destination: at most 4 messages, one while it fails. What is not reported
 * on within the lease is taken again.
 */
export async function take(
  db: Db,
  destination_id: string,
  lease_s: number,
): Promise<TakenMessage[]> {
  // First, so that what is written from now on asks again.
  await many(db, 'update notice_queues set is_woken = false where destination_id = :id', {
    id: destination_id,
  });
  return many<TakenMessage>(
    db,
    `select ${columns}, m.recipient_id, m.put_off, m.refused from take_notices(:destination_id, :lease_s) as m`,
    { destination_id, lease_s },
  );
}

/** How a try went; what a server answered, and what to say of it. */
export interface Outcome {
  /** refused: because of this message; failed: because of the destination; gone: for good. */
  outcome: 'delivered' | 'refused' | 'failed' | 'gone';
  status: number | null;
  error: string | null;
  /** Of a mail that some of its recipients got: who is put off, and who is refused for good. */
  left?: { put_off: string[]; refused: string[] };
}

/**
 * Records how a try went, and of what: of a destination that is reached by something else by now it
 * says nothing. `sent_to` is null if nobody knows.
 */
export async function sent(
  db: Db,
  message_id: string,
  { outcome, status, error, left, sent_to }: Outcome & { sent_to: string | null },
  first_pause_ms: number,
): Promise<void> {
  // First: whoever has been told is not told again, if this breaks off.
  if (left)
    await many(
      db,
      'update notice_messages set put_off = :put_off::text[], refused = :refused::text[] where id = :message_id',
      { message_id, ...left },
    );
  await many(
    db,
    'select note_sent_2(:message_id, :outcome, :status, :error, :first_pause_ms, :sent_to)',
    {
      message_id,
      outcome: outcome === 'gone' ? 'failed' : outcome,
      status,
      error,
      first_pause_ms,
      sent_to,
    },
  );
}

/** Milliseconds until something is to be done for a destination; null if nothing is. */
export async function dueIn(db: Db, destination_id: string): Promise<number | null> {
  const { left_ms } = await one<{ left_ms: number | null }>(
    db,
    'select notices_due_in(:destination_id) as left_ms',
    { destination_id },
  );
  return left_ms === null ? null : Math.ceil(left_ms);
}

/** One line for the Temporal page. */
export async function summary(db: Db, workflow_id: string): Promise<string> {
  const row = await maybe<{ name: string; channel: string; waiting: number }>(
    db,
    `select d.name, d.channel, (select count(*)::int from notice_messages m where m.destination_id = d.id and m.status = 'waiting') as waiting
     from notice_destinations d where d.id = :id`,
    { id: workflow_id.replace(/^notices-/, '') },
  );
  return row
    ? `Notices to ${row.channel} ${row.name}: ${row.waiting} messages wait`
    : 'Notices to a destination that is gone';
}

/** How many destinations with messages that nobody sends were given their workflow again. */
export async function adoptOrphans(db: Db, limit: number): Promise<number> {
  return (await one<{ count: number }>(db, 'select adopt_notices(:limit) as count', { limit }))
    .count;
}

const ORGANIZATIONS_MAX = 200;

/**
 * Tells of keys that end within a week, each once, of 200 organizations at most; how many. Each
 * organization is a transaction of its own, so none waits for another's lock.
 */
export async function tellExpiringKeys(db: Db): Promise<number> {
  const organizations = await many<{ org_id: string }>(
    db,
    'select k.org_id from untold_keys() k group by k.org_id order by min(k.expires_at) limit :most',
    { most: ORGANIZATIONS_MAX },
  );
  let told = 0;
  for (const { org_id } of organizations)
    told += (
      await one<{ count: number }>(db, 'select tell_expiring_keys_2(:org_id) as count', { org_id })
    ).count;
  return told;
}

const FORGET_MAX = 5_000;

/** Forgets notices, links and messages of over 90 days, a page of each. */
export async function forget(db: Db): Promise<void> {
  const old = `created_at < clock_timestamp() - interval '90 days'`;
  const bindings = { most: FORGET_MAX };
  await many(
    db,
    `delete from ticket_links where message_id in (select id from notice_messages where ${old} and status <> 'waiting' limit :most)`,
    bindings,
  );
  await many(
    db,
    `delete from notices where message_id in (select id from notice_messages where ${old} and status <> 'waiting' limit :most)`,
    bindings,
  );
  await many(
    db,
    `delete from notice_messages m where m.id in (select id from notice_messages where ${old} and status <> 'waiting' limit :most)
       and not exists (select 1 from notices n where n.message_id = m.id)
       and not exists (select 1 from ticket_links l where l.message_id = m.id)`,
    bindings,
  );
}
