import { patched, proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';

const patient = { startToCloseTimeout: '2 minutes', retry: { maximumAttempts: 5 } } as const;
const { adoptOrphanHolds } = proxyActivities<Activities>({
  ...patient,
  summary: 'Give orphan holds their workflow again, a page at a time',
});
const { adoptOrphanTickets } = proxyActivities<Activities>({
  ...patient,
  summary: 'Give cost tickets past their deadline their workflow again, a page at a time',
});
const { adoptDuePayments } = proxyActivities<Activities>({
  ...patient,
  summary: 'Ask again for payments and refunds that nobody told of, a page at a time',
});
const { adoptOrphanRollouts } = proxyActivities<Activities>({
  ...patient,
  summary: 'Give rollouts that nobody steps on their workflow again, a page at a time',
});
const { keepEventPartitions } = proxyActivities<Activities>({
  ...patient,
  summary: 'Make the event partitions of the next 7 days, drop those past 90 days',
});
const { noteSilentGateways } = proxyActivities<Activities>({
  ...patient,
  summary: 'Tell of gateways that fell silent without a word',
});
const { adoptOrphanNotices } = proxyActivities<Activities>({
  ...patient,
  summary: 'Give destinations whose notices wait their workflow again, a page at a time',
});
const { tellExpiringKeys } = proxyActivities<Activities>({
  ...patient,
  summary: 'Tell of keys that end within a week',
});
const { forgetNotices } = proxyActivities<Activities>({
  ...patient,
  summary: 'Forget notices and messages of over 90 days',
});
const { forgetStoredAnswers } = proxyActivities<Activities>({
  ...patient,
  summary: 'Forget answers kept under an Idempotency-Key for over 7 days',
});

const PAGE = 100;

/**
 * On a schedule: gives orphan holds, tickets, payments and rollouts their workflow again, and
 * forgets rows past their time.
 */
export async function reconcile(): Promise<{ adopted: number; forgotten: number }> {
  let adopted = await adoptAll(adoptOrphanHolds);
  if (patched('tickets')) adopted += await adoptAll(adoptOrphanTickets);
  if (patched('payments')) adopted += await adoptAll(adoptDuePayments);
  if (patched('rollouts')) adopted += await adoptAll(adoptOrphanRollouts);
  if (patched('event-partitions')) await keepEventPartitions();
  if (patched('silent-gateways')) await noteSilentGateways();
  if (patched('notices')) {
    adopted += await adoptAll(adoptOrphanNotices);
    await tellExpiringKeys();
    await forgetNotices();
  }
  const forgotten = await forgetStoredAnswers();
  return { adopted, forgotten };
}

async function adoptAll(adopt: (page: { limit: number }) => Promise<number>): Promise<number> {
  let adopted = 0;
  for (let page = PAGE; page === PAGE; adopted += page) page = await adopt({ limit: PAGE });
  return adopted;
}
