import type { Batches } from '../../../api/ledger/batches';
import { audit } from '../../../domain/ledger/audit';
import { keep } from '../../../domain/ledger/budget-upkeep';
import * as budgets from '../../../domain/ledger/budgets';
import { type Db, many, one } from '../../../domain/sql';
import { makeKeyId } from '../../support/keys';
import {
  makeFundedOrg,
  makeOverdue,
  openLedger,
  reserveBody,
  settleBody,
  TOKEN,
} from '../../support/ledger';
import { makeBudget, ownBody } from './making';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

const LIMIT_MAX = 9_000_000_000_000_000_000n;

/** Puts a raise on record, as an approval does. */
async function raise(id: string, nanos: bigint): Promise<void> {
  await many(
    db,
    `with raised as (update budgets b set raised_nanos = b.raised_nanos + :nanos where b.id = :id returning b.*)
     insert into budget_raises (org_id, budget_id, window_starts_at, budget_window, amount_nanos, cost_ticket_id, decided_by)
     select r.org_id, r.id, r.starts_at, r.budget_window, :nanos, 'ticket_1', 'user_1' from raised r`,
    { id, nanos },
  );
}

test('a raise is of its window: one that begins at the same moment does not have it', async () => {
  const org = await makeFundedOrg(db, 1_000);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 100, { window: 'month' });
  await raise(id, 70n * TOKEN);
  const bounds = await one<{ starts_at: Date }>(
    db,
    'select starts_at from budgets where id = :id',
    { id },
  );
  await budgets.update(db, org_id, id, { window: 'day' });
  // The first of a month: the day begins with the month.
  await many(db, 'update budgets set starts_at = :starts_at where id = :id', { id, ...bounds });
  expect(await budgets.get(db, org_id, id)).toMatchObject({ raised_nanos: 0n });
  expect((await audit(db)).broken).toEqual([]);
  await raise(id, 5n * TOKEN);
  expect(await budgets.update(db, org_id, id, { window: 'month' })).toMatchObject({
    raised_nanos: 70n * TOKEN,
  });
  expect((await audit(db)).broken).toEqual([]);
});

test('limit and raises together allow no more than a limit may be', async () => {
  const org = await makeFundedOrg(db, 1_000);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 1, { limit_nanos: LIMIT_MAX });
  await raise(id, LIMIT_MAX);
  const bodies = [reserveBody(org_id, 5, ownBody()), reserveBody(org_id, 5, ownBody())];
  const rows = await Promise.all(bodies.map((body) => lanes.reserve(body)));
  expect(rows.map(({ code }) => code)).toEqual([null, null]);
  expect(await budgets.get(db, org_id, id)).toMatchObject({
    held_nanos: 10n * TOKEN,
    remaining_nanos: LIMIT_MAX - 10n * TOKEN,
  });
  for (const { reservation_id } of rows)
    expect((await lanes.settle(settleBody(org_id, reservation_id, 3))).code).toBeNull();
  await budgets.update(db, org_id, id, { window: 'day' });
});

test('holds that expire together give their room back once, also in windows that are over', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id, user_id } = org;
  const wide = await makeBudget(db, org, 1_000);
  const own = await makeBudget(db, org, 500, { owner_type: 'user', owner_id: user_id });
  const late: (string | null)[] = [];
  for (let n = 0; n < 20; n++) {
    const who = n % 2 ? { user_id } : {};
    const { reservation_id } = await lanes.reserve(
      reserveBody(org_id, 10, { ...who, ...ownBody() }),
    );
    late.push(reservation_id);
  }
  await budgets.update(db, org_id, own.id, { window: 'day' });
  const kept = await lanes.reserve(reserveBody(org_id, 7, { user_id, ...ownBody() }));
  for (const id of late) await makeOverdue(db, id);
  await many(db, 'select expire_holds(:org_id)', { org_id });
  for (const { id } of [wide, own])
    expect(await budgets.get(db, org_id, id)).toMatchObject({
      held_nanos: 7n * TOKEN,
      spent_nanos: 0n,
    });
  expect((await audit(db)).broken).toEqual([]);
  await lanes.settle(settleBody(org_id, kept.reservation_id, 7));
});

test('the budget of a key that was just made reads no reservation of before', async () => {
  const org = await makeFundedOrg(db, 1_000);
  const { org_id } = org;
  const key_id = await makeKeyId(db, org_id, { token_type: 'gateway' });
  const { id } = await makeBudget(db, org, 100, { owner_type: 'key', owner_id: key_id });
  const { since, made } = await one<{ since: Date; made: Date }>(
    db,
    `select owner_since(b) as since, k.created_at as made from budgets b join tokens k on k.id = b.owner_id where b.id = :id`,
    { id },
  );
  expect(since).toEqual(made);
  const { reservation_id } = await lanes.reserve(reserveBody(org_id, 10, { key_id, ...ownBody() }));
  expect(await budgets.update(db, org_id, id, { window: 'day' })).toMatchObject({
    held_nanos: 10n * TOKEN,
  });
  await lanes.settle(settleBody(org_id, reservation_id, 10));
});

test('housekeeping archives budgets of owners who are gone, and forgets windows that are over', async () => {
  const org = await makeFundedOrg(db, 1_000);
  const { org_id, user_id, team_id } = org;
  const key_id = await makeKeyId(db, org_id, { token_type: 'gateway' });
  const later = await makeKeyId(db, org_id, { token_type: 'gateway' });
  const owners = [
    ['key', key_id],
    ['user', user_id],
    ['team', team_id],
    ['key', later],
    ['organization', org_id],
  ] as const;
  for (const [owner_type, owner_id] of owners)
    await makeBudget(db, org, 100, { owner_type, owner_id });
  await many(db, 'update tokens set revoked_at = clock_timestamp() where id = :key_id', { key_id });
  await many(
    db,
    `update tokens set revoked_at = clock_timestamp() + interval '1 hour' where id = :later`,
    { later },
  );
  await many(
    db,
    'update memberships set archived_at = clock_timestamp() where user_id = :user_id',
    { user_id },
  );
  await many(db, 'update teams set archived_at = clock_timestamp() where id = :team_id', {
    team_id,
  });
  await many(
    db,
    `insert into budget_windows (budget_id, starts_at, ends_at, limit_nanos, raised_nanos, spent_nanos, held_nanos)
     select b.id, now() - interval '60 days', now() - w.age * interval '1 day', 1, 0, 0, w.held from budgets b,
       (values (1, 0), (8, 0), (9, 1)) as w (age, held) where b.org_id = :org_id`,
    { org_id },
  );
  await keep(db);
  const left = await many<{ owner_id: string }>(
    db,
    'select owner_id from budgets where org_id = :org_id and archived_at is null',
    { org_id },
  );
  expect(new Set(left.map(({ owner_id }) => owner_id))).toEqual(new Set([later, org_id]));
  const windows = await many<{ age: number; held_nanos: bigint }>(
    db,
    `select b.owner_id, w.held_nanos, round(extract(epoch from now() - w.ends_at) / 86400)::int as age from budget_windows w
     join budgets b on b.id = w.budget_id where b.org_id = :org_id order by 3`,
    { org_id },
  );
  expect(windows).toHaveLength(4);
  expect(windows.map((row) => [row.age, row.held_nanos])).toEqual([
    [1, 0n],
    [1, 0n],
    [9, 1n],
    [9, 1n],
  ]);
  await many(db, 'delete from budget_windows');
});
