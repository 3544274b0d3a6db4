import { defineSearchAttributeKey } from '@temporalio/common';
import {
  allHandlersFinished,
  condition,
  defineUpdate,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { RefundProgress, RefundStatus } from '../domain/payments/refunds';

interface RefundRef {
  payment_refund_id: string;
}

/** Answers how the refund stands once the provider was asked; fails if the credit was spent. */
export const refundResult = defineUpdate<RefundStatus, [RefundRef], 'result'>('result');

const retry = { maximumInterval: '1 minute' } as const;
const { debitRefund } = proxyActivities<Activities>({
  startToCloseTimeout: '10 seconds',
  retry,
  summary: 'Take the refund from the wallet',
});
// Three calls to the provider, each of 10 s at most; if its worker has died, the step is begun anew
// after so long.
const { sendRefund } = proxyActivities<Activities>({
  startToCloseTimeout: '35 seconds',
  retry,
  summary: 'Ask the provider for the refund',
});

const Status = defineSearchAttributeKey('Status', 'KEYWORD');
const SLEEP_MS_MAX = 24 * 3_600_000;

/** One refund: takes it from the wallet, asks the provider, and follows it to its last word. */
export async function paymentRefund(ref: RefundRef): Promise<RefundStatus> {
  let progress: RefundProgress | undefined;
  let refusal: unknown;
  setHandler(refundResult, async () => {
    await condition(() => progress !== undefined || refusal !== undefined);
    if (refusal !== undefined) throw refusal;
    return progress?.status ?? 'pending';
  });

  try {
    await debitRefund(ref);
  } catch (error) {
    refusal = error;
  }
  while (refusal === undefined) {
    progress = await sendRefund(ref);
    setCurrentDetails(progress.summary);
    if (progress.status !== 'pending') break;
    await condition(() => false, Math.min(progress.wait_ms ?? SLEEP_MS_MAX, SLEEP_MS_MAX), {
      summary: "Until the provider's last word is asked for again",
    });
  }
  await condition(allHandlersFinished);
  const status = progress?.status ?? 'failed';
  upsertSearchAttributes([{ key: Status, value: status }]);
  return status;
}
