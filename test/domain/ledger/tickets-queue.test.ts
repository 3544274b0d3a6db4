import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import * as tickets from '../../../domain/ledger/tickets';
import * as verdicts from '../../../domain/ledger/verdicts';
import { many } from '../../../domain/sql';
import { makeTenant, serve, type Tenant } from '../../support/api';
import { leastOf } from '../../support/cpu';
import { makeKeyId } from '../../support/keys';
import { balance, credit, TOKEN } from '../../support/ledger';
import { type Random, randomOf, seed } from '../../support/random';
import {
  areWaiting,
  bodyHash,
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
  topUp,
  withLongGrace,
} from '../../support/tickets';
import { until } from '../../support/until';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

async function waitersOf({ org_id }: Tenant): Promise<number> {
  const [row] = await many<{ count: number }>(
    world.db,
    `select count(*)::int as count from ticket_waiters
     where org_id = :org_id and answer is null and until > clock_timestamp()`,
    { org_id },
  );
  return row?.count ?? 0;
}

/**
 * Calls that join the queue, so many at once, in turn at the two APIs; each answer is noted. False
 * as `are_waiting` if a wait was over before all had joined.
 */
async function queueUp(tenant: Tenant, shorts: Short[], wait_ms: number, at_once = 1) {
  const paid = new Map<number, string>();
  const answers: Promise<unknown>[] = [];
  let is_over = false;
  for (const [n, short] of shorts.entries()) {
    const call = n % 2 ? world.other : world.call;
    const answer = redeem(call, world.machine, short, { wait_ms });
    answers.push(answer);
    void answer.then(({ status, body }) => {
      is_over = true;
      if (status === 200) paid.set(n, body.reservation_id);
    });
    if ((n + 1) % at_once > 0) continue;
    await until(async () => is_over || (await waitersOf(tenant)) === n + 1);
  }
  return { paid, all: Promise.all(answers), are_waiting: !is_over };
}

/** The calls that wait by their request ids, the oldest first. */
async function queueOf({ org_id }: Tenant): Promise<string[]> {
  const rows = await many<{ request_id: string }>(
    world.db,
    'select request_id from ticket_waiters where org_id = :org_id order by since, request_id',
    { org_id },
  );
  return rows.map(({ request_id }) => request_id);
}

/** Some milliseconds, so that every order of the rivals comes up. */
const soon = (random: Random) => sleep(random() * 12);

const numbers = (length: number) => Array.from({ length }, (_, n) => n);

test.each([
  ['with bodies of their own', () => bodyHash()],
  ['with one body, and so one ticket after the other', () => `sha256:${'c'.repeat(64)}`],
])(
  'a credit for 30 of 100 waiting calls %s lets exactly the 30 oldest through',
  async (_, hash) => {
    const tenant = await makeTenant(world.db);
    const shorts: Short[] = [];
    for (const _n of numbers(100)) {
      shorts.push(await makeShort(world, 10, { request_body_hash: hash() }, tenant));
    }
    // One after the other they take longer on a busy machine than any of them waits.
    const { paid, all } = await queueUp(tenant, shorts, 30_000, 10);
    const queue = await queueOf(tenant);
    expect(queue).toHaveLength(100);
    await topUp(world.call, tenant, 300);
    await until(() => paid.size === 30);
    const served = [...paid.keys()].map((n) => shorts[n]?.request_id);
    expect(served.sort()).toEqual(queue.slice(0, 30).sort());
    expect(new Set(paid.values()).size).toBe(30);
    expect(await waitersOf(tenant)).toBe(70);
    expect(await balance(world.db, tenant.wallet_id)).toEqual({
      balance_nanos: 0n,
      reserved_nanos: 300n * TOKEN,
    });
    await topUp(world.call, tenant, 700);
    await all;
    expect(paid.size).toBe(100);
  },
);

test('a call that money does not cover closes its wallets to younger ones; one refused for its key blocks nobody', async () => {
  const { db, call } = world;
  const tenant = await makeTenant(db);
  const key_id = await makeKeyId(db, tenant.org_id, { max_budget_nanos: 1_000n * TOKEN });
  const user = { user_id: tenant.member_id };
  const capless = await makeShort(world, 100, { key_id }, tenant);
  const large = await makeShort(world, 90, {}, tenant);
  const small = await makeShort(world, 10, user, tenant);
  const { paid } = await queueUp(tenant, [capless, large, small], 30_000);
  await topUp(call, tenant, 80);
  expect((await show(call, small)).status).toBe('open');
  expect(paid.size).toBe(0);
  // The young call has a wallet that no older one may use.
  const [wallet] = (await show(call, small)).wallets;
  await credit(db, tenant.org_id, wallet.wallet_id, 10n * TOKEN);
  await until(() => paid.has(2));
  await many(db, 'update tokens set max_budget_nanos = 0 where id = :key_id', { key_id });
  await topUp(call, tenant, 20);
  await until(() => paid.has(1));
  expect([...paid.keys()].sort()).toEqual([1, 2]);
});

