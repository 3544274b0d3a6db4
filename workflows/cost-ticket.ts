import { ApplicationFailure, defineSearchAttributeKey } from '@temporalio/common';
import {
  allHandlersFinished,
  condition,
  defineSignal,
  defineUpdate,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { TicketStatus } from '../domain/ledger/tickets';
import type { Verdict } from '../domain/ledger/verdicts';

interface TicketRef {
  ticket_id: string;
}

/** A person's verdict; answers when it is recorded, or fails with the code that refuses it. */
export const decide = defineUpdate<TicketStatus, [Verdict], 'decide'>('decide');

/** The ticket was closed elsewhere: redeemed, or found expired. */
export const resolved = defineSignal('resolved');

const quick = {
  startToCloseTimeout: '10 seconds',
  retry: { maximumInterval: '30 seconds' },
} as const;
const { expireTicket } = proxyActivities<Activities>({
  ...quick,
  summary: 'Expire the ticket if its time is over, else find how long it has',
});
const { showTicket } = proxyActivities<Activities>({
  ...quick,
  summary: 'Read how the ticket ended',
});

// A verdict is good for 30 s by the database's clock; its sender has long gone by then.
const { recordVerdict } = proxyActivities<Activities>({
  startToCloseTimeout: '10 seconds',
  scheduleToCloseTimeout: '40 seconds',
  summary: "Record a person's verdict, with its money",
});

const Status = defineSearchAttributeKey('Status', 'KEYWORD');

// Timers are set anew after this long, so that a moved deadline is noticed.
const SLEEP_MS_MAX = 24 * 3_600_000;

/**
 * One per open ticket: waits for a verdict, for the news that it is closed, or for its deadline.
 */
export async function costTicket({ ticket_id }: TicketRef): Promise<TicketStatus> {
  let isClosed = false;
  setHandler(decide, async (verdict) => {
    if (verdict.ticket_id !== ticket_id)
      throw ApplicationFailure.nonRetryable(
        'This verdict is of another ticket.',
        'verdict_not_signed',
      );
    const status = await recordVerdict(verdict);
    isClosed = true;
    return status;
  });
  setHandler(resolved, () => {
    isClosed = true;
  });

  for (;;) {
    const { left_ms, summary } = await expireTicket({ ticket_id });
    setCurrentDetails(summary);
    if (left_ms === 0) break;
    const waiting = { summary: 'Until a verdict, a redemption or the deadline, a day at most' };
    await condition(() => isClosed, Math.min(left_ms, SLEEP_MS_MAX), waiting);
    if (isClosed) break;
  }
  for (;;) {
    // A verdict that is being recorded as the deadline passes still counts.
    await condition(allHandlersFinished);
    const { status, summary } = await showTicket({ ticket_id });
    setCurrentDetails(summary);
    // Another verdict may have come meanwhile; it is answered before the workflow ends.
    if (!allHandlersFinished()) continue;
    upsertSearchAttributes([{ key: Status, value: status }]);
    return status;
  }
}
