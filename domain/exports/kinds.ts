import type { Permission } from '../people/roles';
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

const needed: Partial<Record<string, Permission>> = {
  events: 'events:read',
  audit_log: 'org:members',
} satisfies Partial<Record<KindName, Permission>>;

/** What a caller needs to export a kind, beside `org:billing`; undefined: nothing. */
export function neededFor(kind: string): Permission | undefined {
  return needed[kind];
}

/** The kinds whose rows go on changing, so that they are copied as an export is made. */
export const copied_kinds = ['payments', 'tickets'] as const satisfies readonly KindName[];
