import { Refusal, send } from '../api/client';
import { queries } from '../api/queries';
import { forgetTab, readTab, writeTab } from '../base/storage';

// All tabs of a browser have one session: what begins or ends it in one is told to the others.

/** What a tab tells the others: that it was begun, or that somebody has signed out. */
export type Told = 'begun' | 'signed-out';

/** What the tabs of a browser hear of each other. */
export function openSessionChannel(): BroadcastChannel {
  return new BroadcastChannel('svc-session');
}

const SIGN_OUT_MS = 10_000;
const UNENDED = 'svc-unended';

/**
 * Ends the session, and takes this tab and the others of the browser away from what they show: also
 * if the session lives on, as the server is away or lets its organization do nothing, which the
 * sign-in then says. Throws any other refusal.
 */
export async function signOut(): Promise<void> {
  let is_ended = true;
  try {
    await send('DELETE', '/api/session', { signal: AbortSignal.timeout(SIGN_OUT_MS) });
  } catch (refusal) {
    if (!isAway(refusal) && !isShutOut(refusal)) throw refusal;
    is_ended = false;
  }
  const channel = openSessionChannel();
  channel.postMessage('signed-out' satisfies Told);
  channel.close();
  leave(is_ended);
}

function isAway(refusal: unknown): boolean {
  return refusal instanceof Refusal && (refusal.status === 0 || refusal.status >= 500);
}

/** A suspended organization's session is let do nothing, and so cannot be ended either. */
function isShutOut(refusal: unknown): boolean {
  return refusal instanceof Refusal && refusal.code === 'organization_suspended';
}

let is_leaving = false;

/**
 * Goes to the sign-in, with nothing left of who was signed in. Once: the tab that signs out hears
 * itself too.
 */
export function leave(is_ended = true): void {
  if (is_leaving) return;
  is_leaving = true;
  queries.clear();
  forgetTab();
  if (!is_ended) writeTab(UNENDED, '1');
  location.assign('/login');
}

/** True in a tab that was signed out while the server was away, until that is forgotten. */
export function isUnended(): boolean {
  return readTab(UNENDED) !== null;
}

export function forgetUnended(): void {
  writeTab(UNENDED, null);
}