test('redeem, expiry, approval, denial and credit at the same instant: one outcome each, 1,000 rounds', async () => {
  const { db } = world;
  const valid_until = new Date(Date.now() + 3_600_000).toISOString();
  const outcomes = new Map<string, number>();
  const round = async (tenant: Tenant, random: Random) => {
    // Whatever earlier rounds have left is 10 too little.
    const { balance_nanos } = await balance(db, tenant.wallet_id);
    const short = await makeShort(world, Number(balance_nanos / TOKEN) + 10, {}, tenant);
    const { ticket_id, org_id } = short;
    const verdict = { ticket_id, org_id, by: 'test', is_platform: false, valid_until };
    const lapses = random() < 0.5;
    const expire = () =>
      many(
        db,
        `update cost_tickets set expires_at = clock_timestamp() where id = :ticket_id and status = 'open' and :lapses`,
        { ticket_id, lapses },
      ).then(() => tickets.expire(db, ticket_id));
    const [redeemed, approved, denied] = await Promise.allSettled([
      redeem(world.call, world.machine, short).then(({ status }) => {
        if (status !== 200) throw new Error(String(status));
      }),
      soon(random).then(() => verdicts.decide(db, { ...verdict, verdict: 'approved' })),
      soon(random).then(() => verdicts.decide(db, { ...verdict, verdict: 'denied' })),
      soon(random).then(expire),
      random() < 0.3 ? credit(db, org_id, tenant.wallet_id, 10n * TOKEN) : undefined,
    ]);
    const { status } = await show(world.call, short);
    outcomes.set(status, (outcomes.get(status) ?? 0) + 1);
    const is = (settled: PromiseSettledResult<unknown>) => settled.status === 'fulfilled';
    expect({ status, denied: is(denied) }).toEqual({ status, denied: status === 'denied' });
    if (status === 'redeemed') expect(is(redeemed)).toBe(true);
    if (status === 'approved') expect([is(approved), is(redeemed)]).toEqual([true, false]);
    if (status === 'expired' || status === 'denied') expect(is(redeemed)).toBe(false);
    if (is(redeemed) || is(approved)) {
      const body = { org_id, request_id: short.request_id, outcome: 'canceled' };
      await world.call('post', '/v1/gateway/wallets/settle', { key: world.machine, body });
    }
  };
  const rounds = async (lane: number) => {
    const random = randomOf(seed + lane);
    const tenant = await makeTenant(db);
    for (const _n of numbers(250)) await round(tenant, random);
  };
  await Promise.all(numbers(4).map(rounds));
  expect([...outcomes.keys()].sort()).toEqual(['approved', 'denied', 'expired', 'redeemed']);
}, 900_000);

test('a call between two waits keeps its place for a moment, and gets nothing while it is away', async () => {
  const { call, db, machine } = world;
  const tenant = await makeTenant(db);
  const first = await makeShort(world, 10, {}, tenant);
  const second = await makeShort(world, 10, {}, tenant);
  await withLongGrace(db, async () => {
    let queued = await queueUp(tenant, [first, second], 3_000);
    await queued.all;
    if (!queued.are_waiting) {
      await many(db, 'delete from ticket_waiters where org_id = :org_id', {
        org_id: tenant.org_id,
      });
      queued = await queueUp(tenant, [first, second], 20_000);
      await queued.all;
    }
    const late = redeem(call, machine, second, { wait_ms: 30_000 });
    await until(async () => (await waitersOf(tenant)) === 1);
    // The moment begins here, however long ago the wait was over.
    const { org_id, request_id } = first;
    await many(
      db,
      'update ticket_waiters set until = clock_timestamp() where org_id = :org_id and request_id = :request_id',
      { org_id, request_id },
    );
    await topUp(call, tenant, 10);
    expect((await redeem(call, machine, first, { wait_ms: 1_000 })).status).toBe(200);
    await topUp(call, tenant, 10);
    expect((await late).status).toBe(200);
    expect(queued.paid.size).toBe(0);
  });
});

test('an API that stops answers its waiting calls, which go on waiting at another', async () => {
  const { db, machine, call } = world;
  const short = await makeShort(world, 10);
  const api = await serve({ db });
  const first = redeem(api.call, machine, short, { wait_ms: 30_000 });
  await until(async () => (await waitersOf(short)) === 1);
  const closing = api.close();
  expect((await first).status).toBe(402);
  await closing;
  const second = redeem(call, machine, short, { wait_ms: 30_000 });
  await topUp(call, short, 10);
  expect((await second).status).toBe(200);
});

test('a wait costs no database connection', async () => {
  const { call, db, machine } = world;
  const wait = async (wait_ms: number) => {
    const short = await makeShort(world, 10);
    const calls = numbers(200).map(() =>
      redeem(call, machine, { ...short, request_id: randomUUID() }, { wait_ms }),
    );
    return { calls, are_waiting: await areWaiting(call, short, calls) };
  };
  const brief = await wait(4_000);
  const { calls } = brief.are_waiting ? brief : await wait(30_000);
  // A look for money now and then takes one for a moment.
  const used = await leastOf(20, 5, async () => {
    const [row] = await many<{ count: number }>(
      db,
      `select count(*)::int as count from pg_stat_activity
       where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()`,
    );
    return row?.count ?? 0;
  });
  expect(used).toBeLessThan(5);
  expect((await Promise.all(calls)).every(({ status }) => status === 402)).toBe(true);
});
