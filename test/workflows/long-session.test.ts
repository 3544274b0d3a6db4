import { type HistoryJson, replay, storedHistory } from '../support/history';

/**
 * How a stored session would have gone on, had the server said after its first task that its
 * history was long.
 */
async function continued({ isLong }: { isLong: boolean }): Promise<HistoryJson> {
  const { events } = await storedHistory('payment-session-expired');
  // Started, the first task, the update for the checkout, the checkout's marker, a timer, the
  // update's answer.
  const [started, scheduled, taken, done, accepted, marker, , answered] = events as Event[];
  const task = taken?.workflowTaskStartedEventAttributes;
  const { workflowType, taskQueue, input } = {
    ...started?.workflowExecutionStartedEventAttributes,
  };
  const all = [
    started,
    scheduled,
    { ...taken, workflowTaskStartedEventAttributes: { ...task, suggestContinueAsNew: isLong } },
    done,
    accepted,
    marker,
    answered,
    {
      eventTime: answered?.eventTime,
      taskId: answered?.taskId,
      eventType: 'EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW',
      workflowExecutionContinuedAsNewEventAttributes: {
        workflowType,
        taskQueue,
        input,
        workflowTaskCompletedEventId: '4',
        newExecutionRunId: '01a2217f-0000-7000-8000-000000000000',
      },
    },
  ];
  return { events: all.map((event, index) => ({ ...event, eventId: String(index + 1) })) };
}

type Event = Record<string, Record<string, unknown>>;

test('a session whose history has grown long goes on in a new run, once its callers are answered; no other does', async () => {
  expect(await replay(await continued({ isLong: true }), 'long')).toBeUndefined();
  expect(await replay(await continued({ isLong: false }), 'short')).toMatchObject({
    name: 'DeterminismViolationError',
  });
});
