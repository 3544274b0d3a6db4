import { decimalText } from '../domain/money';
import type { MessageKind } from '../domain/notices/kinds';
import type { FullNotice } from '../domain/notices/messages';

/** What is written of a message, before a channel gives it its form. */
export interface Text {
  /** One line. */
  title: string;
  facts: { label: string; value: string }[];
  links: { label: string; url: string; style?: 'primary' | 'danger' }[];
}

const titles: Record<MessageKind, [one: string, many: string]> = {
  ticket_created: ['A request waits for approval', 'requests wait for approval'],
  ticket_resolved: ['A cost ticket is closed', 'cost tickets are closed'],
  balance_low: ['The balance of a wallet is low', 'balances are low'],
  budget_threshold: ['A budget has reached a threshold', 'budgets have reached a threshold'],
  payment: ['A payment has ended', 'payments have ended'],
  refund: ['A payment was refunded', 'payments were refunded'],
  dispute: ['A payment is disputed', 'payments are disputed'],
  key_expiring: ['A key ends within a week', 'keys end within a week'],
  gateway_config_rejected: ['A gateway rejected its configuration', 'gateways rejected it'],
  gateway_silent: ['A gateway fell silent', 'gateways fell silent'],
  audit_broken: ['The proof of the ledger found a fault', 'faults were found'],
  worker_missing: ['Nobody polls a queue of the workers', 'queues of workers have no poller'],
  worker_behind: ['Work of the workers waits', 'queues of workers are behind'],
  outbox_parked: ['Messages to Temporal were given up', 'messages to Temporal were given up'],
  test: ['This is a test: notices arrive here', ''],
  confirmation: ['Confirm this address for notices', ''],
};

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
  refunded_amount_nanos: 'Refunded',
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
  const [one, many] = titles[kind];
  if (count > 1) return { title: `${count} ${many}`, facts: spread(notices), links: [] };
  const [notice] = notices;
  return { title: one, facts: notice ? factsOf(notice) : [], links: [] };
}

function factsOf(notice: FullNotice) {
  const { payload, org_name, time_zone, user_name, team_name, owner_name, decider_name } = notice;
  const currency = typeof payload.currency === 'string' ? payload.currency : 'USD';
  const facts = [
    { label: 'Organization', value: org_name },
    { label: 'Person', value: user_name },
    { label: 'Team', value: team_name },
    {
      label: 'Of',
      value: owner_name && [payload.owner_type, owner_name].filter(Boolean).join(' '),
    },
    ...Object.entries(labels).map(([key, label]) => ({
      label,
      value: key.endsWith('_at')
        ? timeIn(time_zone ?? 'UTC', payload[key])
        : shown(key, payload[key], currency),
    })),
    { label: 'Decided by', value: decider_name ?? shown('', payload.decided_by, currency) },
    { label: 'Ticket', value: notice.cost_ticket_id },
  ];
  return facts
    .filter((fact): fact is { label: string; value: string } => fact.value !== null)
    .map(({ label, value }) => ({ label, value: oneLine(value) }));
}

/** Of many: whom they are of, the first ten. */
function spread(notices: readonly FullNotice[]): Text['facts'] {
  const counts = new Map<string, number>();
  for (const { user_name, org_name } of notices) {
    const name = oneLine(user_name ?? org_name ?? 'nobody');
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

/** A text without line breaks and control characters: it can end no header and begin no line. */
export function oneLine(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').slice(0, VALUE_LENGTH_MAX);
}
