import { randomUUID } from 'node:crypto';
import { many, one } from '../../domain/sql';
import { makeTenant } from '../support/api';
import { leastOf } from '../support/cpu';
import { makeShort } from '../support/tickets';
import { until } from '../support/until';
import { burst, makeDestination, type NoticeWorld, openNoticeWorld } from './world';

let world: NoticeWorld;
beforeAll(async () => {
  world = await openNoticeWorld();
});
afterAll(() => world.close());

/** How many tickets each message that arrived at a path carries. */
function countsAt(path: string): number[] {
  return world.receiver.arrivals
    .filter((one) => one.path === path && one.body.type === 'ticket_created')
    .map(({ body }) => body.data.count);
}

/**
 * 200 tickets at once in an organization of their own, how long the first message took, and how
 * long one takes alone.
 */
async function burstOf200() {
  const tenant = await makeTenant(world.db);
  const path = `/hooks/${randomUUID()}`;
  const { id } = await makeDestination(world, tenant.owner_key, { channel: 'webhook', path });
  const arrived = () => world.receiver.arrivals.filter((one) => one.path === path);
  let alone_ms = 0;
  // The first message of a worker pays for its start.
  for (const count of [1, 2]) {
    const asked_at = performance.now();
    await world.call('post', `/v1/notice-destinations/${id}/test`, { key: tenant.owner_key });
    await until(() => arrived().length === count);
    alone_ms = performance.now() - asked_at;
  }
  const began_at = performance.now();
  const ids = await burst(world, tenant.org_id, 200);
  const burst_ms = performance.now() - began_at;
  const { began } = await one<{ began: Date }>(
    world.db,
    'select min(created_at) as began from cost_tickets where org_id = :org_id',
    { org_id: tenant.org_id },
  );
  await until(() => arrived().length > 2);
  const first_ms = Date.parse(arrived()[2]?.at ?? '') - began.getTime();
  return { tenant, path, ids, began_at, burst_ms, first_ms, alone_ms };
}

test('of 200 tickets in a burst the first does not wait for the others, over ten become one message, and each says in which it left', async () => {
  let last = await burstOf200();
  // All parts share this process with the burst: this does not measure the promised second. Of
  // eight seconds, or of ten messages that go alone where the machine is busy.
  const shareOf = ({ first_ms, alone_ms }: typeof last) =>
    first_ms / Math.max(8_000, 10 * alone_ms);
  const share = await leastOf(3, 1, async () => {
    if (shareOf(last) >= 1) last = await burstOf200();
    return shareOf(last);
  });
  expect(share).toBeLessThan(1);
  const { tenant, path, ids, began_at, burst_ms } = last;
  const total = () => countsAt(path).reduce((sum, count) => sum + count, 0);
  await until(() => total() >= 200);
  expect(total()).toBe(200);
  // Ten by themselves and the rest as one for each ten seconds. Where the burst itself takes longer
  // than that, there may be ten by themselves in each.
  const periods = Math.ceil((performance.now() - began_at) / 10_000);
  const most = burst_ms < 10_000 ? 11 + periods : 11 * (periods + 1);
  expect(countsAt(path).length).toBeLessThanOrEqual(most);
  const rows = await many<{ cost_ticket_id: string; status: string }>(
    world.db,
    `select n.cost_ticket_id, m.status from notices n join notice_messages m on m.id = n.message_id
     where n.org_id = :org_id and n.kind = 'ticket_created'`,
    { org_id: tenant.org_id },
  );
  expect(rows.map((row) => row.cost_ticket_id).sort()).toEqual(ids.sort());
  const large = world.receiver.arrivals.find(
    (one) => one.path === path && one.body.data.count > 10,
  );
  expect(large?.body.data.inbox_url).toMatch(/\/approvals$/);
});

test('while a destination is down nothing is lost and one message at a time asks whether it is back', async () => {
  const tenant = await makeTenant(world.db);
  const path = `/hooks/${randomUUID()}`;
  world.receiver.addFault({ path, answer: 'error', status: 503, times: 0 });
  const { id } = await makeDestination(world, tenant.owner_key, { channel: 'webhook', path });
  for (let n = 0; n < 6; n += 1) await makeShort(world, 100, {}, tenant);
  await until(async () => {
    const { failures } = await one<{ failures: number }>(
      world.db,
      'select failures from notice_queues where destination_id = :id',
      { id },
    );
    return failures >= 4;
  });
  expect(countsAt(path)).toEqual([]);
  world.receiver.clearFaults();
  await until(() => countsAt(path).length === 6);
  const { messages } = (
    await world.call('get', `/v1/notice-messages?destination_id=${id}`, { key: tenant.owner_key })
  ).body;
  expect(messages.map((one: { status: string }) => one.status)).toEqual(Array(6).fill('delivered'));
});
