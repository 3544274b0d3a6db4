import { randomUUID } from 'node:crypto';
import { many } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { createReceiver, createReceiverServer } from '../../sandbox/notices/receiver';
import { burst } from '../notices/world';
import { makeTenant } from '../support/api';
import { gatewayToken } from '../support/keys';
import { makePrice } from '../support/ledger';
import { openPaymentProcesses } from '../support/payments/processes';
import { createCheckout } from '../support/payments/world';
import { until } from '../support/until';

const CHECKOUTS = 100;
const HANGING = 50;
const RATIO_MAX = 1.5;

test('create-checkout takes no longer beside a burst of tickets, or with 50 destinations that hang', async () => {
  const world = await openPaymentProcesses({ NOTICE_NETWORKS: '127.0.0.0/8' });
  const receiver = createReceiver();
  const server = createReceiverServer(receiver);
  const url = `http://127.0.0.1:${await listen(server, 0)}/hooks`;
  await makePrice(world.db);
  const machine = await gatewayToken(world.db);
  const buyer = await makeTenant(world.db);
  await world.use('payment_provider_a');

  /** The 95th percentile of create-checkouts, one after the other, in milliseconds. */
  const p95 = async (count = CHECKOUTS): Promise<number> => {
    const took: number[] = [];
    for (let n = 0; n < count; n += 1) {
      const began = performance.now();
      await createCheckout(world, buyer);
      took.push(performance.now() - began);
    }
    return took.sort((a, b) => a - b)[Math.floor(0.95 * took.length)] as number;
  };
  const destination = async (key: string, path: string) => {
    const body = { name: randomUUID(), channel: 'webhook', url: `${url}${path}` };
    const made = await world.call('post', '/v1/notice-destinations', { key, body });
    expect(made.status).toBe(201);
  };
  await p95();
  const alone = await p95();

  // An organization has 500 open tickets at most.
  const bursting = [await makeTenant(world.db), await makeTenant(world.db)];
  for (const { owner_key } of bursting) await destination(owner_key, '/burst');
  const [during, ...ids] = await Promise.all([
    p95(),
    ...bursting.map(({ org_id }) => burst({ call: world.call, machine }, org_id, 500)),
  ]);
  expect(ids.flat()).toHaveLength(1_000);
  const began = await many<{ at: Date }>(
    world.db,
    'select min(created_at) as at from cost_tickets where org_id = any(:orgs) group by org_id',
    { orgs: bursting.map(({ org_id }) => org_id) },
  );
  const firsts = receiver.arrivals.slice(0, 1).map(({ at }) => Date.parse(at));
  const first_ms = Math.min(...firsts) - Math.min(...began.map(({ at }) => at.getTime()));

  receiver.addFault({ path: '/hooks/hang', answer: 'timeout', times: 0 });
  const hanging = await makeTenant(world.db);
  for (let n = 0; n < HANGING; n += 1) await destination(hanging.owner_key, '/hang');
  await burst({ call: world.call, machine }, hanging.org_id, 5);
  await until(async () => {
    const rows = await many(world.db, 'select 1 from notice_messages where attempts > 0');
    return rows.length >= HANGING;
  });
  const beside = await p95();
  console.log({ alone, during, beside, first_ms });
  server.closeAllConnections();
  server.close();
  await world.close();
  expect(first_ms).toBeLessThan(1_000);
  expect(during / alone).toBeLessThan(RATIO_MAX);
  expect(beside / alone).toBeLessThan(RATIO_MAX);
}, 300_000);
