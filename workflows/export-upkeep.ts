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
  heartbeatTimeout: '30 seconds',
  summary: 'Delete the files of exports past their time, a page at a time',
});

const PAGE = 50;

/**
 * On a schedule: deletes files past their time, takes up exports that were left, and makes those of
 * schedules. What fails for one export or schedule is named, and done for the others.
 */
export async function exportUpkeep() {
  let expired = 0;
  const failed: string[] = [];
  for (let page = PAGE; page === PAGE; ) {
    const cleared = await expireExports({ limit: PAGE });
    page = cleared.tried;
    expired += cleared.tried - cleared.failed.length;
    failed.push(...cleared.failed);
  }
  const adopted = await adoptOrphanExports({ limit: PAGE });
  const scheduled = await runExportSchedules({ limit: PAGE });
  failed.push(...scheduled.failed);
  return { adopted, scheduled: scheduled.made, expired, failed };
}
