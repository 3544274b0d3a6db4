import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import { audit } from '../../../domain/ledger/audit';
import * as budgets from '../../../domain/ledger/budgets';
import * as tickets from '../../../domain/ledger/tickets';
import * as verdicts from '../../../domain/ledger/verdicts';
import { type Db, many, one } from '../../../domain/sql';
import {
  eventsOf,
  makeFundedOrg,
  makeOrg,
  openLedger,
  reserveBody,
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

async function approve(org_id: string, ticket_id: string, more: Partial<verdicts.Verdict> = {}) {
  return verdicts.decide(db, {
    id: randomUUID(),
    ticket_id,
    org_id,
    verdict: 'approved',
    by: 'user_1',
    is_platform: false,
    valid_until: await verdicts.verdictDeadline(db),
    ...more,
  });
}

test('a budget that asks opens a ticket, whose approval raises it by exactly what is missing', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id, user_id } = org;
  const wide = await makeBudget(db, org, 150, { on_exceed: 'ticket' });
  const small = await makeBudget(db, org, 100, {
    on_exceed: 'ticket',
    owner_type: 'user',
    owner_id: user_id,
  });
  await lanes.reserve(reserveBody(org_id, 90, { user_id, ...ownBody() }));
  const body = reserveBody(org_id, 70, { user_id, ...ownBody() });
  const refused = await lanes.reserve(body);
  expect(refused).toMatchObject({
    code: 'insufficient_balance',
    cost_ticket: {
      cause: 'budget',
      shortfall_nanos: '0',
      budgets: expect.arrayContaining([
        expect.objectContaining({ id: small.id, missing_nanos: String(60n * TOKEN) }),
        expect.objectContaining({ id: wide.id, missing_nanos: String(10n * TOKEN) }),
      ]),
    },
  });
  const ticket_id = String(refused.cost_ticket?.id);
  expect(await approve(org_id, ticket_id)).toBe('approved');
  expect(await budgets.get(db, org_id, small.id)).toMatchObject({
    raised_nanos: 60n * TOKEN,
    remaining_nanos: 0n,
  });
  expect(await budgets.get(db, org_id, wide.id)).toMatchObject({
    raised_nanos: 10n * TOKEN,
    remaining_nanos: 0n,
  });
  const kept = {
    cause: 'budget',
    budget: { limit_nanos: expect.any(String), missing_nanos: expect.any(String) },
    budgets: expect.arrayContaining([
      expect.objectContaining({
        ...{ id: small.id, limit_nanos: String(100n * TOKEN), used_nanos: String(90n * TOKEN) },
        ...{ missing_nanos: String(60n * TOKEN), raised_nanos: String(60n * TOKEN) },
      }),
      expect.objectContaining({ id: wide.id, raised_nanos: String(10n * TOKEN) }),
    ]),
  };
  expect(await tickets.get(db, ticket_id, org_id)).toMatchObject({ status: 'approved', ...kept });
  expect(await eventsOf(db, org_id, 'cost_ticket.resolved')).toMatchObject([
    { status: 'approved', ...kept },
  ]);
  const { request_id, request_body_hash } = body;
  const paid = await lanes.redeem({
    org_id,
    ticket_id,
    request_id,
    request_body_hash,
    user_id,
    wait_ms: 0,
  });
  expect(paid).toMatchObject({ code: null, reserved_amount_nanos: 70n * TOKEN });
  expect(await tickets.get(db, ticket_id, org_id)).toMatchObject({ status: 'redeemed', ...kept });
  expect((await audit(db)).broken).toEqual([]);
});

