import { proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';

const patient = { startToCloseTimeout: '10 minutes', retry: { maximumAttempts: 5 } } as const;
const { adoptOrphanExports } = proxyActivities<Activities>({
  ...patient,
  summary: 'Give exports that nobody works on their workflow again',
});
const { expireExports } = proxyActivities<Activities>({
  ...patient,
  summary: 'Delete the files of exports past their time, a page at a time',
});

const PAGE = 50;

/** On a schedule: takes up exports that were left, and deletes files past their time. */
export async function exportUpkeep(): Promise<{ adopted: number; expired: number }> {
  const adopted = await adoptOrphanExports({ limit: PAGE });
  let expired = 0;
  for (let page = PAGE; page === PAGE; expired += page) page = await expireExports({ limit: PAGE });
  return { adopted, expired };
}
