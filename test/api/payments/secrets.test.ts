import { historyToJSON } from '@temporalio/common/lib/proto-utils';
import { providerNames } from '../../../domain/payments/currencies';
import { sandboxAccessA } from '../../../sandbox/payments/a/provider';
import { sandboxAccessB } from '../../../sandbox/payments/b/provider';
import { secrets_key } from '../../support/api';
import {
  confirm,
  confirmAnew,
  createCheckout,
  makeBuyer,
  openPaymentWorld,
  type PaymentWorld,
  pay,
} from '../../support/payments/world';
import { everyRow } from '../../support/rows';

let world: PaymentWorld;

beforeAll(async () => {
  world = await openPaymentWorld();
});
afterAll(() => world.close());

const hidden = {
  client_secret: sandboxAccessA.client_secret,
  secret_key: sandboxAccessB.secret_key,
  webhook_secret: sandboxAccessB.webhook_secret,
  SVC_SECRETS_KEY: secrets_key,
};

test("the providers' secrets stand nowhere: not in a table, a workflow's history, an answer or an error", async () => {
  const tenant = await makeBuyer(world.db);
  const said: string[] = [];
  for (const provider of providerNames) {
    await world.use(provider);
    const sandbox = world.sandboxes[provider];
    // A provider that answers with an error has its words kept with the session.
    const checkout = await createCheckout(world, tenant);
    await sandbox.fault({
      on: 'read',
      order: checkout.provider_session_token,
      answer: 'error',
      status: 401,
    });
    said.push((await confirm(world, tenant, checkout)).text);
    await pay(checkout);
    said.push((await confirmAnew(world, tenant, checkout)).text);
    const { payment_session_id } = checkout;
    const refund = { payment_session_id, reason: 'asked' };
    said.push(
      (await world.call('post', '/v1/admin/payments/refund', { key: world.admin, body: refund }))
        .text,
    );
    for await (const { workflowId, runId } of world.client.workflow.list()) {
      const history = await world.client.workflow.getHandle(workflowId, runId).fetchHistory();
      const text = JSON.stringify(historyToJSON(history));
      // Payloads are base64 there.
      const decoded = text.replace(/"data":"([^"]+)"/g, (_, data) =>
        Buffer.from(data, 'base64').toString(),
      );
      said.push(decoded);
    }
  }
  const put = { payment_provider_b: { enabled: true, secret_key: sandboxAccessB.secret_key } };
  for (const [method, body] of [
    ['get', undefined],
    ['put', put],
  ] as const)
    said.push(
      (await world.call(method, '/v1/admin/payments/config', { key: world.admin, body })).text,
    );
  said.push(await everyRow(world.db));
  expect(said.join('\n')).toContain('payment_credit');
  for (const [name, secret] of Object.entries(hidden))
    expect([name, said.some((text) => text.includes(secret))]).toEqual([name, false]);
});
