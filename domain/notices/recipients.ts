import { AppError } from '../errors';
import type { Secrets } from '../secrets';
import { type Db, many, maybe, one } from '../sql';
import type { Owner, Recipient } from './destinations';

// An address gets notices once somebody has entered the code that was mailed to it.

const CODE_LIFE_HOURS = 24;
const WRONG_MAX = 5;
const RECIPIENTS_MAX = 20;
const CODE_LENGTH = 10;
/** To one address, of one organization. */
const CODES_AN_HOUR = 5;
const CODES_A_DAY = 100;

const owned =
  'd.id = r.destination_id and (:is_any or d.org_id is not distinct from :org_id) and d.archived_at is null';

function ownerBindings(owner: Owner) {
  return { org_id: owner ?? null, is_any: owner === undefined };
}

interface Asked {
  id: string;
  destination_id: string;
  address: string;
  asked_at: Date;
  wrong_codes: number;
  confirmed_at: Date | null;
}

/**
 * Adds an address to a destination and has a code mailed to it, or another code if it is not
 * confirmed yet; a minute must lie between two codes that can be entered. A destination has 20 at
 * most; an address gets 5 codes an hour, and an organization has 100 mailed a day.
 */
export async function add(trx: Db, destination_id: string, address: string): Promise<Recipient> {
  await one(trx, 'select 1 from notice_queues where destination_id = :id for update', {
    id: destination_id,
  });
  const known = await maybe<Asked & { is_fresh: boolean }>(
    trx,
    `select *, asked_at > clock_timestamp() - interval '1 minute' as is_fresh from notice_recipients
     where destination_id = :destination_id and lower(address) = lower(:address)`,
    { destination_id, address },
  );
  const has_code = known?.is_fresh && known.wrong_codes < WRONG_MAX;
  if (known && (known.confirmed_at || has_code)) return shown(known);
  if (!known) await requireRoom(trx, destination_id);
  await noteCode(trx, destination_id, address);
  const row = await one<Asked>(
    trx,
    known
      ? `update notice_recipients set asked_at = clock_timestamp(), wrong_codes = 0 where id = :id returning *`
      : `insert into notice_recipients (destination_id, address) values (:destination_id, :address) returning *`,
    { id: known?.id ?? null, destination_id, address },
  );
  await many(
    trx,
    `insert into notice_messages (destination_id, kind, notice_count, recipient_id) values (:destination_id, 'confirmation', 0, :id)`,
    { destination_id, id: row.id },
  );
  await many(trx, 'select wake_notices(:destination_id)', { destination_id });
  if (!known) await note(trx, 'created', row);
  return shown(row);
}

/** Removes an address. */
export async function remove(trx: Db, id: string, owner: Owner): Promise<Recipient> {
  const row = await one<Asked>(
    trx,
    `delete from notice_recipients r using notice_destinations d where r.id = :id and ${owned} returning r.*`,
    { id, ...ownerBindings(owner) },
    'No recipient',
  );
  await note(trx, 'ended', row);
  return shown(row);
}

/** Confirms an address by the code that it got; five wrong ones make the code worthless. */
export async function confirm(
  trx: Db,
  secrets: Secrets,
  owner: Owner,
  { id, code }: { id: string; code: string },
): Promise<Recipient | undefined> {
  // In the order of those who write notices, and of `add`.
  await many(
    trx,
    `select pg_advisory_xact_lock(hashtext('notices'), hashtext(destination_id)) from notice_recipients where id = :id`,
    { id },
  );
  await many(
    trx,
    `select 1 from notice_queues where destination_id in (select destination_id from notice_recipients where id = :id) for update`,
    { id },
  );
  const row = await one<Asked & { is_late: boolean }>(
    trx,
    `select r.*, r.asked_at < clock_timestamp() - :hours * interval '1 hour' as is_late
     from notice_recipients r join notice_destinations d on true
     where r.id = :id and ${owned} for update of r`,
    { id, ...ownerBindings(owner), hours: CODE_LIFE_HOURS },
    'No recipient',
  );
  if (row.confirmed_at) return shown(row);
  if (row.is_late || row.wrong_codes >= WRONG_MAX)
    throw new AppError(
      'invalid_field',
      'This code is too old. Add the address again for a new one.',
      {
        param: 'code',
      },
    );
  const is_right = (await codesOf(secrets, row)).includes(code.trim().toLowerCase());
  const changed = is_right ? 'confirmed_at = clock_timestamp()' : 'wrong_codes = wrong_codes + 1';
  const after = await one<Asked>(
    trx,
    `update notice_recipients set ${changed} where id = :id returning *`,
    { id },
  );
  if (!is_right) return undefined;
  // What waits at the destination waited for this.
  const { destination_id } = after;
  await many(trx, 'select retry_notices(:destination_id)', { destination_id });
  await note(trx, 'confirmed', after);
  return shown(after);
}

