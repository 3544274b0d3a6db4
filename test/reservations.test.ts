import { randomUUID } from 'node:crypto';
import { createLanes, type Lanes } from '../api/lanes';
import * as reservations from '../domain/reservations';
import { type Db, many, one } from '../domain/sql';
import { createLog } from '../log';
import { openTestDatabase } from './support/database';
import {
  balance,
  closeClean,
  credit,
  eventsOf,
  inFlight,
  makeKey,
  makeOrg,
  makeOverdue,
  makePrice,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
  usage,
} from './support/ledger';

let db: Db;
let lanes: Lanes;
let other: Lanes;
let close: () => Promise<void>;

beforeAll(async () => {
  const database = await openTestDatabase(20);
  db = database.db;
  const log = createLog('test', 'fatal');
  lanes = createLanes(db, log);
  other = createLanes(db, log);
  close = database.close;
  await makePrice(db);
});

afterAll(async () => {
  await other.close();
  await closeClean(db, lanes, close);
});

async function fundedOrg(tokens: number, columns: Record<string, unknown> = {}): Promise<TestOrg> {
  const org = await makeOrg(db, columns);
  await credit(db, org.org_id, org.org_wallet, BigInt(tokens) * TOKEN);
  return org;
}

test('50 parallel requests on a balance for one: exactly one holds', async () => {
  const org = await fundedOrg(1_000);
  const calls = Array.from(
    { length: 50 },
    (_, n) => () => (n % 2 ? lanes : other).reserve(reserveBody(org.org_id, 1_000)),
  );
  const rows = await inFlight(50, calls);
  expect(rows.filter((row) => row.code === null)).toHaveLength(1);
  expect(rows.filter((row) => row.code === 'insufficient_balance')).toHaveLength(49);
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 0n,
    reserved_nanos: 1_000n * TOKEN,
  });
});

test('a balance exactly equal to the hold is enough', async () => {
  const org = await fundedOrg(10);
  const row = await lanes.reserve(reserveBody(org.org_id, 10));
  expect(row).toMatchObject({
    code: null,
    balance_after_nanos: 0n,
    reserved_amount_nanos: 10n * TOKEN,
  });
});

test('a hold is paid by the first of user, team and organization that covers it, never split', async () => {
  const org = await fundedOrg(100);
  await credit(db, org.org_id, org.user_wallet, 10n * TOKEN);
  await credit(db, org.org_id, org.team_wallet, 50n * TOKEN);
  const owners = { user_id: org.user_id, team_id: org.team_id };
  const paidBy = async (tokens: number) =>
    (await lanes.reserve(reserveBody(org.org_id, tokens, owners))).wallet_owner_type;
  expect([await paidBy(10), await paidBy(11), await paidBy(39), await paidBy(100)]).toEqual([
    'user',
    'team',
    'team',
    'organization',
  ]);
});

test('settle called 1,000 times in parallel on two APIs has one effect and one answer', async () => {
  const org = await fundedOrg(100);
  const hold = await lanes.reserve(reserveBody(org.org_id, 50));
  const calls = Array.from(
    { length: 1_000 },
    (_, n) => () => (n % 2 ? lanes : other).settle(settleBody(org.org_id, hold.reservation_id, 20)),
  );
  const rows = await inFlight(100, calls);
  const { n: _, ...first } = rows[0] as reservations.LaneAnswer;
  for (const { n: __, ...row } of rows) expect(row).toEqual(first);
  expect(first).toMatchObject({
    status: 'settled',
    actual_cost_nanos: 20n * TOKEN,
    released_amount_nanos: 30n * TOKEN,
  });
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 80n * TOKEN,
    reserved_nanos: 0n,
  });
});

test("a wrong settle's refusal is not the answer of the right ones beside it", async () => {
  const org = await fundedOrg(100);
  const hold = await lanes.reserve(reserveBody(org.org_id, 50));
  const settle = (more: object) =>
    lanes.settle(settleBody(org.org_id, hold.reservation_id, 20, more));
  const rows = await Promise.all([settle({ model: 'nope' }), settle({}), settle({})]);
  expect(rows.map((row) => row.code)).toEqual(['price_not_frozen', null, null]);
});

