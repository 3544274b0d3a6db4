// Days of a calendar as texts, `2026-11-30`, whose arithmetic knows no zone: which moments a day
// begins and ends with is the server's knowledge.

const DAY_MS = 86_400_000;

/** The day that it is in a zone at a moment. */
export function dayIn(zone: string, at_ms: number): string {
  return new Intl.DateTimeFormat('en-CA', { timeZone: zone }).format(at_ms);
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
