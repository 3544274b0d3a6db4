import { randomUUID } from 'node:crypto';
import { many, one } from '../../domain/sql';
import { makeTenant } from '../support/api';
import { balance, TOKEN } from '../support/ledger';
import {
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
} from '../support/tickets';

// An API that dies between a verdict and its kept answer, and a ticket that is open again by then.

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

/** The held call takes its hold and gives it back unused: its ticket is open again. */
async function reopen(short: Short): Promise<void> {
  const { call, machine } = world;
  const taken = await redeem(call, machine, { ...short, request_id: randomUUID() });
  expect(taken.status).toBe(200);
  const body = { org_id: short.org_id, reservation_id: taken.body.reservation_id };
  const settled = await call('post', '/v1/gateway/wallets/settle', {
    key: machine,
    body: { ...body, outcome: 'canceled' },
  });
  expect(settled.status).toBe(200);
  expect(await show(call, short)).toMatchObject({ status: 'open' });
}

async function forgetAnswers(short: Short): Promise<void> {
  await many(world.db, 'delete from idempotency_keys where org_id = :org_id', {
    org_id: short.org_id,
  });
}

const total = async (short: Short) => {
  const { balance_nanos, reserved_nanos } = await balance(world.db, short.wallet_id);
  return balance_nanos + reserved_nanos;
};

type Ask = (short: Short, amount: number, key: string) => Promise<{ status: number }>;

const approve: Ask = (short, amount, key) =>
  world.call('post', `/v1/cost-tickets/${short.ticket_id}/approve`, {
    key: short.billing_key,
    body: { amount },
    headers: { 'idempotency-key': key },
  });

test('an approval whose answer was lost credits once under its key, also of a ticket that is open again', async () => {
  const short = await makeShort(world, 10);
  const key = randomUUID();
  expect((await approve(short, 0.000_05, key)).status).toBe(200);
  await forgetAnswers(short);
  await reopen(short);
  expect(await approve(short, 0.000_05, key)).toMatchObject({
    ...{ status: 200, body: { id: short.ticket_id, status: 'open' } },
  });
  expect(await total(short)).toBe(50n * TOKEN);
  // Another key asks anew, and so does another amount.
  await forgetAnswers(short);
  expect((await approve(short, 0.000_04, key)).status).toBe(200);
  expect(await total(short)).toBe(90n * TOKEN);
  await reopen(short);
  expect((await approve(short, 0.000_05, randomUUID())).status).toBe(200);
  expect(await total(short)).toBe(140n * TOKEN);
});

test('a refusal is not kept by the ticket for a key: the same may be asked again, once it can be', async () => {
  const tenant = await makeTenant(world.db);
  const { org_id, team_id } = tenant;
  const short = await makeShort(world, 10, { team_id }, tenant);
  const { id: from_wallet_id } = await one<{ id: string }>(
    world.db,
    `select id from ensure_wallet(:org_id, 'team', :team_id)`,
    { org_id, team_id },
  );
  const key = randomUUID();
  const move = () =>
    world.call('post', `/v1/cost-tickets/${short.ticket_id}/approve`, {
      key: short.billing_key,
      body: { from_wallet_id, wallet_id: short.wallet_id },
      headers: { 'idempotency-key': key },
    });
  expect((await move()).status).toBe(409);
  await forgetAnswers(short);
  await many(world.db, `select from credit(:org_id, :from_wallet_id, 1000000, 'more')`, {
    ...{ org_id, from_wallet_id },
  });
  expect(await move()).toMatchObject({ status: 200, body: { status: 'approved' } });
});

test('several that are approved together credit once under their key', async () => {
  const short = await makeShort(world, 10);
  const approveAll = (key: string) =>
    world.call('post', '/v1/cost-tickets/verdicts', {
      key: short.billing_key,
      body: { verdict: 'approve', ticket_ids: [short.ticket_id] },
      headers: { 'idempotency-key': key },
    });
  const key = randomUUID();
  expect((await approveAll(key)).body.results).toMatchObject([{ error: null }]);
  await forgetAnswers(short);
  await reopen(short);
  expect((await approveAll(key)).body.results).toMatchObject([{ ticket: { status: 'open' } }]);
  expect(await total(short)).toBe(10n * TOKEN);
  expect((await approveAll(randomUUID())).body.results).toMatchObject([
    { ticket: { status: 'approved' } },
  ]);
});