test('settle and expiry at the same instant: one of them releases, and the cost is charged once', async () => {
  const org = await fundedOrg(100_000);
  for (let round = 0; round < 60; round += 1) {
    const before = await balance(db, org.org_wallet);
    const hold = await lanes.reserve(reserveBody(org.org_id, 50));
    await makeOverdue(db, hold.reservation_id);
    const [row] = await Promise.all([
      lanes.settle(settleBody(org.org_id, hold.reservation_id, 20)),
      reservations.sweep(db, org.org_id),
    ]);
    expect(['settled', 'late']).toContain(row.status);
    expect(await balance(db, org.org_wallet)).toEqual({
      ...before,
      balance_nanos: before.balance_nanos - 20n * TOKEN,
    });
  }
});

test('repeating a reserve gives the same hold; another body under its id is refused', async () => {
  const org = await fundedOrg(100);
  const body = reserveBody(org.org_id, 10);
  const first = await lanes.reserve(body);
  const again = await other.reserve({ ...body });
  expect(again.reservation_id).toBe(first.reservation_id);
  expect(again.balance_after_nanos).toBe(first.balance_after_nanos);
  expect((await lanes.reserve({ ...body, estimated_prompt_tokens: 11 })).code).toBe(
    'idempotency_key_reused',
  );
  const parallel = await Promise.all([
    lanes.reserve(reserveBody(org.org_id, 1, { request_id: 'same' })),
    lanes.reserve(reserveBody(org.org_id, 2, { request_id: 'same' })),
  ]);
  expect(parallel.map((row) => row.code)).toEqual([null, 'idempotency_key_reused']);
});

test('a refusal is not stored under its id: the same call holds once there is money', async () => {
  const org = await fundedOrg(1);
  const body = reserveBody(org.org_id, 10);
  const refused = await lanes.reserve(body);
  const again = await lanes.reserve(body);
  expect(again.cost_ticket?.id).toBe(refused.cost_ticket?.id);
  await credit(db, org.org_id, org.org_wallet, 9n * TOKEN);
  expect((await lanes.reserve(body)).code).toBeNull();
});

test('the shortfall of a ticket counts open holds: balance 10, held 8, asked 5: short by 3', async () => {
  const org = await fundedOrg(10);
  await lanes.reserve(reserveBody(org.org_id, 8));
  const { code, cost_ticket } = await lanes.reserve(reserveBody(org.org_id, 5));
  expect(code).toBe('insufficient_balance');
  expect(cost_ticket).toMatchObject({
    estimated_cost_nanos: String(5n * TOKEN),
    balance_nanos: String(2n * TOKEN),
    shortfall_nanos: String(3n * TOKEN),
    status: 'open',
    wallets: [{ wallet_id: org.org_wallet, owner_type: 'organization' }],
  });
  expect(await eventsOf(db, org.org_id, 'cost_ticket.created')).toHaveLength(1);
});

test('equal prompts of different callers open different tickets; a lapsed ticket is not found again', async () => {
  const org = await fundedOrg(1);
  const mine = await lanes.reserve(reserveBody(org.org_id, 5, { user_id: org.user_id }));
  const teams = await lanes.reserve(reserveBody(org.org_id, 5, { team_id: org.team_id }));
  expect(mine.cost_ticket?.id).not.toBe(teams.cost_ticket?.id);
  await many(db, `update cost_tickets set expires_at = clock_timestamp() where id = :id`, {
    id: mine.cost_ticket?.id,
  });
  const later = await lanes.reserve(reserveBody(org.org_id, 5, { user_id: org.user_id }));
  expect(later.cost_ticket?.id).not.toBe(mine.cost_ticket?.id);
  expect(
    await one(db, 'select status from cost_tickets where id = :id', { id: mine.cost_ticket?.id }),
  ).toEqual({ status: 'expired' });
});

test('128k possible output tokens on a small balance give a ticket with the exact shortfall', async () => {
  const org = await fundedOrg(1_000);
  const { cost_ticket } = await lanes.reserve(
    reserveBody(org.org_id, 1_000, { max_completion_tokens: 128_000 }),
  );
  expect(cost_ticket?.shortfall_nanos).toBe(String(256_000n * TOKEN));
});

test('a cost five times the hold is charged in full, other holds stay, and the debt refuses the next hold', async () => {
  const org = await fundedOrg(100);
  const hold = await lanes.reserve(reserveBody(org.org_id, 40));
  const bystander = await lanes.reserve(reserveBody(org.org_id, 40));
  const row = await lanes.settle(settleBody(org.org_id, hold.reservation_id, 200));
  expect(row).toMatchObject({
    actual_cost_nanos: 200n * TOKEN,
    released_amount_nanos: 0n,
    balance_after_nanos: -140n * TOKEN,
  });
  expect((await lanes.reserve(reserveBody(org.org_id, 0))).code).toBe('insufficient_balance');
  expect((await lanes.settle(settleBody(org.org_id, bystander.reservation_id, 40))).status).toBe(
    'settled',
  );
  await credit(db, org.org_id, org.org_wallet, 141n * TOKEN);
  expect((await lanes.reserve(reserveBody(org.org_id, 1))).code).toBeNull();
});

