import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../domain/errors';
import type { Logger } from '../runtime/log';
import { createRefusalCounts } from '../runtime/refusal-counts';
import { adopt } from './adopt';
import { createArrivals } from './call/arrivals';
import type { Gateway } from './call/call';
import { createHeldCalls } from './call/held-calls';
import { closeSnapshot, openSnapshot } from './call/snapshot';
import { createStoredIds } from './call/stored-ids';
import type { Settings } from './config/settings';
import type { ControlPlane } from './control-plane/client';
import { openEvents } from './control-plane/events';
import { openHolds } from './control-plane/holds';
import { openSound } from './counting/sound';
import { openTokenizer } from './counting/tokenizer';
import { createIdentities } from './identity/memory';
import { openLimits } from './limits/engine';
import type { Sockets } from './sockets/upgrade';
import { openTelemetry } from './telemetry/exports';

const POLL_MS = 20;
export const COST_WAIT_MS = 250;

/** Opens what the gateway works with. */
export async function openGateway({
  settings,
  control_plane,
  log,
  sample_ratio,
}: {
  settings: Settings;
  control_plane: ControlPlane;
  log: Logger;
  sample_ratio?: number | undefined;
}): Promise<Gateway> {
  const identities = createIdentities();
  const snapshot = openSnapshot(settings, { identities, control_plane });
  const limits = openLimits(log);
  const gateway: Gateway = {
    snapshot,
    control_plane,
    identities,
    holds: openHolds(control_plane),
    held_calls: createHeldCalls(),
    queued_calls: createHeldCalls(),
    arrivals: createArrivals(),
    stored_ids: createStoredIds(),
    tokenizer: openTokenizer(),
    sound: openSound(),
    events: openEvents(control_plane, log),
    refusals: createRefusalCounts(),
    unsound_costs: new Map(),
    limits,
    telemetry: openTelemetry({ limits, log, sample_ratio }),
    log,
    calls: new Set(),
    is_draining: false,
    cost_wait_ms: COST_WAIT_MS,
  };
  await adopt(gateway, snapshot);
  return gateway;
}

/**
 * Waits until nothing is under way and every settlement is accepted; what outlasts the bound is cut
 * and settled.
 */
export async function drain(gateway: Gateway, sockets: Sockets): Promise<void> {
  gateway.is_draining = true;
  gateway.held_calls.endAll();
  sockets.drain();
  const { calls, control_plane } = gateway;
  const end_at = performance.now() + gateway.snapshot.settings.timeouts.drain_ms;
  const stops = new AppError(
    'unavailable',
    'This gateway stops. Send the request again; another one answers it.',
  );
  for (const call of calls) if (call.is_listening) call.abort?.(stops);
  while (calls.size > 0 && performance.now() < end_at) await sleep(POLL_MS);
  for (const call of calls) call.abort?.(stops);
  const settled_by = Math.max(end_at, performance.now() + SETTLE_MS);
  // What is cut here settles like any call whose client has gone.
  const cutting = sockets.close(end_at - performance.now() + SOCKETS_MS);
  while (calls.size + control_plane.unsettled() > 0 && performance.now() < settled_by) {
    await sleep(POLL_MS);
  }
  await cutting;
}

const SETTLE_MS = 5_000;
// For the closing handshake.
const SOCKETS_MS = 1_000;
const EVENTS_MS = 2_000;

/** Lets go of all that a gateway has open, once it has drained. */
export async function closeGateway(gateway: Gateway): Promise<void> {
  gateway.holds.close();
  gateway.refusals.close();
  await gateway.events.close(EVENTS_MS);
  gateway.tokenizer.close();
  await gateway.telemetry.close();
  await gateway.limits.close();
  gateway.sound.close();
  await closeSnapshot(gateway.snapshot);
  await gateway.control_plane.close();
}
