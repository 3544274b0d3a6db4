import { defineSearchAttributeKey } from '@temporalio/common';
import {
  allHandlersFinished,
  condition,
  continueAsNew,
  defineSignal,
  defineUpdate,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { Progress } from '../domain/payment-steps';
import type { SessionStatus } from '../domain/payments';

export interface PaymentRef {
  payment_session_id: string;
}

/** Answers once the checkout is there for the buyer, or never can be. */
export const approval = defineUpdate<SessionStatus, [PaymentRef]>('approval');

/** The buyer is back: answers how the payment stands once the provider was asked. */
export const confirm = defineUpdate<SessionStatus, [PaymentRef]>('confirm');

/** The buyer gives up: answers how the session stands, which is not canceled where it is being paid. */
export const cancel = defineUpdate<SessionStatus, [PaymentRef]>('cancel');

/** The provider, or the clock of the reconciler, says that something may have happened. */
export const providerEvent = defineSignal('providerEvent');

const remote = {
  startToCloseTimeout: '30 seconds',
  retry: { maximumInterval: '1 minute' },
} as const;
const { openCheckout } = proxyActivities<Activities>({
  ...remote,
  summary: 'Make the checkout at the provider',
});
const { collectPayment } = proxyActivities<Activities>({
  ...remote,
  summary: 'Ask the provider; take the money where the buyer approved it',
});
const { cancelPayment } = proxyActivities<Activities>({
  ...remote,
  summary: 'Cancel the session, here and at the provider',
});
// One statement of SQL: run in the workflow's own task, so that the buyer's answer waits for no further round trip.
const { creditPayment } = proxyLocalActivities<Activities>({
  startToCloseTimeout: '10 seconds',
  retry: { maximumInterval: '30 seconds' },
  summary: 'Credit the wallet',
});

const Status = defineSearchAttributeKey('Status', 'KEYWORD');

// Timers are set anew after this long, so that a moved deadline is noticed.
const SLEEP_MS_MAX = 24 * 3_600_000;

/** One top-up: makes the checkout, waits for the buyer, a webhook or the deadline, takes the money, credits it once. */
export async function paymentSession(ref: PaymentRef): Promise<SessionStatus> {
  let progress: Progress | undefined;
  let isOver = false;
  // How often somebody asked for a look at the provider, and up to which of them was looked.
  let wanted = 0;
  let looked = 0;
  let isConfirmed = false;

  setHandler(approval, async () => {
    await condition(() => progress !== undefined);
    return statusOf(progress);
  });
  setHandler(confirm, async () => {
    wanted += 1;
    isConfirmed = true;
    const mine = wanted;
    await condition(() => looked >= mine || isOver);
    return statusOf(progress);
  });
  setHandler(cancel, async () => {
    const { status } = await cancelPayment(ref);
    // Whoever waits for the buyer sees it in the row.
    wanted += 1;
    return status;
  });
  setHandler(providerEvent, () => {
    wanted += 1;
  });

  progress = await openCheckout(ref);
  for (;;) {
    setCurrentDetails(progress.summary);
    if (progress.next === 'credit') {
      progress = await creditPayment(ref);
      continue;
    }
    if (progress.next === 'end' && looked >= wanted) break;
    if (workflowInfo().continueAsNewSuggested && looked >= wanted) {
      await condition(allHandlersFinished);
      if (looked >= wanted) await continueAsNew<typeof paymentSession>(ref);
    }
    await condition(
      () => wanted > looked,
      Math.min(progress.wait_ms ?? SLEEP_MS_MAX, SLEEP_MS_MAX),
      { summary: 'Until the buyer, a webhook, the next look or the deadline' },
    );
    const upTo = wanted;
    const reason = isConfirmed ? 'confirm' : upTo > looked ? 'news' : 'clock';
    isConfirmed = false;
    progress = await collectPayment({ ...ref, reason });
    if (progress.next === 'credit') progress = await creditPayment(ref);
    looked = upTo;
  }
  isOver = true;
  await condition(allHandlersFinished);
  const status = statusOf(progress);
  upsertSearchAttributes([{ key: Status, value: status }]);
  return status;
}

function statusOf(progress: Progress | undefined): SessionStatus {
  return progress?.status ?? 'created';
}
