import type { Estimated } from '../call/call';
import type { Place } from '../call/held-calls';
import { shareOf } from '../config/shares';
import { ownerOf } from '../identity/identifier';

/** How many calls may wait in this gateway at one time, and how many of them are whose. */
interface Places {
  all: number;
  /** Undefined: half of what the others leave. */
  per_org: number | undefined;
  per_key: number;
}

/**
 * The place of a call that waits, with its shares of the places and of the bytes that requests have
 * while they wait (`cost_tickets.held_limit_bytes`).
 */
export function placeOf(call: Estimated, { all, per_org, per_key }: Places): Place {
  const { cost_tickets, identity } = call.snapshot.settings;
  const bytes_max = cost_tickets.held_limit_bytes;
  const gone = new AbortController();
  if (call.client_is_gone) gone.abort();
  call.onClientGone(() => gone.abort());
  return {
    owner: ownerOf(call.identity),
    org_id: call.identity.org_id,
    held_max: all,
    orgShare: (held_by_others) => shareOf({ all, held_by_others }, per_org, identity),
    held_per_key_max: per_key,
    bytes: call.request.raw.length,
    bytes_max,
    orgBytes: (held_by_others) => shareOf({ all: bytes_max, held_by_others }, undefined, identity),
    gone: gone.signal,
  };
}
