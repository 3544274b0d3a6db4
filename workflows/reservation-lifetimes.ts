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

export interface OrganizationRef {
  org_id: string;
}

/** Sent with start by the first hold of an organization, and by a hold whose deadline comes before the one slept to. */
export const wake = defineSignal('wake');

const quick = proxyActivities<Activities>({
  startToCloseTimeout: '30 seconds',
  retry: { maximumInterval: '30 seconds' },
});

// A shorter life set meanwhile is noticed after this long at the latest.
const SLEEP_MS_MAX = 60_000;

/**
 * One per organization while it has open holds: expires what is overdue, sleeps to the next deadline, and ends when
 * nothing is open and nobody woke it since its last look.
 */
export async function reservationLifetimes({ org_id }: OrganizationRef): Promise<void> {
  let woken = false;
  setHandler(wake, () => {
    woken = true;
  });
  while (!workflowInfo().continueAsNewSuggested) {
    woken = false;
    const next_ms = await quick.expireHolds({ org_id });
    if (next_ms === null && !woken) return;
    setCurrentDetails(
      next_ms === null
        ? 'Looking for new holds.'
        : `The next hold lapses in ${Math.ceil(next_ms / 1000)} s.`,
    );
    if (next_ms !== null) await condition(() => woken, Math.min(next_ms, SLEEP_MS_MAX));
  }
  await continueAsNew<typeof reservationLifetimes>({ org_id });
}
