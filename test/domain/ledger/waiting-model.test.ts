import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { audit } from '../../../domain/ledger/audit';
import type * as calls from '../../../domain/ledger/calls';
import * as tickets from '../../../domain/ledger/tickets';
import { one } from '../../../domain/sql';
import {
  credit,
  makeFundedOrg,
  makeOrg,
  openLedger,
  reserveBody,
  settleBody,
  type TestOrg,
  TOKEN,
} from '../../support/ledger';
import { bodyHash } from '../../support/tickets';
import {
  least,
  type Owner,
  owners,
  type WaitingHold,
  WaitingModel,
  type WaitingStep,
  waitingStep,
} from './waiting-rule';

let ledger: Awaited<ReturnType<typeof openLedger>>;

beforeAll(async () => {
  ledger = await openLedger();
});

afterAll(() => ledger.close());

interface World {
  model: WaitingModel;
  org: TestOrg;
  holds: WaitingHold[];
}

const walletOf = (org: TestOrg, owner: Owner) =>
  owner === 'user' ? org.user_wallet : org.org_wallet;

async function runStep(given: WaitingStep, world: World): Promise<void> {
  const { model, org, holds } = world;
  switch (given.do) {
    case 'credit': {
      const amount = BigInt(given.tokens) * TOKEN;
      await credit(ledger.db, org.org_id, walletOf(org, given.owner), amount);
      model.rise(given.owner, { credited: amount });
      return;
    }
    case 'settle': {
      const [hold] = holds.splice(given.pick % Math.max(holds.length, 1), 1);
      if (hold === undefined) return;
      const held = Number(hold.held / TOKEN);
      const used = Math.max(1, Math.floor(held / given.part));
      await ledger.lanes.settle(settleBody(org.org_id, hold.id, used));
      model.rise(hold.owner, { held: hold.held, cost: BigInt(used) * TOKEN });
      return;
    }
    case 'leave': {
      const [waiter] = model.queue.splice(given.pick % Math.max(model.queue.length, 1), 1);
      if (waiter === undefined) return;
      const { request_id } = waiter;
      const left = { ...settleBody(org.org_id, null, 0), request_id, outcome: 'canceled' as const };
      await ledger.lanes.settle(left);
      return;
    }
    case 'reserve':
      return runReserve(given, world);
  }
}

type ReserveStep = Extract<WaitingStep, { do: 'reserve' }>;

async function runReserve({ tokens, as_user, waits }: ReserveStep, world: World): Promise<void> {
  const { model, org, holds } = world;
  const need = BigInt(tokens) * TOKEN;
  const wallets: Owner[] = as_user ? ['user', 'organization'] : ['organization'];
  const user = as_user ? { user_id: org.user_id } : {};
  const body = reserveBody(org.org_id, tokens, { ...user, request_body_hash: bodyHash() });
  const row = await ledger.lanes.reserve(body);
  const owner = model.payer(need, wallets);
  if (owner !== undefined) {
    expect(row).toMatchObject({ code: null, wallet_owner_type: owner });
    model.hold(owner, need);
    holds.push({ id: row.reservation_id as string, owner, held: need });
    return;
  }
  expect(row.code).toBe('insufficient_balance');
  expect(BigInt(row.cost_ticket?.shortfall_nanos as string)).toBeGreaterThan(0n);
  if (!waits) return;
  const was_first = !as_user && model.waitersOf('organization').length === 0;
  const { request_id, request_body_hash } = body;
  const redeem = {
    org_id: org.org_id,
    ticket_id: row.cost_ticket?.id as string,
    request_id,
    request_body_hash,
    ...user,
    wait_ms: 600_000,
  } as calls.Redeem;
  expect((await ledger.lanes.redeem(redeem)).code).toBe('insufficient_balance');
  model.queue.push({ request_id, need, wallets, was_first, credited: 0n });
}

/** Whoever the ledger has served, in any of its looks. */
async function lookAround({ model, org, holds }: World): Promise<void> {
  const names = model.queue.map(({ request_id }) => request_id);
  const served = model.serve();
  const answers = new Map<string, { reservation_id: string | null; owner: string | null }>();
  for (let size = -1; size < answers.size; ) {
    size = answers.size;
    for (const row of await tickets.redeemWaiting(ledger.db, org.org_id, names)) {
      const { request_id, reservation_id, wallet_owner_type: owner } = row;
      answers.set(request_id, { reservation_id, owner });
    }
  }
  expect([...answers.keys()].sort()).toEqual(served.map((one) => one.waiter.request_id).sort());
  for (const { waiter, owner } of served) {
    const answer = answers.get(waiter.request_id);
    expect(answer?.owner).toBe(owner);
    holds.push({ id: answer?.reservation_id as string, owner, held: waiter.need });
  }
}

