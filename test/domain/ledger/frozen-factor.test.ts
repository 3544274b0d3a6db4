import type { Batches } from '../../../api/ledger/batches';
import * as tickets from '../../../domain/ledger/tickets';
import { storyOf } from '../../../domain/ledger/views/requests';
import * as walletSettings from '../../../domain/ledger/wallet-settings';
import type { Db } from '../../../domain/sql';
import {
  balance,
  credit,
  inFlight,
  makeFundedOrg,
  makeOrg,
  makeOverdue,
  openLedger,
  reserveBody,
  settleBody,
  TOKEN,
} from '../../support/ledger';

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

afterAll(() => close());

const setFactor = (org_id: string, price_factor: number) =>
  walletSettings.change(db, org_id, { price_factor });

test('a hold keeps its factor, whatever the organization pays by then; repeats and late settles too', async () => {
  const { org_id } = await makeFundedOrg(db, 10_000, { price_factor: 0.76 });
  const [body, late_body] = [reserveBody(org_id, 100), reserveBody(org_id, 100)];
  const [hold, late] = [await lanes.reserve(body), await lanes.reserve(late_body)];
  await setFactor(org_id, 1.2);
  expect(await lanes.reserve(body)).toMatchObject({
    reservation_id: hold.reservation_id,
    reserved_amount_nanos: 76n * TOKEN,
  });
  const viewer = { org_id, user_id: null, sees_all: true };
  // What is open was charged nothing yet.
  const open = await storyOf(db, body.request_id, viewer);
  expect(open).toMatchObject({ status: 'open', settlement: null, price_lines: [] });
  const settlement = settleBody(org_id, hold.reservation_id, 100);
  const settled = await lanes.settle(settlement);
  expect(settled.actual_cost_nanos).toBe(76n * TOKEN);
  expect(await lanes.settle(settlement)).toMatchObject({
    actual_cost_nanos: 76n * TOKEN,
    transaction_id: settled.transaction_id,
  });
  await makeOverdue(db, late.reservation_id);
  const next = await lanes.reserve(reserveBody(org_id, 100));
  expect(next.reserved_amount_nanos).toBe(120n * TOKEN);
  const after = await lanes.settle(settleBody(org_id, late.reservation_id, 100));
  expect(after).toMatchObject({ status: 'late', actual_cost_nanos: 76n * TOKEN });
  expect(await storyOf(db, body.request_id, viewer)).toMatchObject({
    price_factor: '0.76',
    provider_key_id: null,
    price_lines: [{ what: 'input', unit_price: '0.00000076', amount: '0.000076' }],
  });
});

test('a ticket is paid by the factor of the moment in which it is redeemed or approved', async () => {
  const org = await makeOrg(db, { price_factor: 1.2 });
  const { org_id } = org;
  const body = reserveBody(org_id, 100);
  const { cost_ticket } = await lanes.reserve(body);
  expect(cost_ticket).toMatchObject({ estimated_cost_nanos: String(120n * TOKEN) });
  await setFactor(org_id, 0.76);
  await credit(db, org_id, org.org_wallet, 76n * TOKEN);
  const redeemed = await lanes.redeem({
    org_id,
    ticket_id: cost_ticket?.id as string,
    request_id: body.request_id,
    request_body_hash: body.request_body_hash,
    wait_ms: 0,
  });
  expect(redeemed).toMatchObject({ code: null, reserved_amount_nanos: 76n * TOKEN });
  await setFactor(org_id, 1.2);
  const settled = await lanes.settle(settleBody(org_id, redeemed.reservation_id, 100));
  expect(settled.actual_cost_nanos).toBe(76n * TOKEN);
});

test('a call that waits for money waits for what it costs by the new factor', async () => {
  const org = await makeOrg(db, { price_factor: 1.2 });
  const { org_id } = org;
  await credit(db, org_id, org.org_wallet, 100n * TOKEN);
  const body = reserveBody(org_id, 100);
  const { cost_ticket } = await lanes.reserve(body);
  const { request_id, request_body_hash } = body;
  const ask = { org_id, ticket_id: cost_ticket?.id as string, request_id, request_body_hash };
  const waits = await lanes.redeem({ ...ask, wait_ms: 30_000 });
  expect(waits.code).toBe('insufficient_balance');
  const answers = () => tickets.redeemWaiting(db, org_id, [request_id]);
  for (const price_factor of [1.3, 1.01]) {
    await setFactor(org_id, price_factor);
    expect(await answers()).toEqual([]);
  }
  await setFactor(org_id, 0.9);
  expect(await answers()).toMatchObject([{ code: null, reserved_amount_nanos: 90n * TOKEN }]);
});

test('a change while calls are held gives each the one factor or the other, and the ledger is whole', async () => {
  const org = await makeFundedOrg(db, 1_000_000);
  const { org_id } = org;
  const turns = Array.from({ length: 60 }, (_, turn) => async () => {
    if (turn % 10 === 5) await setFactor(org_id, turn % 20 === 5 ? 0.5 : 1);
    const hold = await lanes.reserve(reserveBody(org_id, 100));
    const settled = await lanes.settle(settleBody(org_id, hold.reservation_id, 100));
    // What was held is what is charged: the two know one factor.
    expect(settled.actual_cost_nanos).toBe(hold.reserved_amount_nanos);
    return hold.reserved_amount_nanos as bigint;
  });
  const held = await inFlight(12, turns);
  expect(new Set(held)).toEqual(new Set([50n * TOKEN, 100n * TOKEN]));
  const spent = held.reduce((sum, one) => sum + one, 0n);
  expect((await balance(db, org.org_wallet)).balance_nanos).toBe(1_000_000n * TOKEN - spent);
});
