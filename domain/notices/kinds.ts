/** What an organization's destinations can be told of. */
export const organization_kinds = [
  'ticket_created',
  'ticket_resolved',
  'balance_low',
  'budget_threshold',
  'payment',
  'refund',
  'dispute',
  'key_expiring',
] as const;

/** What the platform's destinations can be told of. */
export const platform_kinds = [
  'gateway_config_rejected',
  'gateway_silent',
  'audit_broken',
  'worker_missing',
  'worker_behind',
  'outbox_parked',
] as const;

/** What a message can be about: notices, a try by hand, or the code that confirms a recipient. */
export const message_kinds = [
  ...organization_kinds,
  ...platform_kinds,
  'test',
  'confirmation',
] as const;

export type NoticeKind = (typeof organization_kinds | typeof platform_kinds)[number];
export type MessageKind = (typeof message_kinds)[number];

export const channels = ['webhook', 'slack', 'teams', 'email'] as const;
export type Channel = (typeof channels)[number];
