import { proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';

const patient = { startToCloseTimeout: '10 minutes', retry: { maximumAttempts: 5 } } as const;
const { adoptOrphanExports } = proxyActivities<Activities>({
  ...patient,
  summary: 'Give exports that nobody works on their workflow again',
});
const { runExportSchedules } = proxyActivities<Activities>({
  ...patient,
  summary: 'Make the exports of schedules whose window is over',
});
const { expireExports } = proxyActivities<Activities>({
  ...patient,
  summary: 'Delete the files of exports past their time, a page at a time',
});

const PAGE = 50;

/**
 * On a schedule: takes up exports that were left, makes those of schedules, and deletes files past
 * their time.
 */
export async function exportUpkeep() {
  const adopted = await adoptOrphanExports({ limit: PAGE });
  const scheduled = await runExportSchedules({ limit: PAGE });
  let expired = 0;
  const failed: string[] = [];
  for (let page = PAGE; page === PAGE; ) {
    const cleared = await expireExports({ limit: PAGE });
    page = cleared.tried;
    expired += cleared.tried - cleared.failed.length;
    failed.push(...cleared.failed);
  }
  return { adopted, scheduled, expired, failed };
}
