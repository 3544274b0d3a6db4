import { proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';

const patient = proxyActivities<Activities>({
  startToCloseTimeout: '2 minutes',
  retry: { maximumAttempts: 5 },
});

const PAGE = 100;

/** On a schedule: gives orphan holds their workflow again and forgets stored answers that are past their time. */
export async function reconcile(): Promise<{ adopted: number; forgotten: number }> {
  let adopted = 0;
  for (let page = PAGE; page === PAGE; adopted += page)
    page = await patient.adoptOrphanHolds({ limit: PAGE });
  const forgotten = await patient.forgetStoredAnswers();
  return { adopted, forgotten };
}
