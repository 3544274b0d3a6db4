import { AppError } from '../errors';
import { requireKnown } from '../known';
import type { Db } from '../sql';
import { currentEdition, type Edition } from './editions';
import {
  type Dimension,
  type Figures,
  figuresOf,
  type Group,
  groupOf,
  read,
  type SpendViewer,
} from './figures';
import type { Filter } from './filters';
import { type AskedPeriod, type Interval, type Period, periodOf } from './periods';

/** A part of the period, and what a group spent in it. */
export interface Bucket extends Figures {
  start: Date;
  /** As the calendar of the reporting zone has it: `2027-01-31`, `2027-01`, `2027-01-31T13:00`. */
  local: string;
  group: Group;
}

interface Head {
  currency: string;
  time_zone: string;
  as_of: Date;
  from: Date;
  to: Date;
  /** All that the caller may see and the filters leave, in groups that are left out too. */
  totals: Figures;
  /** There are more groups, that spent less than those that are shown. */
  truncated: boolean;
}

export interface Spend extends Head {
  interval: Interval;
  buckets: Bucket[];
}

export interface Top extends Head {
  by: Dimension;
  groups: (Figures & { group: Group })[];
}

/** So many rows an answer has at most, more or less: whole groups are left out beyond it. */
const ROWS_MAX = 10_000;

/**
 * What calls cost by hour, day or month of the organization's time zone, exact at `as_of`. Rows are
 * in the order of time, then the dearest group first. Throws 404 for a filter by an id that is not
 * of the organization.
 */
export function spend(
  db: Db,
  viewer: SpendViewer,
  filter: Filter,
  { group_by, ...asked }: AskedPeriod & { group_by: readonly Dimension[] },
): Promise<Spend> {
  refuseUncounted(group_by, filter, asked.interval);
  return inSnapshot(db, viewer, filter, asked, async (trx, edition, period) => {
    const groups_max = Math.max(1, Math.floor(ROWS_MAX / period.buckets));
    const query = {
      viewer,
      filter,
      edition,
      period,
      dims: group_by,
      bucket: bucketOf[period.interval],
    };
    const { rows, ...rest } = await read(trx, { ...query, groups_max });
    return {
      interval: period.interval,
      ...rest,
      buckets: rows.map((row) => ({
        start: row.start,
        local: row.local,
        group: groupOf(row, group_by),
        ...figuresOf(row),
      })),
    };
  });
}

/** The groups that spent most in a period, the dearest first. */
export function top(
  db: Db,
  viewer: SpendViewer,
  filter: Filter,
  { by, limit, ...asked }: Omit<AskedPeriod, 'interval'> & { by: Dimension; limit: number },
): Promise<Top> {
  refuseUncounted(by === 'session' ? [] : [by], filter, 'day');
  if (by === 'session' && filter.tag !== undefined) throw apart();
  return inSnapshot(
    db,
    viewer,
    filter,
    { ...asked, interval: 'day' },
    async (trx, edition, period) => {
      if (by === 'session') refuseLong(period);
      const query = { viewer, filter, edition, period, dims: [by], bucket: whole_period };
      const { rows, ...rest } = await read(trx, { ...query, groups_max: limit });
      const groups = rows.map((row) => ({ group: groupOf(row, [by]), ...figuresOf(row) }));
      return { by, ...rest, groups };
    },
  );
}

/** One instant for all that an answer is made of. */
function inSnapshot<Answer>(
  db: Db,
  viewer: SpendViewer,
  filter: Filter,
  asked: AskedPeriod,
  run: (trx: Db, edition: Edition, period: Period) => Promise<Answer>,
): Promise<Answer> {
  return db.transaction(
    async (trx) => {
      const edition = await currentEdition(trx, viewer.org_id);
      const period = await periodOf(trx, edition.time_zone, asked);
      await requireKnown(trx, viewer.org_id, filter);
      return run(trx, edition, period);
    },
    { isolationLevel: 'repeatable read', readOnly: true },
  );
}

/** A bucket's first moment and its name, as expressions over a source's columns. */
const bucketOf: Record<Interval, { start: string; local: string }> = {
  hour: {
    start: 'hour',
    local: `to_char(start at time zone :time_zone, 'YYYY-MM-DD"T"HH24:MI')`,
  },
  day: {
    start: 'day::timestamp at time zone :time_zone',
    local: `to_char(start at time zone :time_zone, 'YYYY-MM-DD')`,
  },
  month: {
    start: `date_trunc('month', day::timestamp) at time zone :time_zone`,
    local: `to_char(start at time zone :time_zone, 'YYYY-MM')`,
  },
};
const whole_period = { start: ':from_at::timestamptz', local: `''` };

function refuseUncounted(
  group_by: readonly Dimension[],
  { tag, session_id }: Filter,
  interval: Interval,
): void {
  const of_tags = tag !== undefined || group_by.includes('tag');
  const of_sessions = session_id !== undefined || group_by.includes('session');
  if (of_tags && of_sessions) throw apart();
  if (of_tags && interval === 'hour')
    throw wrong('interval', 'Tags are counted by day: ask with interval=day or month.');
  if (group_by.includes('session') && session_id === undefined)
    throw wrong(
      'group_by',
      'By session it is for one session: name it in session_id. GET /v1/spend/top?by=session lists those that spent most.',
    );
}

function apart(): AppError {
  return wrong('tag', 'Sessions and tags are not counted together: ask for one of them.');
}

const SESSION_DAYS_MAX = 31;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

function refuseLong({ from, to }: Period): void {
  // A day may have 25 hours.
  if (to.getTime() - from.getTime() <= SESSION_DAYS_MAX * DAY_MS + HOUR_MS) return;
  throw wrong('to', `By session a period may have at most ${SESSION_DAYS_MAX} days.`);
}

function wrong(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}
