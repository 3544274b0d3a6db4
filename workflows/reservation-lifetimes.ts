import { defineSearchAttributeKey } from '@temporalio/common';
import {
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities';

interface OrganizationRef {
  org_id: string;
}

/**
 * Sent with start by the first hold of an organization, and by a hold whose deadline comes before
 * the one slept to.
 */
export const wake = defineSignal('wake');

const quick = proxyActivities<Activities>({
  startToCloseTimeout: '30 seconds',
  retry: { maximumInterval: '30 seconds' },
  summary: 'Expire overdue holds and find the next deadline',
});

const Status = defineSearchAttributeKey('Status', 'KEYWORD');

// A shorter life set meanwhile is noticed after this long at the latest.
const SLEEP_MS_MAX = 60_000;

/**
 * One per organization while it has open holds: expires overdue holds, sleeps to the next deadline,
 * and ends when nothing is open and nobody woke it since its last look.
 */
export async function reservationLifetimes({ org_id }: OrganizationRef): Promise<void> {
  let woken = false;
  setHandler(wake, () => {
    woken = true;
  });
  for (;;) {
    woken = false;
    const next_ms = await quick.expireHolds({ org_id });
    if (next_ms === null && !woken) break;
    if (next_ms !== null) {
      setCurrentDetails(`The next hold lapses at ${new Date(Date.now() + next_ms).toISOString()}.`);
      const summary = 'Until the next hold lapses, a minute at most, or an earlier one is made';
      await condition(() => woken, Math.min(next_ms, SLEEP_MS_MAX), { summary });
    }
    if (workflowInfo().continueAsNewSuggested)
      await continueAsNew<typeof reservationLifetimes>({ org_id });
  }
  setCurrentDetails('No hold is open.');
  upsertSearchAttributes([{ key: Status, value: 'completed' }]);
}
