import { proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';

const { checkPrices } = proxyActivities<Activities>({
  startToCloseTimeout: '5 minutes',
  retry: { maximumAttempts: 3 },
  summary: 'Compare the prices in force with the catalog inside',
});

/** Each night: which served models have no price, and which prices a catalog lists otherwise. */
export function pricesCheck() {
  return checkPrices();
}
