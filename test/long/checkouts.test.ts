import { randomUUID } from 'node:crypto';
import { one } from '../../domain/sql';
import { burst, makeDestination, type NoticeWorld, openNoticeWorld } from '../notices/world';
import { createCheckout, makeBuyer, openSandboxes } from '../support/payments/world';
import { until } from '../support/until';

let world: NoticeWorld;
let closeSandboxes: () => void;
beforeAll(async () => {
  world = await openNoticeWorld();
  const sandboxes = await openSandboxes(world.db, world.api_url);
  closeSandboxes = () => {
    for (const { server } of Object.values(sandboxes)) {
      server.closeAllConnections();
      server.close();
    }
  };
});
afterAll(async () => {
  closeSandboxes();
  await world.close();
});

const DESTINATIONS = 50;
/** A person may have so many open and some more. */
const CHECKOUTS = 10;
/** Each organization may have 500 tickets open. */
const TICKETS = [500, 500];

/** How many destinations have a message under way that nobody has answered yet. */
async function hanging(): Promise<number> {
  const { count } = await one<{ count: number }>(
    world.db,
    `select count(distinct m.destination_id)::int as count from notice_messages m
     where m.status = 'waiting' and m.attempts > 0 and m.last_error is null`,
  );
  return count;
}

test('people go to their checkout while fifty destinations hang and a thousand tickets are told of', async () => {
  const tenants = [await makeBuyer(world.db), await makeBuyer(world.db)] as const;
  for (let n = 0; n < DESTINATIONS; n += 1) {
    const path = `/hooks/${randomUUID()}`;
    world.receiver.addFault({ path, answer: 'timeout', status: 500, times: 0 });
    const { owner_key } = tenants[n % 2 === 0 ? 0 : 1];
    await makeDestination(world, owner_key, { channel: 'webhook', path });
  }
  const told = Promise.all(tenants.map(({ org_id }, n) => burst(world, org_id, TICKETS[n] ?? 0)));
  // Each gives up after ten seconds, so a slow machine never sees all of them at once.
  await until(async () => (await hanging()) >= DESTINATIONS / 2, 300_000);
  // They are answered while destinations hang; on a slow machine the later ones may come when all
  // have given up for now, and a minute of them is looked at.
  let beside = 0;
  for (let n = 0; n < CHECKOUTS; n += 1) {
    await createCheckout(world, tenants[1]);
    if ((await hanging()) > 0) beside += 1;
    else expect(n).toBeGreaterThan(0);
  }
  expect(beside).toBeGreaterThan(0);
  expect(new Set((await told).flat()).size).toBe(1_000);
  world.receiver.clearFaults();
  await until(async () => (await hanging()) === 0, 300_000);
});
