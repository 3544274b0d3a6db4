import type { Batches } from '../../../api/ledger/batches';
import * as reservations from '../../../domain/ledger/reservations';
import { type Db, many } from '../../../domain/sql';
import { makeKeyId } from '../../support/keys';
import {
  credit,
  eventsOf,
  inFlight,
  makeFundedOrg,
  makeOverdue,
  openLedger,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
} from '../../support/ledger';

let db: Db;
let lanes: Batches;
let other: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, other, close } = await openLedger());
});

afterAll(() => close());

const fundedOrg = (tokens: number, columns?: Record<string, unknown>) =>
  makeFundedOrg(db, tokens, columns);

test("a key's budget counts what it spent and what it holds; over it there is no ticket", async () => {
  const org = await fundedOrg(1_000);
  const key_id = await makeKeyId(db, org.org_id, { max_budget_nanos: 100n * TOKEN });
  const rows = await Promise.all(
    Array.from({ length: 5 }, () => lanes.reserve(reserveBody(org.org_id, 40, { key_id }))),
  );
  expect(rows.map((row) => row.code).sort()).toEqual([
    'key_budget_exceeded',
    'key_budget_exceeded',
    'key_budget_exceeded',
    null,
    null,
  ]);
  const held = rows.filter((row) => row.code === null);
  for (const row of held) await lanes.settle(settleBody(org.org_id, row.reservation_id, 30));
  expect((await lanes.reserve(reserveBody(org.org_id, 40, { key_id }))).code).toBeNull();
  expect((await lanes.reserve(reserveBody(org.org_id, 1, { key_id }))).code).toBe(
    'key_budget_exceeded',
  );
  expect(await eventsOf(db, org.org_id, 'cost_ticket.created')).toEqual([]);
});

test('a revoked or expired key is refused by the next reserve; its calls in flight settle', async () => {
  const org = await fundedOrg(1_000);
  const key_id = await makeKeyId(db, org.org_id);
  const hold = await lanes.reserve(reserveBody(org.org_id, 10, { key_id }));
  await many(db, 'update tokens set revoked_at = clock_timestamp() where id = :key_id', { key_id });
  expect((await lanes.reserve(reserveBody(org.org_id, 10, { key_id }))).code).toBe(
    'invalid_credential',
  );
  expect((await lanes.settle(settleBody(org.org_id, hold.reservation_id, 10))).status).toBe(
    'settled',
  );
  const expired = await makeKeyId(db, org.org_id, { expires_at: new Date(Date.now() - 1_000) });
  expect((await lanes.reserve(reserveBody(org.org_id, 10, { key_id: expired }))).code).toBe(
    'invalid_credential',
  );
});

test("another organization's user, team, agent or key in a reserve is refused by name", async () => {
  const org = await fundedOrg(1_000);
  const foreign = await fundedOrg(1_000);
  const key_id = await makeKeyId(db, foreign.org_id);
  const [agent] = await db('agents').insert({ org_id: foreign.org_id, name: 'a' }).returning('id');
  const ids = { user_id: foreign.user_id, team_id: foreign.team_id, agent_id: agent.id, key_id };
  for (const [param, value] of Object.entries(ids)) {
    const row = await lanes.reserve(reserveBody(org.org_id, 1, { [param]: value }));
    expect([row.code, row.param]).toEqual(['not_of_organization', param]);
  }
  expect((await lanes.reserve(reserveBody('org_unknown', 1))).code).toBe('unknown_org');
});

test('a session stops at its actions and at its cost', async () => {
  const org = await fundedOrg(10_000);
  const limited = (tokens: number, session_id: string) =>
    lanes.reserve(
      reserveBody(org.org_id, tokens, {
        session_id,
        session_limits: { max_actions: 3, max_cost_usd: 0.001 },
      }),
    );
  const actions = await Promise.all(Array.from({ length: 5 }, () => limited(1, 'a')));
  expect(actions.filter((row) => row.code === null)).toHaveLength(3);
  expect((await limited(900, 'b')).code).toBeNull();
  expect((await limited(101, 'b')).code).toBe('session_limit_exceeded');
  expect((await limited(100, 'b')).code).toBeNull();
});

