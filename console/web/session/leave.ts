import { queries } from '../api/queries';
import { forgetTab } from '../base/storage';

// All tabs of a browser have one session: what begins or ends it in one is told to the others.

/** What a tab tells the others: that it was begun, or that somebody has signed out. */
export type Told = 'begun' | 'signed-out';

/** What the tabs of a browser hear of each other. */
export function openSessionChannel(): BroadcastChannel {
  return new BroadcastChannel('svc-session');
}

/** After a sign-out: takes this tab and the others of the browser away from what they show. */
export function leaveEverywhere(): void {
  const channel = openSessionChannel();
  channel.postMessage('signed-out' satisfies Told);
  channel.close();
  leave();
}

let is_leaving = false;

/**
 * Goes to the sign-in, with nothing left of who was signed in. Once: the tab that signs out hears
 * itself too.
 */
export function leave(): void {
  if (is_leaving) return;
  is_leaving = true;
  queries.clear();
  forgetTab();
  location.assign('/login');
}
