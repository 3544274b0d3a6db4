import {
  allHandlersFinished,
  condition,
  defineUpdate,
  proxyActivities,
  setHandler,
} from '@temporalio/workflow';

/** The first of two updates answers at once; the second ends the workflow. */
export const first = defineUpdate<void>('first');
export const second = defineUpdate<void>('second');

const { nothing } = proxyActivities<{ nothing(): Promise<void> }>({
  startToCloseTimeout: '10 seconds',
});

/** The least that a top-up's two messages cost on a server: no row, no provider, no money. */
export async function bare({ hasActivities }: { hasActivities: boolean }): Promise<void> {
  let isOver = false;
  setHandler(first, async () => {
    if (hasActivities) await nothing();
  });
  setHandler(second, async () => {
    if (hasActivities) await nothing();
    isOver = true;
  });
  await condition(() => isOver);
  await condition(allHandlersFinished);
}
