import type { Event } from './events';

/**
 * An event as its organization reads it: what a call cost the platform at its provider is the
 * platform's own matter, unless an own key of the organization served it.
 */
export function forOrganization<One extends Pick<Event, 'payload'>>(event: One): One {
  const { provider_cost_usd, ...payload } = event.payload;
  if (provider_cost_usd === undefined || typeof payload.provider_key_id === 'string') return event;
  return { ...event, payload };
}