test('after expiry a settle still charges, once, and is marked late', async () => {
  const org = await fundedOrg(100);
  const hold = await lanes.reserve(reserveBody(org.org_id, 50));
  await makeOverdue(db, hold.reservation_id);
  expect(await reservations.sweep(db, org.org_id)).toBeNull();
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 100n * TOKEN,
    reserved_nanos: 0n,
  });
  const late = await lanes.settle(settleBody(org.org_id, hold.reservation_id, 30));
  const again = await lanes.settle(settleBody(org.org_id, hold.reservation_id, 10));
  expect(late).toMatchObject({
    status: 'late',
    actual_cost_nanos: 30n * TOKEN,
    released_amount_nanos: 0n,
  });
  expect(again).toMatchObject({
    status: 'late',
    actual_cost_nanos: 30n * TOKEN,
    transaction_id: late.transaction_id,
  });
  expect(await eventsOf(db, org.org_id, 'reservation.expired')).toHaveLength(1);
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 70n * TOKEN,
    reserved_nanos: 0n,
  });
});

test('overdue holds are given back before a reserve is refused for want of them', async () => {
  const org = await fundedOrg(10);
  const hold = await lanes.reserve(reserveBody(org.org_id, 10));
  await makeOverdue(db, hold.reservation_id);
  expect((await lanes.reserve(reserveBody(org.org_id, 10))).code).toBeNull();
});

test('a canceled request_id can never hold; a hold that was canceled gives everything back', async () => {
  const org = await fundedOrg(10);
  const body = reserveBody(org.org_id, 5);
  const cancel = {
    org_id: org.org_id,
    request_id: body.request_id,
    outcome: 'canceled' as const,
    usage: usage({}),
  };
  expect(await lanes.settle(cancel)).toMatchObject({
    code: null,
    status: 'released',
    reservation_id: null,
  });
  expect((await lanes.reserve(body)).code).toBe('request_canceled');
  expect(await lanes.settle(cancel)).toMatchObject({ code: null, status: 'released' });
  const held = reserveBody(org.org_id, 5);
  await lanes.reserve(held);
  expect(await lanes.settle({ ...cancel, request_id: held.request_id })).toMatchObject({
    status: 'released',
    released_amount_nanos: 5n * TOKEN,
  });
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 10n * TOKEN,
    reserved_nanos: 0n,
  });
});

test('canceling for an unknown organization leaves nothing behind', async () => {
  const cancel = { org_id: 'org_unknown', request_id: randomUUID(), outcome: 'canceled' as const };
  expect((await lanes.settle({ ...cancel, usage: usage({}) })).code).toBe('not_found');
});

test('a wallet filled to its bound while a hold is open still takes the hold back', async () => {
  const org = await fundedOrg(10);
  const hold = await lanes.reserve(reserveBody(org.org_id, 10));
  const most = 9_000_000_000_000_000_000n;
  await expect(credit(db, org.org_id, org.org_wallet, most)).rejects.toMatchObject({
    constraint: 'wallets_bound',
  });
  await credit(db, org.org_id, org.org_wallet, most - 10n * TOKEN);
  const row = await lanes.settle(
    settleBody(org.org_id, hold.reservation_id, 0, { outcome: 'failed' }),
  );
  expect(row).toMatchObject({ status: 'released', balance_after_nanos: most });
});

test("a rejected hold and another organization's hold cannot be settled", async () => {
  const org = await fundedOrg(10);
  const foreign = await fundedOrg(10);
  const hold = await lanes.reserve(reserveBody(org.org_id, 5));
  expect((await lanes.settle(settleBody(foreign.org_id, hold.reservation_id, 5))).code).toBe(
    'not_found',
  );
  expect((await lanes.settle(settleBody(org.org_id, 'res_unknown', 5))).code).toBe('not_found');
});

test('a price changed or deleted in flight: settled at the price frozen in the reservation', async () => {
  const model = randomUUID();
  const org = await fundedOrg(1_000);
  await makePrice(db, { model });
  const hold = await lanes.reserve(reserveBody(org.org_id, 100, { model }));
  await many(db, 'update model_prices set retired_at = clock_timestamp() where model = :model', {
    model,
  });
  expect((await lanes.reserve(reserveBody(org.org_id, 100, { model }))).code).toBe(
    'model_not_priced',
  );
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100))).actual_cost_nanos,
  ).toBe(100n * TOKEN);
});

