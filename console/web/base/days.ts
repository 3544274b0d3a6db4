// Days of a calendar as texts, `2026-11-30`, whose arithmetic knows no zone.

const DAY_MS = 86_400_000;

/** How moments are written in a zone; in UTC, if this browser does not know the zone. */
export function zoned(
  zone: string,
  language: string,
  style: Omit<Intl.DateTimeFormatOptions, 'timeZone'>,
): Intl.DateTimeFormat {
  const timeZone = isKnownZone(zone) ? zone : 'UTC';
  return new Intl.DateTimeFormat(language, { ...style, timeZone });
}

/** The day that it is in a zone at a moment. */
export function dayIn(zone: string, at_ms: number): string {
  return zoned(zone, 'en-CA', {}).format(at_ms);
}

/**
 * The moment with which a day begins in a zone, as ISO 8601 text: for lists that take moments. As
 * the database has it: of a midnight that comes twice the second one, and for one that never comes
 * the moment at which the clock goes on.
 */
export function beginOf(day: string, zone: string): string {
  const local_ms = Date.parse(day);
  // The zone's offset from UTC is that of the day before or that of the day after.
  const found = [-DAY_MS, DAY_MS].map((away_ms) => {
    const at_ms = local_ms + away_ms;
    return local_ms - (clockAt(zone, at_ms) - at_ms);
  });
  const shown = found.filter((at_ms) => clockAt(zone, at_ms) === local_ms);
  return new Date(Math.max(...(shown.length > 0 ? shown : found))).toISOString();
}

/** By zone: to make one takes longer than to use it. */
const clocks = new Map<string, Intl.DateTimeFormat>();

function clockOf(zone: string): Intl.DateTimeFormat {
  const known = clocks.get(zone);
  if (known) return known;
  const made = zoned(zone, 'en-US', {
    ...{ hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric' },
    ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
  });
  clocks.set(zone, made);
  return made;
}

/** What the clocks of a zone show at a moment, as if they were those of UTC. */
export function clockAt(zone: string, at_ms: number): number {
  const parts = clockOf(zone).formatToParts(at_ms);
  const of = (type: string) => Number(parts.find((part) => part.type === type)?.value);
  return Date.UTC(
    ...([of('year'), of('month') - 1, of('day')] as const),
    ...([of('hour'), of('minute'), of('second')] as const),
  );
}

/** The day so many days later; earlier, if negative. */
export function addDays(day: string, days: number): string {
  return new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);
}

/** How many days from one day to another, which is not counted. */
export function daysBetween(from: string, to: string): number {
  return Math.round((Date.parse(to) - Date.parse(from)) / DAY_MS);
}

/** The first day of the month so many months later than a day's. */
export function firstOfMonth(day: string, months = 0): string {
  const [year = 0, month = 1] = day.split('-').map(Number);
  return new Date(Date.UTC(year, month - 1 + months, 1)).toISOString().slice(0, 10);
}

/** True for a day of the calendar, written so. */
export function isDay(text: string | undefined): text is string {
  return /^\d{4}-\d{2}-\d{2}$/.test(text ?? '') && Number.isFinite(Date.parse(text ?? ''));
}

/** True if this browser knows a zone: older ones lack the newest names. */
export function isKnownZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}
