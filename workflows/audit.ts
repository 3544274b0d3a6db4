import { proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';

const { proveLedger } = proxyActivities<Activities>({
  startToCloseTimeout: '1 hour',
  retry: { maximumAttempts: 3 },
  summary: 'Prove every wallet, hold, ticket and cap from one snapshot',
});

/** Each night: proves the whole ledger. Fails, for all operators to see, if something is broken. */
export async function audit(): Promise<{ clean: true }> {
  await proveLedger();
  return { clean: true };
}
