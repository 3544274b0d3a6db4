import { AppError, tooMany } from '../errors';
import { type Db, many, maybe, one } from '../sql';
import type { Owner } from './destinations';
import type { MessageKind } from './kinds';
import { columns, get, type Message, owned, ownerBindings, wake } from './messages';

// Messages that people ask for: each is a row and a delivery, so they are bounded.

/** Tests of one destination within a minute. */
const TESTS_A_MINUTE = 10;

/**
 * Writes a message that says no more than that it arrives. Throws 429 `rate_limit_exceeded` for the
 * eleventh of a destination within a minute.
 */
export async function test(trx: Db, destination_id: string): Promise<Message> {
  await requireRoom(trx, destination_id);
  const message = await one<Message>(
    trx,
    `insert into notice_messages as m (destination_id, kind, notice_count) values (:destination_id, 'test', 0) returning ${columns}`,
    { destination_id },
  );
  await wake(trx, destination_id);
  return message;
}

/**
 * Refuses what would be the eleventh test of a destination within a minute; one that was sent once
 * more counts again. The destination is locked, so that no race passes it.
 */
async function requireRoom(trx: Db, destination_id: string): Promise<void> {
  const bindings = { destination_id };
  await many(
    trx,
    'select 1 from notice_destinations d where d.id = :destination_id for no key update',
    bindings,
  );
  const { count, resets_at } = await one<{ count: number; resets_at: Date }>(
    trx,
    `select count(*)::int as count, min(t.at) + interval '1 minute' as resets_at
     from notice_messages m cross join lateral (values (m.created_at), (m.replayed_at)) as t (at)
     where m.destination_id = :destination_id and m.kind = 'test' and t.at > clock_timestamp() - interval '1 minute'`,
    bindings,
  );
  if (count < TESTS_A_MINUTE) return;
  throw tooMany(
    'rate_limit_exceeded',
    `A destination gets ${TESTS_A_MINUTE} tests a minute. Look how they fare at GET /v1/notice-messages, and send the next one after Retry-After.`,
    { limit: TESTS_A_MINUTE, resets_at },
  );
}

/**
 * Sends a message once more, delivered or not, for a day; an audit event says who asked. Throws 429
 * `rate_limit_exceeded` while it waits for that already, and of a test, or of one that has arrived,
 * also within a minute of the last time. A code is mailed by adding its address again alone: there
 * it is counted.
 */
export async function replay(trx: Db, id: string, owner: Owner): Promise<Message> {
  const { destination_id, kind, disabled_at, org_id } = await one<{
    destination_id: string;
    kind: MessageKind;
    disabled_at: Date | null;
    org_id: string | null;
  }>(
    trx,
    `select m.destination_id, m.kind, d.disabled_at, d.org_id from notice_messages m join notice_destinations d on d.id = m.destination_id
     where m.id = :id and ${owned} and d.archived_at is null`,
    { id, ...ownerBindings(owner) },
    'No message',
  );
  if (kind === 'confirmation')
    throw new AppError('invalid_field', 'Add the address again for another code.', { param: 'id' });
  if (disabled_at)
    throw new AppError('invalid_field', 'Its destination is disabled. Enable that first.', {
      param: 'id',
    });
  if (kind === 'test') await requireRoom(trx, destination_id);
  const message = await maybe<Message>(
    trx,
    `update notice_messages m set status = 'waiting', attempts = 0, next_at = clock_timestamp(), replayed_at = clock_timestamp(),
       give_up_at = clock_timestamp() + interval '24 hours', delivered_at = null, put_off = null, refused = null
     where m.id = :id and not (m.status = 'waiting' and m.replayed_at is not null)
       and ((m.kind = 'test' or m.status = 'delivered') and m.replayed_at > clock_timestamp() - interval '1 minute') is not true returning ${columns}`,
    { id },
  );
  if (message === undefined) throw replayWaits(await get(trx, id, owner));
  await many(
    trx,
    `select write_audit_event(:org_id, 'notice_message.replayed', :id, null, jsonb_build_object('destination_id', :destination_id::text))`,
    { org_id, id, destination_id },
  );
  await wake(trx, destination_id);
  return message;
}

/** The refusal (429) of a second replay: the first waits for its next try, or was just made. */
function replayWaits({ kind, status, next_at, replayed_at }: Message): AppError {
  const is_waiting = status === 'waiting';
  const until = is_waiting ? next_at?.getTime() : (replayed_at?.getTime() ?? 0) + 60_000;
  return tooMany('rate_limit_exceeded', wordsOf(kind, is_waiting), {
    limit: 1,
    resets_at: new Date(Math.max(until ?? 0, Date.now() + 1_000)),
  });
}

function wordsOf(kind: MessageKind, is_waiting: boolean): string {
  if (is_waiting)
    return 'This message waits to be sent once more already. Ask again once it has arrived or failed.';
  return kind === 'test'
    ? 'A test is sent once more after a minute. Make a new one in the meantime.'
    : 'What has arrived is sent once more after a minute.';
}
