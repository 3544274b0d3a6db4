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
import type { ConfigActivities } from '../activities';

interface RolloutRef {
  rollout_id: string;
}

/** Its row has changed: somebody started, paused, resumed, aborted or promoted it. */
export const wakeRollout = defineSignal('wake');

const { stepRollout } = proxyActivities<ConfigActivities>({
  startToCloseTimeout: '15 seconds',
  retry: { maximumInterval: '10 seconds' },
  summary: 'Take the rollout as far as it can go now',
});

const Status = defineSearchAttributeKey('Status', 'KEYWORD');

// Timers are set anew after this long, so that a lost message is made up for.
const SLEEP_MS_MAX = 24 * 3_600_000;

/**
 * One rollout of a configuration: steps of its row, each as soon as there may be something to do,
 * until it has ended.
 */
export async function configRollout(ref: RolloutRef): Promise<string> {
  let isWoken = false;
  setHandler(wakeRollout, () => {
    isWoken = true;
  });
  for (;;) {
    isWoken = false;
    const { status, is_over, wait_ms, summary, waits_for } = await stepRollout(ref);
    setCurrentDetails(summary);
    // A message that came meanwhile may be of an end that this step has not seen.
    if (is_over && !isWoken) {
      upsertSearchAttributes([{ key: Status, value: status }]);
      return summary;
    }
    // The next run begins with a step, so no message is lost.
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof configRollout>(ref);
    const waiting = { summary: waits_for === '' ? 'Until it is looked at again' : waits_for };
    await condition(() => isWoken, Math.min(wait_ms ?? SLEEP_MS_MAX, SLEEP_MS_MAX), waiting);
  }
}
