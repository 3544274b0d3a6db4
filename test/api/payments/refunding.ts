import type { ProviderName } from '../../../domain/payments/currencies';
import { one } from '../../../domain/sql';
import type { Tenant } from '../../support/api';
import {
  type Checkout,
  confirm,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
} from '../../support/payments/world';
import { until } from '../../support/until';

// Money that goes back, over the real wires: our refunds, and what happens at the provider's own
// site. A test file that imports this also gets its hooks.

export let world: PaymentWorld;
export let tenant: Tenant;

beforeAll(async () => {
  world = await openPaymentWorld();
});
beforeEach(async () => {
  tenant = await makeBuyer(world.db);
});
afterAll(() => world.close());

export function refund({ payment_session_id }: Checkout, more: object = {}) {
  const body = { payment_session_id, reason: 'asked by the buyer', ...more };
  return world.call('post', '/v1/admin/payments/refund', { key: world.admin, body });
}

export async function balance(): Promise<number> {
  const sql = 'select (balance_nanos / 1e9)::float as balance from wallets where id = :wallet_id';
  return (await one<{ balance: number }>(world.db, sql, { wallet_id: tenant.wallet_id })).balance;
}

/** How often the provider gave money back, and what it holds now. */
export async function refundsAt({
  provider,
  provider_session_token,
}: Checkout): Promise<unknown[]> {
  return (await world.sandboxes[provider].order(provider_session_token)).refunds;
}

/** A top-up of 50 that is credited. */
export async function completed(provider: ProviderName): Promise<Checkout> {
  await world.use(provider);
  const checkout = await createCheckout(world, tenant);
  await pay(checkout);
  // A busy Temporal may say that it was not in time.
  await until(async () => (await confirm(world, tenant, checkout)).body.status === 'completed');
  return checkout;
}
