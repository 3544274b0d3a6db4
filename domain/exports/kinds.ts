import type { Column, DailyKind } from './columns';
import { ledger, requests } from './ledger-kinds';
import { auditLog, events, payments, tickets } from './record-kinds';
import { statementColumns } from './statement';

export const kind_names = [
  'ledger',
  'requests',
  'events',
  'payments',
  'tickets',
  'statement',
  'audit_log',
] as const;

/** What an export may hold. */
export type KindName = (typeof kind_names)[number];

const daily: Record<Exclude<KindName, 'statement'>, DailyKind> = {
  ledger,
  requests,
  events,
  payments,
  tickets,
  audit_log: auditLog,
};

/** The kind, unless it is the statement, which is one file of the whole period. */
export function dailyKind(name: string): DailyKind | undefined {
  return (daily as Partial<Record<string, DailyKind>>)[name];
}

/** The columns of a kind's rows. Its files have one more for each amount. */
export function columnsOf(name: KindName): readonly Column[] {
  return dailyKind(name)?.selected ?? statementColumns;
}

/** Kinds that only a caller with `events:read` may export, beside `org:billing`. */
export const event_kinds: readonly string[] = ['events', 'audit_log'] satisfies KindName[];

/** The kinds whose rows go on changing, so that they are copied as an export is made. */
export const copied_kinds = ['payments', 'tickets'] as const satisfies readonly KindName[];
