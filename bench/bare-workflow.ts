import { allHandlersFinished, condition, defineUpdate, setHandler } from '@temporalio/workflow';

/** The first of two updates answers at once; the second ends the workflow. */
export const first = defineUpdate<string>('first');
export const second = defineUpdate<string>('second');

/** The least that a top-up's two messages cost on a server: no row, no provider, no money. */
export async function bare(): Promise<void> {
  let isOver = false;
  setHandler(first, () => 'waiting');
  setHandler(second, () => {
    isOver = true;
    return 'over';
  });
  await condition(() => isOver);
  await condition(allHandlersFinished);
}
