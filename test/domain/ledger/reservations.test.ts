import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import * as reservations from '../../../domain/ledger/reservations';
import { type Db, many, one } from '../../../domain/sql';
import {
  balance,
  credit,
  eventsOf,
  inFlight,
  makeFundedOrg,
  makeOverdue,
  openLedger,
  reserveBody,
  settleBody,
  TOKEN,
  usage,
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
  const { n: _, ...first } = rows[0] as reservations.ItemAnswer;
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
