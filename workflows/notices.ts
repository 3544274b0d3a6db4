import {
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities';

interface DestinationRef {
  destination_id: string;
}

/** A notice was written, a message is to be sent once more, or the destination has changed. */
export const wakeNotices = defineSignal('wakeNotices');

// A try of each message takes 10 s at most. A worker that is silent has died: another one sends
// what it had taken once its lease is over.
const { sendNotices } = proxyActivities<Activities>({
  startToCloseTimeout: '1 minute',
  heartbeatTimeout: '5 seconds',
  retry: { maximumInterval: '30 seconds' },
  summary: 'Put notices into messages and send those that are due, 4 at once',
});

/**
 * Lies between two looks at a burst, whose first notice goes at once. The activity waits for it:
 * Temporal's own timers are late by up to a second.
 */
const PACE_MS = 300;
/** It stays so long without work: Temporal starts no workflow twice within a second. */
const LINGER_MS = 60_000;
const SLEEP_MS_MAX = 24 * 3_600_000;

/**
 * One per destination: sends its messages, each until it has arrived or is given up after a day.
 * The rows say what is to be done; this knows when.
 */
export async function notices(ref: DestinationRef): Promise<void> {
  let isWoken = false;
  setHandler(wakeNotices, () => {
    isWoken = true;
  });
  for (let pause_ms = 0; ; ) {
    isWoken = false;
    const looked_at = Date.now() + pause_ms;
    const { wait_ms, summary } = await sendNotices({ ...ref, pause_ms });
    setCurrentDetails(summary);
    if (wait_ms !== 0) {
      const waiting = { summary: 'Until a notice comes or a message is due' };
      await condition(() => isWoken, Math.min(wait_ms ?? LINGER_MS, SLEEP_MS_MAX), waiting);
      if (wait_ms === null && !isWoken) return;
    }
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof notices>(ref);
    pause_ms = isWoken ? Math.max(0, looked_at + PACE_MS - Date.now()) : 0;
  }
}
