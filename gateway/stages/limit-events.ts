import type { Identity } from '../../domain/people/identity';
import type { Gateway } from '../call/call';
import type { ClientSide } from '../call/client-side';
import type { Snapshot } from '../call/snapshot';
import type { EventContent } from '../control-plane/events';
import type { Tightest } from '../limits/decision';
import type { CountedAddress } from '../limits/engine';
import { leftOf, type Standing } from '../limits/standing';

/** A request that an event is about, and what it came to. */
export interface Asking {
  gateway: Gateway;
  snapshot: Snapshot;
  ctx: Pick<ClientSide, 'req'>;
  request_id: string | null;
  trace_label: string | null;
}

/**
 * Emits an event of a request whose caller may not be known: in its organization's stream once it
 * has been found out whose that is, else in the platform's. Holds nothing up.
 */
export function emitOf(asking: Asking, content: (identity?: Identity) => EventContent): void {
  const { gateway, snapshot, ctx, request_id, trace_label } = asking;
  const emit = (identity?: Identity): void =>
    gateway.events.emit({ identity, request_id, trace_label }, content(identity));
  try {
    const who = snapshot.refused_identifier.who(ctx.req);
    if (who instanceof Promise) void who.then(emit, () => emit());
    else emit(who);
  } catch {
    emit();
  }
}

/** Tells of the count of an address that let a request pass, unless that has been told of. */
export function emitAddress(
  { limits }: Pick<Gateway, 'limits'>,
  address: CountedAddress,
  tell: (content: (identity?: Identity) => EventContent) => void,
): void {
  const { check } = address;
  if (check === undefined || address.is_told || address.refused !== undefined) return;
  address.is_told = true;
  const standing = limits.standingOf(check);
  const tightest = { standing, remaining_rpm: leftOf(check), remaining_tpm: null };
  tell((identity) => checked(identity, tightest));
}

/** The event of a decision that passed. */
export function checked(identity: Identity | undefined, tightest: Tightest): EventContent {
  return {
    type: 'rate_limit.checked',
    payload: {
      scope: tightest.standing.scope,
      key_id: identity?.key_id ?? null,
      user_id: identity?.user_id ?? null,
      team_id: identity?.team_id ?? null,
      remaining_rpm: tightest.remaining_rpm,
      remaining_tpm: tightest.remaining_tpm,
    },
  };
}

/** The event of a global limit that refuses everything until its window ends. */
export function circuitOpen({ scope, limit_type, limit, reset_at }: Standing): EventContent {
  return {
    type: 'rate_limit.circuit_open',
    payload: { scope, limit_type, limit_value: limit, reset_at: new Date(reset_at) },
  };
}

/** The event of one that refused. */
export function exceeded({ scope, limit_type, limit, used }: Standing): EventContent {
  return {
    type: 'rate_limit.exceeded',
    action: 'rate_limited',
    payload: { scope, limit_type, limit_value: limit, current_value: Math.ceil(used) },
  };
}
