import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, isAppError } from '../../domain/errors';
import type { Redeem, Reserve } from '../../domain/ledger/calls';
import type { Limited, Routed } from '../call/call';
import type { ClientSide } from '../call/client-side';
import type { Payment } from '../call/held-calls';
import { membersOf } from '../call/spans';
import { HOLD_MS_MAX } from '../config/settings';
import type { Reservation } from '../control-plane/client';
import { UncertainRefusal } from '../control-plane/refusals';
import { refuse } from './limit-answers';
import { placeOf } from './places';

const HOLD_HEADER = 'x-svc-hold-ms';
const TICKET_HEADER = 'x-svc-cost-ticket';
const TICKET_LENGTH_MAX = 200;
/** The control plane waits for 30 s at most; a little less keeps the wait ours. */
const WAIT_MS_MAX = 25_000;
const RETRY_MS = 250;

/**
 * How a call wants to be paid for, by its headers: how long it is held at most, in ms, and the cost
 * ticket that it brings.
 */
export function paymentOf(call: Routed): Payment {
  return { hold_ms: holdTime(call), ticket_id: ticketHeader(call.ctx) };
}

/**
 * Reserves, or redeems the ticket that the client brings. What no wallet covers is held until it is
 * paid, denied or expired, or the hold ends; then the 402 with its ticket is thrown.
 */
export async function pay(call: Limited, request: Reserve): Promise<Reservation> {
  const { control_plane } = call.gateway;
  const { ticket_id: brought } = call.payment;
  try {
    if (brought === undefined) return await control_plane.reserve(request);
    return await redeemNow(call, redeemOf(request, { ticket_id: brought, is_brought: true }));
  } catch (error) {
    const held = isShort(error) ? heldFor(call, request, error) : undefined;
    if (held !== undefined) return held;
    if (error instanceof UncertainRefusal) cancel(call, request);
    throw error;
  }
}

/** The wait of a call for money; undefined if it may not wait. */
function heldFor(
  call: Limited,
  request: Reserve,
  short: AppError,
): Promise<Reservation> | undefined {
  const { hold_ms, ticket_id } = call.payment;
  if (hold_ms === 0 || call.gateway.is_draining) return undefined;
  const wait = (over: AbortSignal) =>
    holdCall(call, request, { short, hold_ms, over, is_brought: ticket_id !== undefined });
  const { held_max, held_per_org_max, held_per_key_max } = call.snapshot.settings.cost_tickets;
  const places = { all: held_max, per_org: held_per_org_max, per_key: held_per_key_max };
  return call.gateway.held_calls.hold(call, placeOf(call, places), wait);
}

/** Leaves the queue, and gives back what may be held under the request's id. */
function cancel(call: Limited, { org_id, request_id }: { org_id: string; request_id: string }) {
  const members = membersOf(call);
  call.gateway.control_plane.settle({ org_id, request_id, outcome: 'canceled', ...members });
}

interface Wait {
  /** The latest 402. */
  short: AppError;
  hold_ms: number;
  over: AbortSignal;
  /** The client named the ticket, which pays for one call only; any other call reserves again. */
  is_brought: boolean;
}

/**
 * A held call gives its slots back, and once it is paid takes them again within the hold. However
 * else it ends, it leaves the queue, and what may have been held for it is canceled; its ticket
 * stays open.
 */
async function holdCall(call: Limited, request: Reserve, wait: Wait): Promise<Reservation> {
  const end_at = performance.now() + wait.hold_ms;
  const { held_limits } = call;
  held_limits?.pause();
  try {
    const reservation = await waitForMoney(call, request, wait);
    const patience = { wait_ms: end_at - performance.now(), over: wait.over };
    const full = await held_limits?.retake(patience);
    if (full !== undefined) throw refuse(call, full);
    return reservation;
  } catch (error) {
    cancel(call, request);
    throw error;
  }
}