test('a ticket that is denied keeps the budget it was denied for, and one that is paid out of a larger budget what it missed', async () => {
  const org = await makeFundedOrg(db, 10_000);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 10, { on_exceed: 'ticket' });
  const first = await lanes.reserve(reserveBody(org_id, 50, ownBody()));
  const denied_id = String(first.cost_ticket?.id);
  const valid_until = await verdicts.verdictDeadline(db);
  await verdicts.decide(db, {
    ...{ id: randomUUID(), ticket_id: denied_id, org_id, verdict: 'denied', by: 'user_1' },
    ...{ is_platform: false, valid_until },
  });
  // What becomes of the budget later changes nothing of it.
  await budgets.update(db, org_id, id, { limit_nanos: 20n * TOKEN });
  const missed = (limit: bigint) => ({
    cause: 'budget',
    budget: {
      id,
      limit_nanos: String(limit * TOKEN),
      missing_nanos: String((50n - limit) * TOKEN),
    },
  });
  const denied = await tickets.get(db, denied_id, org_id);
  expect(denied).toMatchObject({ status: 'denied', ...missed(10n) });
  expect(denied.budget).not.toHaveProperty('raised_nanos');
  const body = reserveBody(org_id, 50, ownBody());
  const { cost_ticket } = await lanes.reserve(body);
  const ticket_id = String(cost_ticket?.id);
  await budgets.update(db, org_id, id, { limit_nanos: 60n * TOKEN });
  const { request_id, request_body_hash } = body;
  await lanes.redeem({ org_id, ticket_id, request_id, request_body_hash, wait_ms: 0 });
  expect(await tickets.get(db, ticket_id, org_id)).toMatchObject({
    status: 'redeemed',
    ...missed(20n),
  });
});

test('an approval credits only what the wallet lacks, and undoes the raise if the hold is refused', async () => {
  const org = await makeOrg(db);
  const { org_id } = org;
  const { id } = await makeBudget(db, org, 10, { on_exceed: 'ticket' });
  const refused = await lanes.reserve(reserveBody(org_id, 70, ownBody()));
  expect(refused.cost_ticket).toMatchObject({
    cause: 'budget',
    shortfall_nanos: String(70n * TOKEN),
  });
  const ticket_id = String(refused.cost_ticket?.id);
  const strict = await makeBudget(db, org, 20, { window: 'day' });
  await expect(approve(org_id, ticket_id)).rejects.toMatchObject({ code: 'key_budget_exceeded' });
  expect(await budgets.get(db, org_id, id)).toMatchObject({ raised_nanos: 0n });
  await budgets.archive(db, org_id, strict.id);
  await approve(org_id, ticket_id);
  expect(await budgets.get(db, org_id, id)).toMatchObject({ raised_nanos: 60n * TOKEN });
  const entries = await many(
    db,
    `select t.type, t.amount_nanos, a.cost_ticket_id, a.decided_by from wallet_transactions t
     left join approval_entries a on a.transaction_id = t.id where t.org_id = :org_id order by t.seq`,
    { org_id },
  );
  expect(entries[0]).toEqual({
    type: 'credit',
    amount_nanos: 70n * TOKEN,
    cost_ticket_id: ticket_id,
    decided_by: 'user_1',
  });
});

test('a larger budget or a new window serves a waiting call, a top-up alone does not', async () => {
  const org = await makeFundedOrg(db, 1_000);
  const { org_id, org_wallet } = org;
  const { id } = await makeBudget(db, org, 10, { on_exceed: 'ticket' });
  const wait = async () => {
    const body = reserveBody(org_id, 50, ownBody());
    const { cost_ticket } = await lanes.reserve(body);
    const { request_id, request_body_hash } = body;
    const ticket_id = String(cost_ticket?.id);
    await lanes.redeem({ org_id, ticket_id, request_id, request_body_hash, wait_ms: 30_000 });
    return request_id;
  };
  const served = async (request_id: string) => {
    const rows = await many(
      db,
      `select from redeem_waiting(:org_id, :ids) as r where (r.answer).code is null`,
      {
        org_id,
        ids: [request_id],
      },
    );
    return rows.length === 1;
  };
  const first = await wait();
  await many(db, `select credit(:org_id, :org_wallet, 5000, 'test')`, { org_id, org_wallet });
  expect(await served(first)).toBe(false);
  expect(
    await one(db, 'select kept_nanos from wallets where id = :org_wallet', { org_wallet }),
  ).toEqual({ kept_nanos: 0n });
  await budgets.update(db, org_id, id, { limit_nanos: 60n * TOKEN });
  expect(await served(first)).toBe(true);
  const second = await wait();
  expect(await served(second)).toBe(false);
  await many(
    db,
    `update budgets set starts_at = starts_at - interval '31 days', ends_at = clock_timestamp() where id = :id`,
    { id },
  );
  expect(await served(second)).toBe(true);
});
