import { proxyActivities } from '@temporalio/workflow';

interface Steps {
  holdOn: () => Promise<string>;
}

// As the long steps of exports and rollouts are called: a heartbeat, and no end of tries.
const { holdOn } = proxyActivities<Steps>({
  startToCloseTimeout: '1 hour',
  heartbeatTimeout: '30 seconds',
  retry: { initialInterval: '10 milliseconds' },
});

/** One long step; its answer says who has ended it. */
export async function oneLongStep(): Promise<string> {
  return await holdOn();
}
