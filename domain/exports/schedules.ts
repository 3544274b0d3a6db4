import { isAppError, tooMany } from '../errors';
import { requireLiving } from '../known';
import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { type Db, many, maybe, one, owns } from '../sql';
import { requireZone } from '../time-zones';
import { type ExportStatus, type Format, lock } from './exports';
import type { KindName } from './kinds';
import { create, requireKept } from './making';
import { fall, goOn, mayHave, wait } from './schedule-ends';
import { keptKinds, tellGap } from './schedule-gaps';
import { openBefore, openWords } from './settling';

export type Every = 'day' | 'month';

/** Exports of one day or month after the other. */
export interface ExportSchedule {
  id: string;
  /** Null: of all organizations. */
  org_id: string | null;
  kinds: KindName[];
  format: Format;
  every: Every;
  lag_minutes: number;
  destination_id: string | null;
  /** Where the window begins that is exported next, or now. */
  window_from: Date;
  /** Whose days and months its windows are: an IANA name. */
  time_zone: string;
  /** When that is due. */
  next_at: Date;
  last_export_id: string | null;
  last_status: ExportStatus | null;
  created_by: string;
  created_at: Date;
  ended_at: Date | null;
  /** Why it ended by itself. */
  ended_reason: string | null;
  /** Since when it makes no exports, or not all that it should, and why; null: it does. */
  waiting_since: Date | null;
  waiting_reason: string | null;
}

// What is suspended exports nothing, and goes on where it stood if that ends.
const not_suspended =
  'not exists (select from organizations o where o.id = s.org_id and o.suspended_at is not null)';

const window_to = 'export_window_end(s.every, s.window_from, s.time_zone)';

const scheduleColumns = `
  select s.id, s.org_id, s.kinds, s.format, s.every, s.lag_minutes, s.destination_id, s.window_from, s.time_zone,
    ${window_to} + s.lag_minutes * interval '1 minute' as next_at, x.id as last_export_id, x.status as last_status,
    s.created_by, s.created_at, s.archived_at as ended_at, s.ended_reason, s.waiting_since, s.waiting_reason`;

const scheduleTable = `
  from export_schedules s
  left join lateral (select q.id, q.status from exports q where q.schedule_id = s.id order by q.id desc limit 1) as x on true`;

/** Schedules, also those that have ended. */
export function list(
  db: Db,
  org_id: string | null,
  request: ListRequest,
): Promise<Page<ExportSchedule> | Part<ExportSchedule>> {
  return listOf(
    db,
    {
      name: 'export schedules',
      select: scheduleColumns,
      from: `${scheduleTable} where ${owns('s.org_id', org_id)}`,
      bindings: { org_id },
      id: 's.id',
      created_at: 's.created_at',
    },
    request,
  );
}

function get(db: Db, id: string): Promise<ExportSchedule> {
  return one<ExportSchedule>(
    db,
    `${scheduleColumns} ${scheduleTable} where s.id = :id`,
    { id },
    'No schedule',
  );
}

export interface NewSchedule {
  org_id: string | null;
  kinds: readonly KindName[];
  format: Format;
  every: Every;
  lag_minutes: number;
  time_zone: string;
  destination_id: string | null;
  /** In its day or month the first window begins. */
  from: Date;
  created_by: string;
  created_with: string | null;
}

/** Schedules of an organization that go on at once. */
const SCHEDULES_MAX = 20;
/** The shared folder keeps 50 exports of an organization for 7 days: with more it falls behind. */
const DAILY_MAX = 7;

/**
 * Begins a schedule. Throws `exports_exceeded` (429) if too many go on already, 422 for a zone that
 * is none, or if events of its first window are deleted already.
 */
export async function make(trx: Db, given: NewSchedule): Promise<ExportSchedule> {
  await requireZone(trx, given.time_zone);
  await requireLiving(trx, given.org_id);
  const first = await one<{ window_from: Date; now: Date }>(
    trx,
    `select date_trunc(:every, :from::timestamptz at time zone :time_zone) at time zone :time_zone as window_from,
       clock_timestamp() as now`,
    { every: given.every, from: given.from, time_zone: given.time_zone },
  );
  requireKept(given.kinds, first.window_from, first.now);
  await requireFew(trx, given);
  const { id } = await one<{ id: string }>(
    trx,
    `insert into export_schedules (org_id, kinds, format, every, lag_minutes, destination_id, time_zone, window_from, created_by, created_with)
     values (:org_id, :kinds, :format, :every, :lag_minutes, :destination_id, :time_zone,
       (reporting_window(:every, :time_zone, :from::timestamptz)).starts_at, :created_by, :created_with)
     returning id`,
    { ...given, kinds: [...given.kinds] },
  );
  return get(trx, id);
}

async function requireFew(
  trx: Db,
  { org_id, every, destination_id }: Pick<NewSchedule, 'org_id' | 'every' | 'destination_id'>,
): Promise<void> {
  await lock(trx, org_id);
  const { active, daily } = await one<{ active: number; daily: number }>(
    trx,
    `select count(*)::int as active, count(*) filter (where s.every = 'day' and s.destination_id is null)::int as daily
     from export_schedules s where ${owns('s.org_id', org_id)} and s.archived_at is null`,
    { org_id },
  );
  if (active >= SCHEDULES_MAX)
    throw tooMany(
      'exports_exceeded',
      `${active} schedules go on here already, and no more may. End one, or name all kinds in one.`,
      { limit: SCHEDULES_MAX, resets_at: new Date(Date.now() + 60_000), is_final: true },
    );
  if (every === 'day' && destination_id === null && daily >= DAILY_MAX)
    throw tooMany(
      'exports_exceeded',
      `${daily} daily schedules write to the folder already, and it has no room for more. Name all kinds in one, or a bucket of your own.`,
      { limit: DAILY_MAX, resets_at: new Date(Date.now() + 60_000), is_final: true },
    );
}

