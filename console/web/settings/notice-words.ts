import type { Answer } from '../api/client';

export type Destination = Answer<'GET /api/notice-destinations'>['destinations'][number];
export type Message = Answer<'GET /api/notice-messages'>['messages'][number];
export type Kind = Destination['kinds'][number];
export type Channel = Destination['channel'];

/** What an organization's destinations are told of. */
export const kinds: readonly { value: Kind; label: string }[] = [
  { value: 'ticket_created', label: 'a call waits for a decision' },
  { value: 'ticket_resolved', label: 'a ticket was decided' },
  { value: 'balance_low', label: 'a wallet is low' },
  { value: 'budget_threshold', label: 'a budget reaches a threshold' },
  { value: 'payment', label: 'a payment came, or failed' },
  { value: 'refund', label: 'money was sent back' },
  { value: 'dispute', label: 'a dispute is opened, won or lost' },
  { value: 'key_expiring', label: 'a key ends in a week' },
];
/** What those of the platform are told of. */
export const platformKinds: readonly { value: Kind; label: string }[] = [
  { value: 'gateway_config_rejected', label: 'a gateway refuses its configuration' },
  { value: 'gateway_silent', label: 'a gateway is silent' },
  { value: 'audit_broken', label: 'the audit finds a fault' },
  { value: 'worker_missing', label: 'no worker polls a queue' },
  { value: 'worker_behind', label: 'tasks of the workers pile up' },
  { value: 'outbox_parked', label: 'messages to Temporal were given up' },
];

/** What a destination may be told of; `org_id` is null for one of the platform. */
export function kindsOf(org_id: string | null): typeof kinds {
  return org_id === null ? platformKinds : kinds;
}

export const channels: readonly { value: Channel; label: string }[] = [
  { value: 'slack', label: 'Slack' },
  { value: 'teams', label: 'Teams' },
  { value: 'email', label: 'mail' },
  { value: 'webhook', label: 'a webhook' },
];

/** `a wallet is low` */
export function kindWords(kind: Message['kind']): string {
  if (kind === 'test') return 'a test';
  if (kind === 'confirmation') return 'a code to confirm an address';
  return [...kinds, ...platformKinds].find(({ value }) => value === kind)?.label ?? kind;
}
