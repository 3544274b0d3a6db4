import { randomUUID } from 'node:crypto';
import { many, one } from '../../domain/sql';
import { makeTenant, type Tenant } from '../support/api';
import { reserveBody } from '../support/ledger';
import { bodyHash, makeShort } from '../support/tickets';
import { until } from '../support/until';
import { makeDestination, type NoticeWorld, openNoticeWorld, present } from './world';

let world: NoticeWorld;
beforeAll(async () => {
  world = await openNoticeWorld();
});
afterAll(() => world.close());

/** So many reserves that nothing covers, each with a ticket of its own. */
async function burst({ org_id }: Tenant, count: number): Promise<string[]> {
  const ids: string[] = [];
  const most = 50;
  const worker = async () => {
    while (ids.length < count) {
      const place = ids.push('') - 1;
      const body = { ...reserveBody(org_id, 100), request_body_hash: bodyHash() };
      const answer = await world.call('post', '/v1/gateway/wallets/reserve', {
        key: world.machine,
        body,
      });
      ids[place] = answer.body.cost_ticket.id;
    }
  };
  await Promise.all(Array.from({ length: most }, worker));
  return ids;
}

/** How many tickets each message that arrived at a path carries. */
function countsAt(path: string): number[] {
  return world.receiver.arrivals
    .filter((one) => one.path === path && one.body.type === 'ticket_created')
    .map(({ body }) => body.data.count);
}

test('of 200 tickets in a burst the first is told of at once, over ten become one message, and each says in which it left', async () => {
  await many(world.db, `update organizations set ticket_ttl_seconds = 86400`);
  const tenant = await makeTenant(world.db);
  const path = `/hooks/${randomUUID()}`;
  await makeDestination(world, tenant.owner_key, { channel: 'webhook', path });
  const began = Date.now();
  const bursting = burst(tenant, 200);
  await present(() => countsAt(path)[0]);
  expect(Date.now() - began).toBeLessThan(1_500);
  const ids = await bursting;
  const total = () => countsAt(path).reduce((sum, count) => sum + count, 0);
  await until(() => total() >= 200, 40_000);
  expect(total()).toBe(200);
  expect(countsAt(path).length).toBeLessThanOrEqual(12);
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
  await until(() => countsAt(path).length === 6, 30_000);
  const { messages } = (
    await world.call('get', `/v1/notice-messages?destination_id=${id}`, { key: tenant.owner_key })
  ).body;
  expect(messages.map((one: { status: string }) => one.status)).toEqual(Array(6).fill('delivered'));
});
