import { proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';

const patient = { startToCloseTimeout: '2 minutes', retry: { maximumAttempts: 5 } } as const;
const { adoptOrphanHolds } = proxyActivities<Activities>({
  ...patient,
  summary: 'Give orphan holds their workflow again, a page at a time',
});
const { forgetStoredAnswers } = proxyActivities<Activities>({
  ...patient,
  summary: 'Forget answers kept under an Idempotency-Key for over 7 days',
});

const PAGE = 100;

/** On a schedule: gives orphan holds their workflow again and forgets stored answers that are past their time. */
export async function reconcile(): Promise<{ adopted: number; forgotten: number }> {
  let adopted = 0;
  for (let page = PAGE; page === PAGE; adopted += page)
    page = await adoptOrphanHolds({ limit: PAGE });
  const forgotten = await forgetStoredAnswers();
  return { adopted, forgotten };
}