/** To whom a confirmation goes, and the code in it. */
export async function asked(
  db: Db,
  secrets: Secrets,
  id: string,
): Promise<{ address: string; code: string }> {
  const row = await one<Asked>(db, 'select * from notice_recipients where id = :id', { id });
  const [code] = (await codesOf(secrets, row)) as [string];
  return { address: row.address, code };
}

/**
 * Ten letters and digits of a signature: 50 bits or more, and never in the database. By the key
 * that signs now, and by those that have signed what is on its way.
 */
async function codesOf(secrets: Secrets, { id, asked_at }: Asked): Promise<string[]> {
  const signatures = await secrets.signAll('recipient_code', id, asked_at.toISOString());
  return signatures.map((one) => one.replace(/[-_]/g, '').slice(0, CODE_LENGTH).toLowerCase());
}

/** Writes who changed a recipient. */
async function note(trx: Db, verb: 'created' | 'confirmed' | 'ended', row: Asked): Promise<void> {
  const { id, address, destination_id } = row;
  await many(
    trx,
    `select write_audit_event(d.org_id, 'notice_recipient.' || :verb, :id,
       case when :verb <> 'created' then r.shown || jsonb_build_object('confirmed', :was_confirmed::boolean) end,
       case when :verb <> 'ended' then r.shown || jsonb_build_object('confirmed', :verb = 'confirmed') end)
     from notice_destinations d
     cross join lateral (select jsonb_build_object('address', :address::text, 'destination_id', d.id) as shown) as r
     where d.id = :destination_id`,
    {
      ...{ verb, id, address, destination_id },
      was_confirmed: verb === 'ended' && row.confirmed_at !== null,
    },
  );
}

async function requireRoom(trx: Db, destination_id: string): Promise<void> {
  const { count } = await one<{ count: number }>(
    trx,
    'select count(*)::int as count from notice_recipients where destination_id = :destination_id',
    { destination_id },
  );
  if (count < RECIPIENTS_MAX) return;
  throw new AppError('invalid_field', `A destination has at most ${RECIPIENTS_MAX} recipients.`, {
    param: 'address',
  });
}

/** Counts a code before it is mailed: nobody is sent mail without end who did not ask for it. */
async function noteCode(trx: Db, destination_id: string, address: string): Promise<void> {
  const { owner } = await one<{ owner: string }>(
    trx,
    `select coalesce(org_id, 'platform') as owner from notice_destinations where id = :destination_id`,
    { destination_id },
  );
  const given = { owner, address: address.toLowerCase() };
  await many(
    trx,
    `select pg_advisory_xact_lock(hashtext('notice_codes'), hashtext(:owner))`,
    given,
  );
  const { to_address, of_owner } = await one<{ to_address: number; of_owner: number }>(
    trx,
    `select count(*) filter (where address = :address and sent_at > clock_timestamp() - interval '1 hour')::int as to_address,
       count(*)::int as of_owner
     from notice_codes where owner = :owner and sent_at > clock_timestamp() - interval '1 day'`,
    given,
  );
  const problem =
    to_address >= CODES_AN_HOUR
      ? `${CODES_AN_HOUR} codes were mailed to this address within an hour. Ask for another one later.`
      : of_owner >= CODES_A_DAY
        ? `${CODES_A_DAY} codes were mailed within a day. Ask for another one tomorrow.`
        : undefined;
  if (problem !== undefined) throw new AppError('invalid_field', problem, { param: 'address' });
  await many(trx, 'insert into notice_codes (owner, address) values (:owner, :address)', given);
}

/** Forgets codes that count no more. */
export async function forgetCodes(db: Db): Promise<void> {
  await many(db, `delete from notice_codes where sent_at < clock_timestamp() - interval '1 day'`);
}

function shown({ id, address, confirmed_at }: Asked): Recipient {
  return { id, address, confirmed_at };
}
