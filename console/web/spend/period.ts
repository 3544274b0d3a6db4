import { serverNow } from '../base/clock';
import {
  addDays,
  beginOf,
  clockAt,
  dayIn,
  daysBetween,
  firstOfMonth,
  isDay,
  zoned,
} from '../base/days';
import type { Slot } from './series';

export const presets = ['7d', '30d', '90d', 'this_month', 'last_month', 'custom'] as const;
export type Preset = (typeof presets)[number];
export const presetWords: Record<Preset, string> = {
  '7d': 'last 7 days',
  '30d': 'last 30 days',
  '90d': 'last 90 days',
  this_month: 'this month',
  last_month: 'last month',
  custom: 'from … to …',
};
export const intervals = ['hour', 'day', 'month'] as const;
export type Interval = (typeof intervals)[number];

export interface Period {
  /** The first day, and the day after the last one, of the organization's calendar. */
  from: string;
  to: string;
}

/** How far back hours are asked for at once. */
const HOUR_DAYS_MAX = 14;
/** The API refuses hours of a period that began before. */
const HOURS_KEPT_MS = 35 * 86_400_000;
const HOUR_MS = 3_600_000;

/** The period that the filters mean today; days of an address may stand in either order. */
export function periodOf(
  { period, from, until }: { period?: Preset; from?: string; until?: string },
  zone: string,
): Period {
  const today = dayIn(zone, serverNow());
  const to = addDays(today, 1);
  if (period === 'this_month') return { from: firstOfMonth(today), to };
  if (period === 'last_month') return { from: firstOfMonth(today, -1), to: firstOfMonth(today) };
  if (period === 'custom' && isDay(from) && isDay(until)) {
    const [first = from, last = until] = [from, until].sort();
    return { from: first, to: addDays(last, 1) };
  }
  const days = { '7d': 7, '90d': 90 }[period as '7d'] ?? 30;
  return { from: addDays(to, -days), to };
}

/**
 * The filters of a period of which one end was chosen anew: an end beyond the other one takes that
 * along, so that the period is of the day that was chosen.
 */
export function movedTo(
  { from, to }: Period,
  change: { from?: string; until?: string },
): { period: 'custom'; from: string; until: string } {
  const moved = { from, until: addDays(to, -1), ...change };
  if (moved.from > moved.until)
    if (change.until === undefined) moved.until = moved.from;
    else moved.from = moved.until;
  return { period: 'custom', ...moved };
}

/** The days of a zone that a period of moments covers. */
export function daysOf({ begins, ends }: { begins: string; ends: string }, zone: string): Period {
  const last = dayIn(zone, Date.parse(ends) - 1);
  return { from: dayIn(zone, Date.parse(begins)), to: addDays(last, 1) };
}

/** The period before: as long, or, of months, of the month before. */
export function before({ from, to }: Period, preset: Preset | undefined): Period {
  const days = daysBetween(from, to);
  if (preset === 'last_month') return { from: firstOfMonth(from, -1), to: from };
  if (preset !== 'this_month') return { from: addDays(from, -days), to: from };
  const first = firstOfMonth(from, -1);
  const end = addDays(first, days);
  return { from: first, to: end < from ? end : from };
}

/**
 * The intervals that a period can be cut into, by the calendar of a zone; calls with a tag are
 * counted by days, and hours are kept for some weeks.
 */
export function intervalsOf({ from, to }: Period, is_tagged: boolean, zone: string): Interval[] {
  const is_kept = serverNow() - Date.parse(beginOf(from, zone)) <= HOURS_KEPT_MS;
  const has_hours = !is_tagged && is_kept && daysBetween(from, to) <= HOUR_DAYS_MAX;
  return has_hours ? [...intervals] : ['day', 'month'];
}

const day_style = { month: 'short', day: 'numeric', timeZone: 'UTC' } as const;
const month_style = { month: 'short', year: 'numeric', timeZone: 'UTC' } as const;

interface Cut {
  /** The moments that the period begins and ends with, as the server says. */
  begins: string;
  ends: string;
  zone: string;
  locale: string;
  /** With which the server's buckets begin: none of them is left out. */
  starts: readonly string[];
}

/**
 * The moments with which the hours of a zone begin. One has 30 or 90 minutes if its clocks change
 * by half an hour, and one that they repeat is there twice.
 */
function hoursOf(from_ms: number, to_ms: number, zone: string): number[] {
  // A zone that the browser does not know is shown as UTC, where its hours begin somewhere within.
  const apart = clockAt(zone, from_ms) % HOUR_MS;
  const hours: number[] = [];
  let last: number | undefined;
  for (let at = from_ms; at < to_ms; at += HOUR_MS / 2) {
    const clock = clockAt(zone, at) - apart;
    const hour = Math.floor(clock / HOUR_MS);
    if (hour !== last || clock % HOUR_MS === 0) hours.push(at);
    last = hour;
  }
  return hours;
}

/** All buckets of a period, in order: a day or month by its `local`, an hour by its `start`. */
export function slotsOf(
  { from, to }: Period,
  interval: Interval,
  { begins, ends, zone, locale, starts }: Cut,
): Slot[] {
  const slots: Slot[] = [];
  if (interval === 'hour') {
    const style = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' } as const;
    const format = zoned(zone, locale, { ...style, hourCycle: 'h23' });
    const end = Math.min(Date.parse(ends), serverNow());
    const hours = new Set([...hoursOf(Date.parse(begins), end, zone), ...starts.map(Date.parse)]);
    for (const at of [...hours].sort((a, b) => a - b))
      slots.push({ key: new Date(at).toISOString(), label: format.format(at) });
    return slots;
  }
  const is_month = interval === 'month';
  const format = new Intl.DateTimeFormat(locale, is_month ? month_style : day_style);
  let day = is_month ? firstOfMonth(from) : from;
  while (day < to) {
    slots.push({ key: is_month ? day.slice(0, 7) : day, label: format.format(Date.parse(day)) });
    day = is_month ? firstOfMonth(day, 1) : addDays(day, 1);
  }
  return slots;
}
