import { serverNow } from '../base/clock';
import { addDays, dayIn, daysBetween, firstOfMonth, isDay } from '../base/days';
import { oneOf, text } from '../fields/filters';
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

/** What of the address says when. `until` is the last day that is in. */
export const periodShape = {
  period: oneOf(...presets),
  from: text,
  until: text,
  interval: oneOf(...intervals),
};

export interface Period {
  /** The first day, and the day after the last one, of the organization's calendar. */
  from: string;
  to: string;
}

/** How far back hours are asked for at once. */
const HOUR_DAYS_MAX = 14;

/** The period that the filters mean today. */
export function periodOf(
  { period, from, until }: { period?: Preset; from?: string; until?: string },
  zone: string,
): Period {
  const today = dayIn(zone, serverNow());
  const to = addDays(today, 1);
  if (period === 'this_month') return { from: firstOfMonth(today), to };
  if (period === 'last_month') return { from: firstOfMonth(today, -1), to: firstOfMonth(today) };
  if (period === 'custom' && isDay(from) && isDay(until) && from <= until)
    return { from, to: addDays(until, 1) };
  const days = { '7d': 7, '90d': 90 }[period as '7d'] ?? 30;
  return { from: addDays(to, -days), to };
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

/** The intervals that a period can be cut into; calls with a tag are counted by days. */
export function intervalsOf({ from, to }: Period, is_tagged: boolean): Interval[] {
  const has_hours = !is_tagged && daysBetween(from, to) <= HOUR_DAYS_MAX;
  return has_hours ? [...intervals] : ['day', 'month'];
}

const day_style = { month: 'short', day: 'numeric', timeZone: 'UTC' } as const;
const month_style = { month: 'short', year: 'numeric', timeZone: 'UTC' } as const;

/** All buckets of a period, in order: a day or month by its `local`, an hour by its `start`. */
export function slotsOf(
  { from, to }: Period,
  interval: Interval,
  // The moments that the period begins and ends with, as the server says.
  { begins, ends, zone, locale }: { begins: string; ends: string; zone: string; locale: string },
): Slot[] {
  const slots: Slot[] = [];
  if (interval === 'hour') {
    const style = { ...day_style, hour: '2-digit', minute: '2-digit', timeZone: zone } as const;
    const format = new Intl.DateTimeFormat(locale, { ...style, hourCycle: 'h23' });
    const end = Math.min(Date.parse(ends), serverNow());
    for (let at = Date.parse(begins); at < end; at += 3_600_000)
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