test('an unpriced model, dated name or prefix is refused; a pattern covers what it says and the longest wins', async () => {
  const org = await fundedOrg(1_000);
  await makePrice(db, { model: 'claude-*', input_per_1m: 3 });
  await makePrice(db, { model: 'claude-sonnet-*', input_per_1m: 5 });
  await makePrice(db, { model: 'claude-sonnet-4', input_per_1m: 7 });
  const held = async (model: string) => {
    const row = await lanes.reserve(reserveBody(org.org_id, 1, { model }));
    return row.code ?? row.reserved_amount_nanos;
  };
  expect(await held('gpt-4o-mini-2024-07-18')).toBe('model_not_priced');
  expect(await held('gpt-4o')).toBe('model_not_priced');
  expect(await held('claude-opus')).toBe(3n * TOKEN);
  expect(await held('claude-sonnet-4-5')).toBe(5n * TOKEN);
  expect(await held('claude-sonnet-4')).toBe(7n * TOKEN);
});

test('the dearest of the candidates is held, and settle charges the one that answered', async () => {
  const org = await fundedOrg(1_000);
  const model = randomUUID();
  await makePrice(db, { model, input_per_1m: 4 });
  const fallbacks = [{ provider: 'openai', model }];
  const hold = await lanes.reserve(reserveBody(org.org_id, 10, { fallbacks }));
  expect(hold.reserved_amount_nanos).toBe(40n * TOKEN);
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 10, { model: 'other' }))).code,
  ).toBe('price_not_frozen');
  expect(
    (
      await lanes.settle(
        settleBody(org.org_id, hold.reservation_id, 10, { provider: 'openai', model }),
      )
    ).actual_cost_nanos,
  ).toBe(40n * TOKEN);
  expect(
    (
      await lanes.reserve(
        reserveBody(org.org_id, 1, { fallbacks: [{ provider: 'openai', model: 'none' }] }),
      )
    ).code,
  ).toBe('model_not_priced');
});

test('each kind of token is priced once, at its own price; a tier applies to the whole request', async () => {
  const org = await fundedOrg(1_000_000);
  const model = randomUUID();
  await makePrice(db, {
    model,
    input_per_1m: 10,
    output_per_1m: 20,
    cached_input_per_1m: 1,
    cache_write_per_1m: 12,
    cache_write_1h_per_1m: 16,
    audio_input_per_1m: 100,
    audio_output_per_1m: 200,
    per_minute: 0.6,
    per_1m_characters: 30,
    per_request: 0.001,
    per_tool_call: 0.01,
    tiers: JSON.stringify([{ above_prompt_tokens: 1_000, input_per_1m: 11, output_per_1m: 21 }]),
  });
  const cost = async (counts: Partial<reservations.Usage>) => {
    const hold = await lanes.reserve(reserveBody(org.org_id, 10, { model }));
    return (
      await lanes.settle(settleBody(org.org_id, hold.reservation_id, 0, { usage: usage(counts) }))
    ).actual_cost_nanos;
  };
  const request = 1_000_000n;
  expect(
    await cost({
      prompt_tokens: 100,
      cached_tokens: 40,
      completion_tokens: 10,
      reasoning_tokens: 5,
    }),
  ).toBe(request + 60_0000n + 4_0000n + 20_0000n);
  expect(
    await cost({
      prompt_tokens: 100,
      cache_write_tokens: 10,
      cache_write_1h_tokens: 10,
      audio_input_tokens: 10,
    }),
  ).toBe(request + 70_0000n + 12_0000n + 16_0000n + 100_0000n);
  expect(await cost({ completion_tokens: 10, audio_output_tokens: 4 })).toBe(
    request + 12_0000n + 80_0000n,
  );
  expect(await cost({ seconds: 30, characters: 1_000, tool_calls: 2 })).toBe(
    request + 300_000_000n + 30_000_000n + 20_000_000n,
  );
  expect(await cost({ prompt_tokens: 1_001, completion_tokens: 1 })).toBe(
    request + 11_011_000n + 21_000n,
  );
  expect(await cost({ prompt_tokens: 1_000, completion_tokens: 1 })).toBe(
    request + 10_000_000n + 20_000n,
  );
});

