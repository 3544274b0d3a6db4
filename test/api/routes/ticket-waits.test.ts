import { refusal } from '../../support/api';
import { balance } from '../../support/ledger';
import {
  areWaiting,
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
  topUp,
} from '../../support/tickets';
import { until } from '../../support/until';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

const waiting = (short: Short, more: object = {}) =>
  redeem(world.call, world.machine, short, { wait_ms: 30_000, ...more });

/** Until so many calls wait on a ticket. */
const untilWaiting = (short: Short, calls = 1) =>
  until(async () => (await show(world.call, short)).waiting_calls === calls);

test('a credit on one API wakes the call that waits at the other, and not only at its end', async () => {
  const { call, other, machine } = world;
  const short = await makeShort(world, 10);
  const answer = redeem(other, machine, short, { wait_ms: 30_000 });
  await untilWaiting(short);
  const started_at = performance.now();
  await topUp(call, short, 10);
  expect((await answer).status).toBe(200);
  expect(performance.now() - started_at).toBeLessThan(25_000);
  expect(await show(call, short)).toMatchObject({
    status: 'redeemed',
    request_id: short.request_id,
    shortfall: 0,
  });
});

test('a waiting call that is canceled gets nothing, and its ticket stays for the next', async () => {
  const { call, machine } = world;
  const wait = async (wait_ms: number) => {
    const waiter = await makeShort(world, 10);
    const answered = waiting(waiter, { wait_ms });
    return { waiter, answered, is_waiting: await areWaiting(call, waiter, [answered]) };
  };
  const brief = await wait(3_000);
  const { waiter: short, answered: answer } = brief.is_waiting ? brief : await wait(30_000);
  const { org_id, request_id } = short;
  const cancel = { org_id, request_id, outcome: 'canceled' };
  await call('post', '/v1/gateway/wallets/settle', { key: machine, body: cancel });
  await topUp(call, short, 10);
  expect(refusal(await answer)).toMatchObject({ status: 409, code: 'request_canceled' });
  expect((await show(call, short)).status).toBe('open');
  expect((await redeem(call, machine, { ...short, request_id: 'next' })).status).toBe(200);
});

test('a wait ends with 402 and the numbers of its end, and no hold is made for a call that has left', async () => {
  const { db, call, machine } = world;
  const waited = async (wait_ms: number) => {
    const poor = await makeShort(world, 10);
    const started_at = performance.now();
    const answer = waiting(poor, { wait_ms });
    await topUp(call, poor, 4);
    const is_in_time = performance.now() - started_at < wait_ms;
    const { cost_ticket } = (await answer).body;
    expect(performance.now() - started_at).toBeGreaterThanOrEqual(wait_ms - 10);
    return { short: poor, cost_ticket, is_in_time };
  };
  const brief = await waited(500);
  // On a busy machine the money may come when a brief wait is over.
  const { short, cost_ticket } = brief.is_in_time ? brief : await waited(15_000);
  expect(cost_ticket).toMatchObject({ shortfall: 0.000_006 });
  await topUp(call, short, 6);
  expect(await balance(db, short.wallet_id)).toMatchObject({ reserved_nanos: 0n });
  expect((await redeem(call, machine, short)).status).toBe(200);
});
