import type { Answer } from '../api/client';
import { serverNow } from '../base/clock';
import { addDays, dayIn, zoned } from '../base/days';
import { locale } from '../base/locale';

export type Export = Answer<'GET /api/exports'>['exports'][number];
export type Kind = Export['kinds'][number];
export type Format = Export['format'];

export const kinds: Record<Kind, string> = {
  statement: 'Closing statement',
  ledger: 'Ledger entries',
  requests: 'Calls and their costs',
  payments: 'Payments',
  tickets: 'Tickets',
  events: 'Events',
  audit_log: 'Audit log',
};
/** Those that need the right to read events too. */
export const guarded: readonly Kind[] = ['events', 'audit_log'];
export const kindNames = Object.keys(kinds) as Kind[];

export const formats: Record<Format, string> = {
  csv: 'CSV, for spreadsheets',
  jsonl: 'JSON lines',
  parquet: 'Parquet',
};

export const states = {
  queued: { word: 'waits', kind: 'waiting' },
  running: { word: 'is written', kind: 'info' },
  completed: { word: 'ready', kind: 'good' },
  failed: { word: 'failed', kind: 'bad' },
  canceled: { word: 'canceled', kind: 'neutral' },
  expired: { word: 'expired', kind: 'neutral' },
} as const;

/** True while something of it may still be written. */
export function isUnderWay({ status }: Pick<Export, 'status'>): boolean {
  return status === 'queued' || status === 'running';
}

const units = ['B', 'kB', 'MB', 'GB', 'TB'];

/** `1.2 MB`. */
export function sizeText(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1);
  const format = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
  return `${format.format(bytes / 1_000 ** power)} ${units[power]}`;
}

export const count = new Intl.NumberFormat(locale);

/** The first day and the last one, of the zone's calendar: `Nov 1 – Nov 30, 2026`. */
export function periodText({ from, to }: { from: string; to: string }, zone: string): string {
  const format = zoned(zone, locale, { dateStyle: 'medium' });
  return format.formatRange(Date.parse(from), Date.parse(to) - 1);
}

/**
 * The bounds to ask for, of days of the zone: up to a moment ago, if the last day is not over.
 * @param until the last day that is in
 */
export function boundsOf(from: string, until: string, zone: string): { from: string; to: string } {
  const is_over = until < dayIn(zone, serverNow());
  // A second ago: the server's clock is known to the second.
  const now = new Date(serverNow() - 2_000).toISOString();
  return { from, to: is_over ? addDays(until, 1) : now };
}
