import type { Batches } from '../../../api/ledger/batches';
import * as budgets from '../../../domain/ledger/budgets';
import { type Db, many, one } from '../../../domain/sql';
import { makeFundedOrg, openLedger, reserveBody, settleBody, TOKEN } from '../../support/ledger';
import { makeBudget, ownBody } from './making';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

test('a budget that is changed to its life has what was held and spent since its making', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const early = await lanes.reserve(reserveBody(org_id, 5, ownBody()));
  await lanes.settle(settleBody(org_id, early.reservation_id, 5));
  const { id, created_at } = await makeBudget(db, org, 1_000);
  const spent = await lanes.reserve(reserveBody(org_id, 30, ownBody()));
  await lanes.settle(settleBody(org_id, spent.reservation_id, 25));
  const open = await lanes.reserve(reserveBody(org_id, 40, ownBody()));
  const life = { spent_nanos: 25n * TOKEN, held_nanos: 40n * TOKEN, starts_at: created_at };
  for (const window of ['life', 'day', 'life'] as const)
    expect(await budgets.update(db, org_id, id, { window })).toMatchObject(
      window === 'life' ? life : { spent_nanos: 30n * TOKEN, held_nanos: 40n * TOKEN },
    );
  await lanes.settle(settleBody(org_id, open.reservation_id, 10));
  expect(await budgets.get(db, org_id, id)).toMatchObject({
    spent_nanos: 35n * TOKEN,
    held_nanos: 0n,
    resets_at: null,
  });
});

test('a raise stays with its window through changes of window and zone', async () => {
  const org = await makeFundedOrg(db, 1_000);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 100);
  // As raise_budgets does.
  await many(
    db,
    `with raised as (update budgets b set raised_nanos = b.raised_nanos + 70000 where b.id = :id returning b.*)
     insert into budget_raises (org_id, budget_id, window_starts_at, budget_window, amount_nanos, cost_ticket_id, decided_by)
     select r.org_id, r.id, r.starts_at, r.budget_window, 70000, 'ticket_1', 'user_1' from raised r`,
    { id },
  );
  // As far from each other as zones are: their months differ at each moment.
  for (const zone of ['Pacific/Kiritimati', 'Pacific/Pago_Pago', 'UTC']) {
    await many(db, 'update organizations set time_zone = :zone where id = :org_id', {
      org_id,
      zone,
    });
    for (const window of ['day', 'week', 'life', 'month'] as const)
      expect(await budgets.update(db, org_id, id, { window })).toMatchObject({
        raised_nanos: window === 'month' ? 70n * TOKEN : 0n,
      });
  }
  const { raised_nanos } = await one<{ raised_nanos: bigint }>(
    db,
    'select raised_nanos from budgets where id = :id',
    { id },
  );
  expect(raised_nanos).toBe(70n * TOKEN);
});