test('what failed before any use is not charged, not even the price per request', async () => {
  const org = await fundedOrg(1_000_000);
  const model = randomUUID();
  await makePrice(db, { model, per_request: 0.001 });
  const hold = await lanes.reserve(reserveBody(org.org_id, 10, { model }));
  const row = await lanes.settle(
    settleBody(org.org_id, hold.reservation_id, 0, { outcome: 'failed' }),
  );
  expect(row).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

test('10,000 requests of 0.0004 cost 4.00 exactly', async () => {
  const org = await fundedOrg(0);
  await credit(db, org.org_id, org.org_wallet, 5_000_000_000n);
  const calls = Array.from({ length: 10_000 }, () => async () => {
    const hold = await lanes.reserve(reserveBody(org.org_id, 400));
    await lanes.settle(settleBody(org.org_id, hold.reservation_id, 400));
  });
  await inFlight(64, calls);
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 1_000_000_000n,
    reserved_nanos: 0n,
  });
});

test('a five-token embedding at 0.02 per million costs exactly 100 nanos; halves round up once', async () => {
  const org = await fundedOrg(1_000);
  const model = randomUUID();
  await makePrice(db, { model, input_per_1m: 0.02, output_per_1m: 0.0005 });
  const hold = await lanes.reserve(reserveBody(org.org_id, 5, { model }));
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 5))).actual_cost_nanos,
  ).toBe(100n);
  const half = await lanes.reserve(reserveBody(org.org_id, 5, { model }));
  const row = await lanes.settle(
    settleBody(org.org_id, half.reservation_id, 0, { usage: usage({ completion_tokens: 1 }) }),
  );
  expect(row.actual_cost_nanos).toBe(1n);
});

test('a wallet in another currency pays at the rate of its reserve; without a rate nothing is held', async () => {
  const org = await makeOrg(db, { currency: 'EUR' });
  await credit(db, org.org_id, org.org_wallet, 1_000n * TOKEN);
  expect((await lanes.reserve(reserveBody(org.org_id, 100))).code).toBe('exchange_rate_missing');
  await db('exchange_rates').insert({ currency: 'EUR', rate: 0.5, updated_at: new Date() });
  const hold = await lanes.reserve(reserveBody(org.org_id, 100));
  expect(hold).toMatchObject({ reserved_amount_nanos: 50n * TOKEN, currency: 'EUR' });
  await many(db, `update exchange_rates set rate = 2 where currency = 'EUR'`);
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100))).actual_cost_nanos,
  ).toBe(50n * TOKEN);
});

test('the buffer is held on top of the estimate and given back', async () => {
  const org = await fundedOrg(1_000, { reserve_buffer_pct: 25 });
  const hold = await lanes.reserve(reserveBody(org.org_id, 100));
  expect(hold).toMatchObject({
    estimated_cost_nanos: 100n * TOKEN,
    reserved_amount_nanos: 125n * TOKEN,
  });
  expect(
    (await lanes.settle(settleBody(org.org_id, hold.reservation_id, 100))).released_amount_nanos,
  ).toBe(25n * TOKEN);
});

test("a key's budget counts what it spent and what it holds; over it there is no ticket", async () => {
  const org = await fundedOrg(1_000);
  const key_id = await makeKey(db, org.org_id, { max_budget_nanos: 100n * TOKEN });
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
  const key_id = await makeKey(db, org.org_id);
  const hold = await lanes.reserve(reserveBody(org.org_id, 10, { key_id }));
  await many(db, 'update tokens set revoked_at = clock_timestamp() where id = :key_id', { key_id });
  expect((await lanes.reserve(reserveBody(org.org_id, 10, { key_id }))).code).toBe(
    'invalid_credential',
  );
  expect((await lanes.settle(settleBody(org.org_id, hold.reservation_id, 10))).status).toBe(
    'settled',
  );
  const expired = await makeKey(db, org.org_id, { expires_at: new Date(Date.now() - 1_000) });
  expect((await lanes.reserve(reserveBody(org.org_id, 10, { key_id: expired }))).code).toBe(
    'invalid_credential',
  );
});

test("another organization's user, team, agent or key in a reserve is refused by name", async () => {
  const org = await fundedOrg(1_000);
  const foreign = await fundedOrg(1_000);
  const key_id = await makeKey(db, foreign.org_id);
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
  const [extended, unknown] = await reservations.extend(db, org.org_id, [
    hold.reservation_id as string,
    'res_unknown',
  ]);
  expect(extended?.status).toBe('extended');
  expect(Number(extended?.expires_at) - Date.now()).toBeGreaterThan(50_000);
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
