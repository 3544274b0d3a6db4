import { one } from '../../../domain/sql';
import type { Tenant } from '../../support/api';
import {
  type Checkout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
} from '../../support/payments/world';

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
