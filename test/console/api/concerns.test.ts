import { pathsOf } from '../../../console/web/app/concerns';
import { billingTypes } from '../../../domain/events';

test.each(billingTypes)('%s, which whoever bills hears, has something read anew', (type) => {
  expect(pathsOf(type)).not.toEqual([]);
});

test('what a call has cost beside its hold moves the balances', () => {
  expect(pathsOf('settlement.bounded')).toContain('/api/wallets');
});