/** Ends a schedule at somebody's wish; exports that it has made go on. */
export async function end(
  trx: Db,
  id: string,
  org_id: string | null | undefined,
): Promise<ExportSchedule> {
  await one(
    trx,
    `update export_schedules s set archived_at = clock_timestamp()
     where s.id = :id and (:is_any or s.org_id is not distinct from :org_id) and s.archived_at is null returning s.id`,
    { id, org_id: org_id ?? null, is_any: org_id === undefined },
    'No schedule',
  );
  return get(trx, id);
}

interface Due extends NewSchedule {
  id: string;
  to: Date;
  last_status: ExportStatus | null;
  last_to: Date | null;
}

/** A window whose export failed is tried again after so long. */
const PAUSE = `interval '1 hour'`;

/** How many failures of a run are named. */
const NAMED_MAX = 50;
/** The end of an error's words says what is wrong; its beginning may be a long statement. */
const WORDS_MAX = 300;

/** What a run made, and the schedules that failed, each with the reason. */
export interface Ran {
  made: number;
  failed: string[];
}

/**
 * Makes the exports of all windows that are due, one of a schedule at a time, `page` of them read
 * at once. One that fails keeps no other one waiting, and is tried again by the next run. One whose
 * maker may no longer have it, or whose bucket is out of use, ends. `bytes_max` as for `create`.
 */
export async function run(db: Db, page: number, bytes_max?: number): Promise<Ran> {
  const ran: Ran = { made: 0, failed: [] };
  for (let after: string | undefined = ''; after !== undefined; ) {
    const ids: { id: string }[] = await many<{ id: string }>(
      db,
      `select s.id from export_schedules s
       left join lateral (select q.status, q.to_time, q.ended_at from exports q where q.schedule_id = s.id
         order by q.id desc limit 1) as x on true
       where s.archived_at is null and ${not_suspended} and (${window_to} + s.lag_minutes * interval '1 minute' <= clock_timestamp())
         and (x.status is null or x.status in ('completed', 'expired')
           or (x.status in ('failed', 'canceled') and x.ended_at < clock_timestamp() - ${PAUSE}))
         and s.id > :after
       order by s.id limit :page`,
      { after, page },
    );
    for (const { id } of ids) await tried(db, { id, bytes_max }, ran);
    after = ids.length === page ? ids.at(-1)?.id : undefined;
  }
  return ran;
}

interface Tried {
  id: string;
  bytes_max: number | undefined;
}

async function tried(db: Db, { id, bytes_max }: Tried, ran: Ran): Promise<void> {
  try {
    if (await runOne(db, { id, bytes_max })) ran.made += 1;
  } catch (error) {
    if (ran.failed.length < NAMED_MAX) ran.failed.push(`${id}: ${String(error).slice(-WORDS_MAX)}`);
  }
}

/** True if an export was made. */
async function runOne(db: Db, { id, bytes_max }: Tried): Promise<boolean> {
  return db.transaction(async (trx) => {
    const due = await maybe<Due>(
      trx,
      `select s.*, s.window_from as "from", ${window_to} as "to"
       from export_schedules s where s.id = :id and s.archived_at is null and ${not_suspended} for update skip locked`,
      { id },
    );
    // Somebody else runs it.
    if (due === undefined) return false;
    const writing = await openBefore(trx, due.to);
    if (writing !== undefined) throw new Error(openWords(writing));
    const last = await maybe<{ status: ExportStatus; to: Date }>(
      trx,
      'select status, to_time as "to" from exports where schedule_id = :id order by id desc limit 1',
      { id },
    );
    if (last?.status === 'queued' || last?.status === 'running') return false;
    const is_done = last?.status === 'completed' || last?.status === 'expired';
    if (is_done && last.to.getTime() === due.to.getTime()) {
      await many(trx, `update export_schedules s set window_from = ${window_to} where s.id = :id`, {
        id,
      });
      return false;
    }
    if (!(await mayHave(trx, due))) {
      await fall(trx, due, {
        error_code: 'permission_denied',
        words: 'Its maker may no longer export this.',
      });
      return false;
    }
    return attempted(trx, due, bytes_max);
  });
}

/**
 * Makes the export of a window; not now, if too many of its organization wait or are kept, or if
 * all that was to be in it is deleted.
 */
async function attempted(trx: Db, due: Due, bytes_max: number | undefined): Promise<boolean> {
  try {
    const { id, from, to } = due;
    const kinds = await keptKinds(trx, due);
    if (kinds.length === 0) return false;
    const { org_id, format, destination_id, created_by, created_with } = due;
    const wanted = { org_id, kinds, format, from, to, destination_id, created_by, created_with };
    await trx.transaction((inner) => create(inner, { ...wanted, schedule_id: id }, bytes_max));
    await goOn(trx, id);
    if (kinds.length < due.kinds.length) await tellGap(trx, due);
    return true;
  } catch (error) {
    if (!isAppError(error)) throw error;
    if (error.code === 'exports_exceeded') {
      await wait(trx, due, error);
      return false;
    }
    if (error.code !== 'not_found' || error.details.param !== 'destination_id') throw error;
    await fall(trx, due, {
      error_code: 'export_target_refused',
      words: 'Its destination is out of use.',
    });
    return false;
  }
}
