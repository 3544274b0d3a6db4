import type { Answer } from '../api/client';

export type EventType = Answer<'GET /api/events'>['events'][number]['type'];

// The compiler says if a type is missing.
const kinds: Record<EventType, 'organization' | 'platform'> = {
  'request.completed': 'organization',
  'request.blocked': 'organization',
  'request.refused': 'organization',
  'request.bounded': 'organization',
  'cost_ticket.created': 'organization',
  'cost_ticket.resolved': 'organization',
  'cost_ticket.exceeded': 'organization',
  'budget.threshold': 'organization',
  'wallet.balance_low': 'organization',
  'payment.completed': 'organization',
  'payment.failed': 'organization',
  'payment.refunded': 'organization',
  'rate_limit.checked': 'organization',
  'rate_limit.exceeded': 'organization',
  'rate_limit.circuit_open': 'organization',
  'reservation.expired': 'organization',
  'settlement.bounded': 'organization',
  'settlement.tier_unpriced': 'organization',
  'key.issued': 'organization',
  'key.expiring': 'organization',
  'provider_key.used': 'organization',
  'export.completed': 'organization',
  'export.failed': 'organization',
  'notice.disabled': 'organization',
  'config.rollout_started': 'platform',
  'config.rollout_stage_began': 'platform',
  'config.rollout_paused': 'platform',
  'config.rollout_resumed': 'platform',
  'config.rollout_promoted': 'platform',
  'config.rollout_completed': 'platform',
  'config.rollout_rolled_back': 'platform',
  'config.rollout_aborted': 'platform',
  'config.rollout_superseded': 'platform',
  'gateway.config_rejected': 'platform',
  'gateway.silent': 'platform',
  'audit.broken': 'platform',
  'worker.missing': 'platform',
  'worker.behind': 'platform',
  'outbox.parked': 'platform',
  'prices.checked': 'platform',
  'prices.imported': 'platform',
  'prices.import_undone': 'platform',
};
/** What an organization's events are about; those of the platform are told to none. */
export const event_types = (Object.keys(kinds) as EventType[]).filter(
  (type) => kinds[type] === 'organization',
);
