import { WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import * as cancellation from '../../domain/payments/cancellation';
import { secrets, type Tenant } from '../support/api';
import {
  type Checkout,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  sessionOf,
} from '../support/payments/world';
import { repeated, until } from '../support/until';

let world: PaymentWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openPaymentWorld();
  await world.use('payment_provider_b');
  tenant = await makeBuyer(world.db);
});
afterAll(() => world.close());

/** Sends a cancellation to a session's workflow, as whoever reaches Temporal can. */
async function send(made: Checkout, wish: unknown): Promise<string> {
  const handle = world.client.workflow.getHandle(made.payment_session_id);
  // A task that another message has undone takes this one at the next try, if it has not ended.
  await until(() =>
    handle.executeUpdate('cancel', { args: [wish] }).then(
      () => true,
      (error) =>
        error instanceof WorkflowUpdateFailedError || error instanceof WorkflowNotFoundError,
    ),
  );
  return statusOf(made);
}

const statusOf = async (made: Checkout) => (await sessionOf(world, tenant, made)).status;

test("nobody who only reaches Temporal ends a buyer's checkout", async () => {
  const [made, other] = [await createCheckout(world, tenant), await createCheckout(world, tenant)];
  const { payment_session_id } = made;
  const good = await cancellation.sign(world.db, secrets, payment_session_id);
  const past = new Date(Date.now() - 60_000).toISOString();
  const late = {
    payment_session_id,
    valid_until: past,
    signature: await secrets.sign('payment_cancel', payment_session_id, past),
  };
  const forged = [
    { payment_session_id },
    { ...good, signature: 'x' },
    { ...good, valid_until: new Date(Date.now() + 3_600_000).toISOString() },
    await cancellation.sign(world.db, secrets, other.payment_session_id),
    late,
  ];
  for (const wish of forged) expect(await send(made, wish)).toBe('created');
  // Signed anew: it is good for half a minute.
  const fresh = await cancellation.sign(world.db, secrets, payment_session_id);
  expect(await send(made, fresh)).toBe('canceled');
  expect(await statusOf(other)).toBe('created');
});

test('the buyer cancels through the API, whose wish is signed', async () => {
  const { payment_session_id: id } = await createCheckout(world, tenant);
  const path = `/v1/payments/sessions/${id}/cancel`;
  const canceled = await repeated(() =>
    world.call('post', path, { key: tenant.member_key, body: {} }),
  );
  expect([canceled.status, canceled.body.status]).toEqual([200, 'canceled']);
});
