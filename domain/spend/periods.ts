import { AppError } from '../errors';
import { type Db, one } from '../sql';

/** How long a bucket is. */
export const intervals = ['hour', 'day', 'month'] as const;

export type Interval = (typeof intervals)[number];

/** From and to of a request: days of the reporting zone, or instants; the end is not in it. */
export interface AskedPeriod {
  interval: Interval;
  from?: string | undefined;
  to?: string | undefined;
}

/** A period of whole hours or days of a time zone. */
export interface Period {
  interval: Interval;
  from: Date;
  to: Date;
  /** The first day, and the one after the last. */
  from_day: string;
  to_day: string;
  /** At most so many buckets are in it. */
  buckets: number;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const DAYS_MAX = 366;
const HOUR_DAYS_MAX = 31;
const HOURS_KEPT_DAYS = 35;
const BUCKET_MS = { hour: HOUR_MS, day: DAY_MS, month: 28 * DAY_MS } as const;

const today = 'local_day(now(), :time_zone)';

const defaults = {
  hour: {
    from: `local_hour(:to_at::timestamptz - interval '24 hours', :time_zone)`,
    // The next one to begin: where clocks change by half an hour, this one has 30 minutes or 90.
    to: `(select min(n.begun) from unnest('{30,60,90}'::int[]) as m
      cross join lateral local_hour(now() + m * interval '1 minute', :time_zone) as n (begun) where n.begun > now())`,
  },
  day: { from: `(:to_day::date - 30)`, to: `(${today} + 1)` },
  month: {
    // The month that goes on, and the eleven before it: 12 months may have more days than a period.
    from: `date_trunc('month', :to_day::date - 1 - interval '11 months')::date`,
    to: `(${today} + 1)`,
  },
} as const;

/**
 * The period of a request, by the calendar of a time zone: the last 24 hours, 30 days or 12 months
 * unless it says. Throws 422 for one that is too long, lies in the future, ends before it begins,
 * or does not begin and end with its hours or days.
 */
export async function periodOf(
  db: Db,
  time_zone: string,
  { interval, from, to }: AskedPeriod,
): Promise<Period> {
  const end = await boundOf(db, time_zone, interval, 'to', to);
  const begin = await boundOf(db, time_zone, interval, 'from', from, end);
  const { at: from_at, day: from_day } = begin;
  const length = end.at.getTime() - from_at.getTime();
  if (length <= 0) throw wrong('to', 'to must lie after from: the period ends before it.');
  if (from_at > end.now) throw wrong('from', 'from lies in the future: nothing is spent yet.');
  const days_max = interval === 'hour' ? HOUR_DAYS_MAX : DAYS_MAX;
  // A day may have 25 hours.
  if (length > days_max * DAY_MS + HOUR_MS)
    throw wrong(
      'to',
      `A period may have at most ${days_max} days by ${interval}. Ask for shorter ones, one after the other.`,
    );
  if (interval === 'hour' && end.now.getTime() - from_at.getTime() > HOURS_KEPT_DAYS * DAY_MS)
    throw wrong('from', `Hours are kept for ${HOURS_KEPT_DAYS} days. Ask by day or month.`);
  return {
    interval,
    from: from_at,
    to: end.at,
    from_day,
    to_day: end.day,
    buckets: Math.ceil(length / BUCKET_MS[interval]) + 1,
  };
}

interface Bound {
  at: Date;
  /** The day that begins there, or, of an hour, the one that it lies in. */
  day: string;
  is_whole: boolean;
  now: Date;
}

async function boundOf(
  db: Db,
  time_zone: string,
  interval: Interval,
  param: 'from' | 'to',
  given: string | undefined,
  end?: Bound,
): Promise<Bound> {
  // A day begins at its first moment, which in some zones is not always midnight, or the second of
  // two.
  const is_day = given === undefined ? interval !== 'hour' : !given.includes('T');
  const value = given === undefined ? defaults[interval][param] : ':given::text';
  const at = is_day
    ? `((${value})::date::timestamp at time zone :time_zone)`
    : `(${value})::timestamptz`;
  const bound = await one<Bound>(
    db,
    `select b.at, b.day::text as day, now() as now, case when :interval = 'hour'
       then b.at = local_hour(b.at, :time_zone) else b.at = (b.day::timestamp at time zone :time_zone) end as is_whole
     from (select a.at, local_day(a.at, :time_zone) as day from (select ${at} as at) as a) as b`,
    {
      time_zone,
      interval,
      given: given ?? null,
      to_day: end?.day ?? null,
      to_at: end?.at ?? null,
    },
  );
  if (bound.is_whole) return bound;
  const unit = interval === 'hour' ? 'an hour' : 'a day';
  throw wrong(
    param,
    `${param} must be the beginning of ${unit} in ${time_zone}, where ${interval}s are counted: a date such as 2027-01-31, or its first moment.`,
  );
}

function wrong(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}