async function expectFair({ model, org }: World): Promise<void> {
  for (const of of owners) {
    expect(
      await one(ledger.db, 'select balance_nanos, reserved_nanos from wallets where id = :id', {
        id: walletOf(org, of),
      }),
    ).toEqual({ balance_nanos: model.balance[of], reserved_nanos: model.reserved[of] });
  }
  const [first] = model.waitersOf('organization');
  if (first === undefined) return;
  // What covers the oldest is never left lying.
  expect(model.balance.organization).toBeLessThan(first.need);
  // What was credited since it came is still there for it, whoever else has asked.
  if (first.was_first)
    expect(model.balance.organization).toBeGreaterThanOrEqual(least(first.credited, first.need));
}

/** A younger call is served beside the money that is kept for the oldest, which stays kept. */
const beside: WaitingStep[] = [
  { do: 'credit', owner: 'organization', tokens: 23 },
  { do: 'credit', owner: 'organization', tokens: 15 },
  { do: 'reserve', tokens: 2, as_user: false, waits: false },
  { do: 'reserve', tokens: 105, as_user: false, waits: true },
  { do: 'reserve', tokens: 37, as_user: true, waits: true },
  { do: 'credit', owner: 'organization', tokens: 33 },
  { do: 'reserve', tokens: 742, as_user: false, waits: true },
  { do: 'settle', pick: 19, part: 3 },
  { do: 'settle', pick: 25, part: 3 },
  { do: 'reserve', tokens: 11, as_user: false, waits: false },
  { do: 'credit', owner: 'organization', tokens: 56 },
  { do: 'reserve', tokens: 5, as_user: false, waits: true },
  { do: 'settle', pick: 23, part: 3 },
  { do: 'reserve', tokens: 20, as_user: true, waits: false },
];

test('money that comes while calls wait goes to who waits first, up to what they need; younger calls take what is beside it', async () => {
  const property = fc.asyncProperty(
    fc.array(waitingStep, { minLength: 10, maxLength: 50, size: 'max' }),
    async (steps) => {
      const org = await makeOrg(ledger.db, { name: randomUUID() });
      const world = { model: new WaitingModel(), org, holds: [] };
      for (const given of steps) {
        await runStep(given, world);
        await lookAround(world);
        await expectFair(world);
      }
    },
  );
  const limits = { interruptAfterTimeLimit: 800_000, markInterruptAsFailure: true };
  await fc.assert(property, { numRuns: 60, endOnFailure: false, examples: [[beside]], ...limits });
  expect((await audit(ledger.db)).broken).toEqual([]);
}, 900_000);

/** An organization with so many tokens' worth, and calls that only its own wallet pays. */
async function makeQueue(tokens: number) {
  const org = await makeFundedOrg(ledger.db, tokens);
  const small = async (size: number) =>
    (await ledger.lanes.reserve(reserveBody(org.org_id, size))).reservation_id;
  const settle = (id: string, used: number) =>
    ledger.lanes.settle(settleBody(org.org_id, id, used));
  const wait = async (size: number) => {
    const body = reserveBody(org.org_id, size, { request_body_hash: bodyHash() });
    const { code, cost_ticket } = await ledger.lanes.reserve(body);
    expect(code).toBe('insufficient_balance');
    const { request_id, request_body_hash } = body;
    const ticket_id = cost_ticket?.id as string;
    const redeem = { org_id: org.org_id, ticket_id, request_id, request_body_hash };
    await ledger.lanes.redeem({ ...redeem, wait_ms: 600_000 } as calls.Redeem);
    return request_id;
  };
  const isServed = async (request_id: string) =>
    (await tickets.redeemWaiting(ledger.db, org.org_id, [request_id])).length === 1;
  return { small, settle, wait, isServed };
}

test('a call that nothing here can pay stops no younger one, however long it waits', async () => {
  const { small, settle, wait, isServed } = await makeQueue(100);
  const large = await wait(1_000);
  for (let n = 0; n < 40; n += 1) {
    const id = await small(8);
    expect([n, id]).toEqual([n, expect.any(String)]);
    await settle(id as string, 2);
  }
  expect(await isServed(large)).toBe(false);
});

test('a large call among steady small ones is served by what their holds give back', async () => {
  const { small, settle, wait, isServed } = await makeQueue(60);
  const open = [await small(10), await small(10), await small(10)];
  const large = await wait(50);
  let rounds = 0;
  while (!(await isServed(large))) {
    await settle(open.shift() as string, 1);
    const next = await small(10);
    if (next !== null) open.push(next);
    rounds += 1;
    expect(rounds).toBeLessThan(10);
  }
  expect(rounds).toBeGreaterThan(0);
});
