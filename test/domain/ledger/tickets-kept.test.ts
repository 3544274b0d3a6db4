import { randomUUID } from 'node:crypto';
import * as rules from '../../../domain/ledger/approval-rules';
import { many, one } from '../../../domain/sql';
import { makeTenant, refusal } from '../../support/api';
import { balance, reserveBody, TOKEN } from '../../support/ledger';
import {
  approve,
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
  topUp,
} from '../../support/tickets';
import { until } from '../../support/until';

// Money that is kept for calls that wait, and holds that find their calls.

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

const untilWaiting = (short: Short, calls: number) =>
  until(async () => (await show(world.call, short)).waiting_calls === calls);

async function keptOf(wallet_id: string): Promise<bigint> {
  const sql = 'select kept_nanos from wallets where id = :wallet_id';
  return (await one<{ kept_nanos: bigint }>(world.db, sql, { wallet_id })).kept_nanos;
}

test('a rule takes no money that is kept for an older call', async () => {
  const { call, db, machine } = world;
  const tenant = await makeTenant(db);
  const old = await makeShort(world, 10, {}, tenant);
  const waits = redeem(call, machine, old, { wait_ms: 30_000 });
  await untilWaiting(old, 1);
  await topUp(call, tenant, 5);
  await rules.create(db, {
    org_id: tenant.org_id,
    name: 'Small calls',
    team_id: null,
    max_per_call_nanos: TOKEN,
    max_per_day_nanos: 100n * TOKEN,
    source: 'organization',
    created_by: 'test',
  });
  // Refused with 402, although the wallet's balance would cover it.
  await makeShort(world, 1, {}, tenant);
  expect(await keptOf(tenant.wallet_id)).toBe(5n * TOKEN);
  await topUp(call, tenant, 5);
  expect((await waits).status).toBe(200);
  // What nobody waits for is the rule's.
  await topUp(call, tenant, 1);
  const body = reserveBody(tenant.org_id, 1);
  expect((await call('post', '/v1/gateway/wallets/reserve', { key: machine, body })).status).toBe(
    200,
  );
});

test("a person's approval takes what lies beside the kept money first", async () => {
  const { call, db, machine } = world;
  const tenant = await makeTenant(db);
  await topUp(call, tenant, 4);
  const old = await makeShort(world, 13, {}, tenant);
  const waits = redeem(call, machine, old, { wait_ms: 30_000 });
  await untilWaiting(old, 1);
  await topUp(call, tenant, 8);
  expect(await keptOf(tenant.wallet_id)).toBe(8n * TOKEN);
  const young = await makeShort(world, 5, {}, tenant);
  expect((await approve(call, young)).status).toBe(200);
  expect(await balance(db, tenant.wallet_id)).toMatchObject({ balance_nanos: 7n * TOKEN });
  expect(await keptOf(tenant.wallet_id)).toBe(7n * TOKEN);
  await topUp(call, tenant, 6);
  expect((await waits).status).toBe(200);
});

test('a call that was moved to another ticket finds its hold by the one that it came with', async () => {
  const { call, machine } = world;
  const short = await makeShort(world, 10);
  const moved = { ...short, request_id: randomUUID() };
  const first = redeem(call, machine, short, { wait_ms: 30_000 });
  await untilWaiting(short, 1);
  const second = redeem(call, machine, moved, { wait_ms: 30_000 });
  await untilWaiting(short, 2);
  await topUp(call, short, 10);
  expect((await first).status).toBe(200);
  await topUp(call, short, 10);
  const { status, body } = await second;
  expect(status).toBe(200);
  // Its gateway knows the first ticket alone.
  const again = await redeem(call, machine, moved);
  expect([again.status, again.body.reservation_id]).toEqual([200, body.reservation_id]);
  const brought = await redeem(call, machine, moved, { is_brought: true });
  expect(refusal(brought)).toMatchObject({ status: 422, code: 'idempotency_key_reused' });
});

test('a second redeem of one call takes the place of the first, and is woken by money', async () => {
  const { call, machine } = world;
  const short = await makeShort(world, 10);
  const first = redeem(call, machine, short, { wait_ms: 30_000 });
  await untilWaiting(short, 1);
  const second = redeem(call, machine, short, { wait_ms: 30_000 });
  expect((await first).status).toBe(402);
  await topUp(call, short, 10);
  // Before its own wait is over.
  await until(async () => (await show(call, short)).status === 'redeemed');
  expect((await second).status).toBe(200);
});

test('a hold of an approval is extended for a day from when its call took it', async () => {
  const { call, db, machine } = world;
  const short = await makeShort(world, 10);
  const { org_id } = short;
  await approve(call, short);
  const { reservation_id } = (await redeem(call, machine, short)).body;
  await topUp(call, short, 10);
  const body = reserveBody(org_id, 10);
  const plain = await call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
  const ids = [reservation_id, plain.body.reservation_id];
  await many(
    db,
    `update reservations set created_at = created_at - interval '25 hours', expires_at = clock_timestamp() + interval '1 minute'
     where id = any (:ids)`,
    { ids },
  );
  const ends = () =>
    db('reservations')
      .whereIn('id', ids)
      .orderByRaw('id = ? desc', reservation_id)
      .pluck('expires_at');
  const before = await ends();
  const items = ids.map((id) => ({ org_id, reservation_id: id }));
  await call('post', '/v1/gateway/wallets/extend', { key: machine, body: { items } });
  const after = await ends();
  expect(after.map((end, n) => end > before[n])).toEqual([true, false]);
});
