import { decimalText } from '../domain/money';
import type { FullNotice } from '../domain/notices/full-notices';
import type { MessageKind } from '../domain/notices/kinds';
import { cut } from '../domain/texts';
import { disputeStatus, isClosed, titleOf } from './titles';

/** What is written of a message, before a channel gives it its form. */
export interface Text {
  /** One line. */
  title: string;
  facts: { label: string; value: string }[];
  links: { label: string; url: string; style?: 'primary' | 'danger' }[];
}

/** Members of events that people read, in this order. */
const labels: Record<string, string> = {
  status: 'Status',
  model: 'Model',
  provider: 'Provider',
  estimated_cost_nanos: 'Estimated cost',
  shortfall_nanos: 'Missing',
  balance_nanos: 'Balance',
  threshold_nanos: 'Threshold',
  threshold: 'Threshold in percent',
  threshold_pct: 'Threshold in percent',
  used_nanos: 'Used',
  limit_nanos: 'Limit',
  amount_nanos: 'Amount',
  credited_amount_nanos: 'Credited',
  credited_nanos: 'Credited',
  refunded_amount_nanos: 'Gone back in all',
  error_message: 'Reason',
  note: 'Note',
  name: 'Name',
  host: 'Host',
  group: 'Group',
  version: 'Version',
  error: 'Error',
  broken: 'Faults',
  worker: 'Worker',
  task_queue: 'Queue',
  problem: 'Problem',
  seen_at: 'Last seen',
  resets_at: 'New window',
  expires_at: 'Ends',
};

const VALUE_LENGTH_MAX = 300;

/** The text of a message about notices, without links. */
export function textOf(kind: MessageKind, count: number, notices: readonly FullNotice[]): Text {
  const [notice] = notices;
  const title = titleOf(kind, count, notices);
  if (count > 1) return { title, facts: spread(notices), links: [] };
  const facts = notice ? [...movedBy(kind, notice), ...factsOf(kind, notice)] : [];
  return { title, facts, links: [] };
}

const disputeMoved = {
  opened: 'Taken from the wallet',
  won: 'Back in the wallet',
  lost: 'Lost for good',
};

/** What a refund or a dispute has moved this time; beside it stands what has gone back in all. */
function movedBy(kind: MessageKind, notice: FullNotice): Text['facts'] {
  const { moved_nanos, payload } = notice;
  if ((kind !== 'dispute' && kind !== 'refund') || moved_nanos === null) return [];
  const of_refund = payload.reversed === true ? disputeMoved.won : disputeMoved.opened;
  const label = kind === 'dispute' ? disputeMoved[disputeStatus(notice)] : of_refund;
  return [{ label, value: `${decimalText(moved_nanos)} ${currencyOf(payload)}` }];
}

function currencyOf({ currency }: FullNotice['payload']): string {
  return typeof currency === 'string' ? currency : 'USD';
}

const of_payments: readonly MessageKind[] = ['payment', 'refund', 'dispute'];

function factsOf(kind: MessageKind, notice: FullNotice) {
  const { org_name, time_zone, user_name, team_name, owner_name, decider_name } = notice;
  // What asks for a verdict says how its ticket stands now; all else, what it became then.
  const now = kind === 'ticket_created' && isClosed(notice) ? { status: notice.ticket_status } : {};
  const payload: FullNotice['payload'] = { ...notice.payload, ...now };
  const currency = currencyOf(payload);
  const facts = [
    { label: 'Organization', value: org_name },
    { label: 'Person', value: user_name },
    { label: 'Team', value: team_name },
    {
      label: 'Of',
      value: owner_name && [payload.owner_type, owner_name].filter(Boolean).join(' '),
    },
    ...Object.entries(labels).map(([key, label]) => ({
      // The state is the payment's, and not that of its refund or dispute.
      label: key === 'status' && of_payments.includes(kind) ? 'Payment' : label,
      value: key.endsWith('_at')
        ? timeIn(time_zone ?? 'UTC', payload[key])
        : shown(key, key === 'shortfall_nanos' ? missingOf(payload) : payload[key], currency),
    })),
    ...budgetsOf(payload, currency),
    { label: 'Decided by', value: decider_name ?? shown('', payload.decided_by, currency) },
    { label: 'Ticket', value: notice.cost_ticket_id },
  ];
  return facts
    .filter((fact): fact is { label: string; value: string } => fact.value !== null)
    .map(({ label, value }) => ({ label, value: oneLine(value) }));
}

/** Null where budgets alone are short: nothing is missing in the wallets. */
function missingOf({ cause, shortfall_nanos }: FullNotice['payload']): unknown {
  return cause === 'budget' && String(shortfall_nanos) === '0' ? null : shortfall_nanos;
}

/** The budgets that have no room for the call of a ticket, each with what is missing in it. */
function budgetsOf({ budgets }: FullNotice['payload'], currency: string): Text['facts'] {
  if (!Array.isArray(budgets)) return [];
  return budgets.map((budget) => ({
    label: `Missing in the budget of the ${budget.owner_type}`,
    value: [
      shown('missing_nanos', budget.missing_nanos, currency),
      `of ${shown('limit_nanos', budget.limit_nanos, currency)}`,
      budget.window === 'life' ? 'in all' : `a ${budget.window}`,
    ].join(' '),
  }));
}

/** Of many: whom or what they are of, the first ten. */
function spread(notices: readonly FullNotice[]): Text['facts'] {
  const counts = new Map<string, number>();
  for (const { owner_name, user_name, org_name, payload } of notices) {
    const thing = shown('', payload.name ?? payload.host, '');
    const name = oneLine(owner_name ?? user_name ?? thing ?? org_name ?? 'nobody');
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].slice(0, 10).map(([label, count]) => ({ label, value: String(count) }));
}

/** A time by the calendar of a zone, which it names: `1 Dec 2026, 08:30 (Asia/Kolkata)`. */
function timeIn(time_zone: string, value: unknown): string | null {
  const at = new Date(String(value ?? ''));
  if (Number.isNaN(at.getTime())) return shown('', value, '');
  const style = { dateStyle: 'medium', timeStyle: 'short', timeZone: time_zone } as const;
  return `${new Intl.DateTimeFormat('en-GB', style).format(at)} (${time_zone})`;
}

function shown(key: string, value: unknown, currency: string): string | null {
  if (value === undefined || value === null || typeof value === 'object') return null;
  const text = String(value);
  return key.endsWith('_nanos') && /^-?\d+$/.test(text)
    ? `${decimalText(BigInt(text))} ${currency}`
    : text;
}

// Breaks and control characters, and marks that turn the direction of what is written around them.
const unwanted = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu;

/**
 * A text without line breaks, control characters and marks of direction: it can end no header,
 * begin no line and turn no other text around. Its end may be cut, between characters as people
 * see them.
 */
export function oneLine(text: string): string {
  return cut(text.replace(unwanted, ' '), VALUE_LENGTH_MAX);
}