async function waitForMoney(call: Limited, request: Reserve, wait: Wait): Promise<Reservation> {
  const { control_plane } = call.gateway;
  const end_at = performance.now() + wait.hold_ms;
  let { short } = wait;
  for (;;) {
    const left_ms = Math.floor(end_at - performance.now());
    if (left_ms <= 0 || wait.over.aborted) break;
    const redeem = redeemOf(request, {
      ticket_id: ticketOf(short),
      is_brought: wait.is_brought,
      wait_ms: Math.min(left_ms, WAIT_MS_MAX),
    });
    const asked_at = performance.now();
    try {
      const reservation = await control_plane.redeem(redeem, wait.over);
      if (reservation !== undefined) return reservation;
      // No address answered, or the answer was lost: the same ids are safe to ask for again.
      await pause(end_at, wait.over);
    } catch (error) {
      if (isShort(error)) {
        short = error;
        // An API that stops lets nobody wait.
        if (performance.now() - asked_at < redeem.wait_ms) await pause(end_at, wait.over);
      } else if (wait.is_brought || codeOf(error) !== 'ticket_redeemed') throw error;
      else {
        // Another call with the same body took the ticket; this one asks for its own.
        const again = await control_plane.reserve(request).catch(asShort);
        if (!(again instanceof Error)) return again;
        short = again;
      }
    }
  }
  throw short;
}

/** Between two questions that were answered at once, within the hold. */
async function pause(end_at: number, over: AbortSignal): Promise<void> {
  const ms = Math.max(0, Math.min(RETRY_MS, end_at - performance.now()));
  await sleep(ms, undefined, { signal: over }).catch(() => null);
}

async function redeemNow(call: Limited, redeem: Redeem): Promise<Reservation> {
  const never = new AbortController().signal;
  const reservation = await call.gateway.control_plane.redeem(redeem, never);
  if (reservation !== undefined) return reservation;
  cancel(call, redeem);
  throw new AppError(
    'unavailable',
    'The control plane is away, so the ticket cannot be redeemed. Repeat the request shortly.',
    { retry_after: 2 },
  );
}

function redeemOf(
  request: Reserve,
  { wait_ms = 0, ...ticket }: { ticket_id: string; is_brought: boolean; wait_ms?: number },
): Redeem {
  const { org_id, key_id, secret_id, user_id, team_id, agent_id } = request;
  const { request_id, request_body_hash, family, stored_ids } = request;
  const { traceparent, identity_proof_method, trace_label } = request;
  return {
    ticket_id: ticket.ticket_id,
    is_brought: ticket.is_brought,
    org_id,
    key_id,
    secret_id,
    user_id,
    team_id,
    agent_id,
    request_id,
    request_body_hash,
    family,
    wait_ms,
    stored_ids,
    traceparent,
    identity_proof_method,
    trace_label,
  };
}

/** How long this call may be held: its header, else the configuration. */
function holdTime({ ctx, snapshot }: Routed): number {
  const given = ctx.req.headers[HOLD_HEADER] as string | undefined;
  if (given === undefined) return snapshot.settings.cost_tickets.hold_ms;
  const hold_ms = /^\d{1,7}$/.test(given) ? Number(given) : Number.NaN;
  if (hold_ms <= HOLD_MS_MAX) return hold_ms;
  throw new AppError(
    'invalid_field',
    `${HOLD_HEADER} is a whole number of milliseconds, ${HOLD_MS_MAX} at most; 0 holds nothing.`,
    { param: HOLD_HEADER },
  );
}

function ticketHeader({ req }: ClientSide): string | undefined {
  const ticket_id = req.headers[TICKET_HEADER] as string | undefined;
  if (ticket_id === undefined) return undefined;
  if (ticket_id !== '' && ticket_id.length <= TICKET_LENGTH_MAX) return ticket_id;
  throw new AppError('invalid_field', `${TICKET_HEADER} is not the id of a cost ticket.`, {
    param: TICKET_HEADER,
  });
}

function isShort(error: unknown): error is AppError {
  return isAppError(error) && error.status === 402;
}

function asShort(error: unknown): AppError {
  if (isShort(error)) return error;
  throw error;
}

function codeOf(error: unknown): string | undefined {
  return isAppError(error) ? error.code : undefined;
}

function ticketOf({ details }: AppError): string {
  return String((details.extra?.cost_ticket as { id?: string } | undefined)?.id);
}
