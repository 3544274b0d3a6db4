import { defineSearchAttributeKey } from '@temporalio/common';
import {
  ActivityFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  defineSignal,
  defineUpdate,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { Cancellation } from '../domain/payments/cancellation';
import type { SessionStatus } from '../domain/payments/sessions';
import type { Progress } from '../domain/payments/steps';

interface PaymentRef {
  payment_session_id: string;
}

/** Answers once the checkout is there for the buyer, or never can be. */
export const approval = defineUpdate<SessionStatus, [PaymentRef], 'approval'>('approval');

/** The buyer is back: answers how the payment stands once the provider was asked. */
export const confirm = defineUpdate<SessionStatus, [PaymentRef], 'confirm'>('confirm');

/**
 * The buyer gives up: answers how the session stands, which is not canceled if it is being paid.
 */
export const cancel = defineUpdate<SessionStatus, [Cancellation], 'cancel'>('cancel');

/** The provider, or the clock of the reconciler, says that something may have happened. */
export const providerEvent = defineSignal('providerEvent');

// Local: each is a short look at the provider or a statement of SQL, done in the workflow's own
// task, so that a whole top-up is two tasks of the server. If one is run again after a crash it
// asks first. A step that goes on failing is tried again by the clock, so that it holds no task
// meanwhile.
const step = { startToCloseTimeout: '45 seconds', retry: { maximumAttempts: 3 } } as const;
const PAUSE_MS = 60_000;
const { openCheckout } = proxyLocalActivities<Activities>({
  ...step,
  summary: 'Make the checkout at the provider',
});
const { collectPayment } = proxyLocalActivities<Activities>({
  ...step,
  summary: 'Ask the provider; take the money where the buyer approved it',
});
const { cancelPayment } = proxyLocalActivities<Activities>({
  ...step,
  summary: 'Cancel the session, here and at the provider',
});
const { creditPayment } = proxyLocalActivities<Activities>({
  ...step,
  summary: 'Credit the wallet',
});

const Status = defineSearchAttributeKey('Status', 'KEYWORD');

const waiting = { summary: 'Until the buyer, a webhook, the next look or the deadline' };
// Timers are set anew after this long, so that a moved deadline is noticed.
const SLEEP_MS_MAX = 24 * 3_600_000;

/**
 * One top-up: makes the checkout, waits for the buyer, a webhook or the deadline, takes the money,
 * credits it once. It counts how often somebody asked for a look at the provider, also while last
 * answers are given, and up to which of them was looked; likewise for tries to make the checkout.
 */
export async function paymentSession(ref: PaymentRef): Promise<SessionStatus> {
  let progress: Progress | undefined;
  let isOver = false;
  let wanted = 0;
  let looked = 0;
  let isConfirmed = false;
  let has_news = false;
  let openings_wanted = 1;
  let openings = 0;
  const isOpened = () => openings > 0 && progress?.next !== 'open';

  setHandler(approval, async () => {
    const mine = openings + 1;
    openings_wanted = Math.max(openings_wanted, mine);
    await condition(() => openings >= mine || isOver || isOpened());
    return statusOf(progress);
  });
  setHandler(confirm, async () => {
    wanted += 1;
    isConfirmed = true;
    const mine = wanted;
    await condition(() => looked >= mine || isOver);
    return statusOf(progress);
  });
  setHandler(cancel, async (given) => {
    // Of this session, whichever the message names: its signature says whose it is.
    const wish = { ...given, ...ref };
    const { status } = await tried(() => cancelPayment(wish), progress);
    wanted += 1;
    return status;
  });
  setHandler(providerEvent, () => {
    wanted += 1;
    has_news = true;
  });

  const isWanted = () =>
    wanted > looked || (progress?.next === 'open' && openings_wanted > openings);
  for (;;) {
    if (progress === undefined || progress.next === 'open') {
      progress = await tried(() => openCheckout(ref), progress);
      openings += 1;
    }
    setCurrentDetails(progress.summary);
    if (progress.next === 'credit') progress = await tried(() => creditPayment(ref), progress);
    isOver = progress.next === 'end' && looked >= wanted;
    if (isOver) await condition(() => allHandlersFinished() || isWanted());
    if (isOver && !isWanted()) break;
    await continueWhenLong(ref, isWanted);
    await condition(isWanted, Math.min(progress.wait_ms ?? SLEEP_MS_MAX, SLEEP_MS_MAX), waiting);
    if (progress.next === 'open' && wanted <= looked) continue;
    const upTo = wanted;
    const reason = isConfirmed ? 'confirm' : upTo > looked ? 'news' : 'clock';
    const look = { ...ref, reason, has_news } as const;
    [isConfirmed, has_news] = [false, false];
    progress = await tried(() => collectPayment(look), progress);
    looked = upTo;
  }
  upsertSearchAttributes([{ key: Status, value: progress.status }]);
  return progress.status;
}

/** The result of a step; a pause if it failed in our own code, whatever the row says. */
async function tried(
  run: () => Promise<Progress>,
  before: Progress | undefined,
): Promise<Progress> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    const { status = 'created', summary = 'not begun yet' } = before ?? {};
    return { status, summary, next: 'wait', wait_ms: PAUSE_MS };
  }
}

/**
 * A history that has grown long goes on in a new run, once nobody waits for an answer of this one.
 */
async function continueWhenLong(ref: PaymentRef, isWanted: () => boolean): Promise<void> {
  if (!workflowInfo().continueAsNewSuggested || isWanted()) return;
  await condition(() => allHandlersFinished() || isWanted());
  if (!isWanted()) await continueAsNew<typeof paymentSession>(ref);
}

function statusOf(progress: Progress | undefined): SessionStatus {
  return progress?.status ?? 'created';
}