test('an extended hold outlives its first deadline, to 24 hours at most, and moves no money', async () => {
  const org = await fundedOrg(100, { reservation_ttl_seconds: 60 });
  const hold = await lanes.reserve(reserveBody(org.org_id, 10));
  await makeOverdue(db, hold.reservation_id);
  const foreign = await fundedOrg(1);
  const asked_at = Date.now();
  const [extended, unknown] = await reservations.extend(db, org.org_id, [
    hold.reservation_id as string,
    'res_unknown',
  ]);
  expect(extended?.status).toBe('extended');
  expect(Number(extended?.expires_at) - asked_at).toBeGreaterThan(59_000);
  expect(unknown?.status).toBe('unknown');
  expect(
    (await reservations.extend(db, foreign.org_id, [hold.reservation_id as string]))[0]?.status,
  ).toBe('unknown');
  await many(
    db,
    `update reservations set created_at = created_at - interval '23 hours 59 minutes 50 seconds', expires_at = clock_timestamp() where id = :id`,
    { id: hold.reservation_id },
  );
  const [capped] = await reservations.extend(db, org.org_id, [hold.reservation_id as string]);
  expect(Number(capped?.expires_at) - Date.now()).toBeLessThan(11_000);
  await lanes.settle(settleBody(org.org_id, hold.reservation_id, 10));
  expect(
    (await reservations.extend(db, org.org_id, [hold.reservation_id as string]))[0]?.status,
  ).toBe('settled');
});

test('a low balance is told once per crossing, not once per request, and again after it rose', async () => {
  const org = await fundedOrg(100, { low_balance_threshold_nanos: 50n * TOKEN });
  const spend = async (tokens: number) => {
    const hold = await lanes.reserve(reserveBody(org.org_id, tokens));
    await lanes.settle(settleBody(org.org_id, hold.reservation_id, tokens));
  };
  const told = async () => (await eventsOf(db, org.org_id, 'wallet.balance_low')).length;
  await lanes.reserve(reserveBody(org.org_id, 30));
  expect(await told()).toBe(0);
  await spend(40);
  expect(await told()).toBe(0);
  for (let n = 0; n < 5; n += 1) await spend(3);
  expect(await told()).toBe(1);
  await credit(db, org.org_id, org.org_wallet, 20n * TOKEN);
  await spend(20);
  expect(await told()).toBe(2);
});

test('two APIs, two organizations, mixed users: no deadlock reaches a caller', async () => {
  const organizations = [await fundedOrg(1_000_000), await fundedOrg(1_000_000)];
  for (const org of organizations) {
    await credit(db, org.org_id, org.user_wallet, 300n * TOKEN);
    await credit(db, org.org_id, org.team_wallet, 300n * TOKEN);
  }
  const calls = Array.from({ length: 1_500 }, (_, n) => async () => {
    const org = organizations[n % 2] as TestOrg;
    const owners = [
      {},
      { user_id: org.user_id },
      { team_id: org.team_id },
      { user_id: org.user_id, team_id: org.team_id },
    ][n % 4];
    const api = n % 3 ? lanes : other;
    const hold = await api.reserve(reserveBody(org.org_id, 7, owners));
    expect(hold.code).toBeNull();
    const row = await (n % 5 ? lanes : other).settle(
      settleBody(org.org_id, hold.reservation_id, 5),
    );
    expect(row.status).toBe('settled');
  });
  await inFlight(64, calls);
});

test('one failing item of a batch does not fail its neighbours', async () => {
  const org = await fundedOrg(1_000);
  const rows = await Promise.all([
    lanes.reserve(reserveBody(org.org_id, 10)),
    lanes.reserve(reserveBody(org.org_id, 10, { model: 'unpriced' })),
    lanes.reserve(
      reserveBody(org.org_id, 10, {
        estimated_prompt_tokens: Number.MAX_SAFE_INTEGER,
        max_completion_tokens: Number.MAX_SAFE_INTEGER,
      }),
    ),
    lanes.reserve(reserveBody(org.org_id, 10)),
  ]);
  expect(rows.map((row) => row.code)).toEqual([null, 'model_not_priced', 'amount_too_large', null]);
});

test('the first hold of an organization wakes its lifetimes workflow once; a nearer deadline wakes it again', async () => {
  const org = await fundedOrg(1_000);
  const messages = async () =>
    (await many(db, 'select signal from outbox where org_id = :org_id', { org_id: org.org_id }))
      .length;
  for (let n = 0; n < 5; n += 1) await lanes.reserve(reserveBody(org.org_id, 1));
  expect(await messages()).toBe(1);
  await many(db, 'update organizations set reservation_ttl_seconds = 5 where id = :org_id', {
    org_id: org.org_id,
  });
  await lanes.reserve(reserveBody(org.org_id, 1));
  await lanes.reserve(reserveBody(org.org_id, 1));
  expect(await messages()).toBe(2);
});
