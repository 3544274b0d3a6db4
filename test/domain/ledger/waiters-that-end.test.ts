import { randomUUID } from 'node:crypto';
import { audit } from '../../../domain/ledger/audit';
import { many, one } from '../../../domain/sql';
import { type Answer, makeTenant, refusal, type Tenant } from '../../support/api';
import { makeKeyId } from '../../support/keys';
import { balance, credit, reserveBody, settleBody, TOKEN } from '../../support/ledger';
import {
  approve,
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

const untilWaiting = (short: Short) =>
  until(async () => (await show(world.call, short)).waiting_calls === 1);

const reserve = (body: object, api = world.call) =>
  api('post', '/v1/gateway/wallets/reserve', { key: world.machine, body });

test('a try without a wait leaves no place behind: the next one is served as soon as there is money', async () => {
  const { call, machine } = world;
  const short = await makeShort(world, 10);
  const tryIt = () => redeem(call, machine, { ...short, request_id: randomUUID() });
  expect((await tryIt()).status).toBe(402);
  await topUp(call, short, 10);
  expect((await tryIt()).status).toBe(200);
});

test('a try at the end of a wait keeps the place that its call has, for a moment', async () => {
  const { call, other, db, machine } = world;
  const tenant = await makeTenant(world.db);
  const [old, young] = [
    await makeShort(world, 100, {}, tenant),
    await makeShort(world, 100, {}, tenant),
  ];
  await withLongGrace(db, async () => {
    expect((await redeem(call, machine, old, { wait_ms: 50 })).status).toBe(402);
    const waiting = redeem(other, machine, young, { wait_ms: 30_000 });
    await untilWaiting(young);
    await topUp(call, tenant, 100);
    expect((await redeem(call, machine, old, { wait_ms: 5_000 })).status).toBe(200);
    await topUp(call, tenant, 100);
    expect((await waiting).status).toBe(200);
  });
});

interface End {
  /** Of the waiting call's request. */
  more: (tenant: Tenant) => Promise<object>;
  end: (tenant: Tenant, more: { key_id?: string }) => Promise<unknown>;
  status: number;
  code: string;
}

const agentOf = async ({ agent_id }: Tenant) => ({ agent_id });

const addCap = ({ agent_id, owner_key }: Tenant, max_value: number) =>
  world.call('post', `/v1/agents/${agent_id}/usage-constraints`, {
    key: owner_key,
    body: {
      constraint_type: 'responses',
      provider: 'openai',
      model_pattern: '*',
      max_value,
      interval: 'day',
      enforcement_mode: 'reject',
    },
  });

const ends: Record<string, End> = {
  'its key has spent its budget': {
    more: async ({ org_id }) => ({
      key_id: await makeKeyId(world.db, org_id, { max_budget_nanos: 100n * TOKEN }),
    }),
    end: (_, { key_id }) =>
      many(world.db, 'update tokens set max_budget_nanos = 1 where id = :key_id', {
        key_id: key_id as string,
      }),
    status: 403,
    code: 'key_budget_exceeded',
  },
  'its agent is archived': {
    more: agentOf,
    end: ({ agent_id }) =>
      many(world.db, 'update agents set archived_at = now() where id = :agent_id', { agent_id }),
    status: 422,
    code: 'invalid_field',
  },
  'use from outside fills its cap': {
    more: async (tenant) => {
      expect((await addCap(tenant, 1)).status).toBe(201);
      return agentOf(tenant);
    },
    end: ({ org_id, agent_id }) =>
      one(
        world.db,
        `select increment_usage(:org_id, :agent_id, 'openai', 'gpt-4o-mini', 1, 1, :request_id)`,
        { org_id, agent_id, request_id: randomUUID() },
      ),
    status: 429,
    code: 'usage_constraint_exceeded',
  },
  'a cap is set that it does not pass': {
    more: agentOf,
    end: (tenant) => addCap(tenant, 0),
    status: 429,
    code: 'usage_constraint_exceeded',
  },
  'its team is archived': {
    more: async ({ team_id }) => ({ team_id }),
    end: ({ team_id }) =>
      many(world.db, 'update teams set archived_at = now() where id = :team_id', { team_id }),
    status: 422,
    code: 'invalid_field',
  },
};

test.each(Object.entries(ends))(
  'a waiting call leaves the queue and is told at once when %s; nobody queues behind it',
  async (_, { more, end, status, code }) => {
    const { call, other, machine, db } = world;
    const tenant = await makeTenant(db);
    const given = await more(tenant);
    const large = await makeShort(world, 50, given, tenant);
    const small = await makeShort(world, 10, {}, tenant);
    let told: Answer | undefined;
    void redeem(call, machine, large, { wait_ms: 30_000, ...agentIn(given) }).then((answer) => {
      told = answer;
    });
    await untilWaiting(large);
    const paid = redeem(other, machine, small, { wait_ms: 30_000 });
    await untilWaiting(small);
    await end(tenant, given);
    await until(() => told !== undefined);
    expect(refusal(told as Answer)).toMatchObject({ status, code });
    await topUp(call, tenant, 10);
    expect((await paid).status).toBe(200);
  },
);

const agentIn = (given: { agent_id?: string }) =>
  given.agent_id === undefined ? {} : { agent_id: given.agent_id };

test('a waiting call leaves the queue once others fill the limits of its session', async () => {
  const { call, other, machine, db } = world;
  const tenant = await makeTenant(db);
  await topUp(call, tenant, 10);
  const session = { session_id: randomUUID(), session_limits: { max_actions: 1 } };
  const large = await makeShort(world, 50, session, tenant);
  const told = redeem(call, machine, large, { wait_ms: 30_000 });
  await untilWaiting(large);
  expect((await reserve({ ...reserveBody(tenant.org_id, 5), ...session }, other)).status).toBe(200);
  expect(refusal(await told)).toMatchObject({ status: 409, code: 'session_limit_exceeded' });
});

/** A request that was refused, and whose repeat by another way was covered. */
async function heldBeside(tokens = 10) {
  const short = await makeShort(world, tokens);
  await topUp(world.call, short, tokens);
  const held = await reserve(short.body, world.other);
  expect(held.status).toBe(200);
  return { short, reservation_id: held.body.reservation_id as string };
}

const expectWhole = async () => expect((await audit(world.db)).broken).toEqual([]);

test('a redeem takes over the hold that a repeat of its reserve has made: one hold, the ticket redeemed by it', async () => {
  const { call, machine, db } = world;
  const { short, reservation_id } = await heldBeside();
  const redeemed = await redeem(call, machine, short);
  expect(redeemed).toMatchObject({ status: 200, body: { reservation_id } });
  expect(await show(call, short)).toMatchObject({ status: 'redeemed', reservation_id });
  expect(await redeem(call, machine, short)).toMatchObject({ body: { reservation_id } });
  expect(await balance(db, short.wallet_id)).toEqual({
    balance_nanos: 0n,
    reserved_nanos: 10n * TOKEN,
  });
  await expectWhole();
});

test('where a person approved meanwhile, what the approval holds is given back', async () => {
  const { call, machine, db } = world;
  const { short, reservation_id } = await heldBeside();
  expect((await approve(call, short)).status).toBe(200);
  expect((await balance(db, short.wallet_id)).reserved_nanos).toBe(20n * TOKEN);
  expect(await redeem(call, machine, short)).toMatchObject({
    status: 200,
    body: { reservation_id },
  });
  expect(await balance(db, short.wallet_id)).toEqual({
    balance_nanos: 10n * TOKEN,
    reserved_nanos: 10n * TOKEN,
  });
  await expectWhole();
});

test('a call that waits already takes over such a hold on its turn, and the proof of the ledger stays whole', async () => {
  const { call, db, machine } = world;
  const short = await makeShort(world, 10);
  const waiting = redeem(call, machine, short, { wait_ms: 30_000 });
  await untilWaiting(short);
  await db.transaction(async (trx) => {
    await trx.raw('select lock_organization(?)', [short.org_id]);
    await credit(trx, short.org_id, short.wallet_id, 20n * TOKEN);
    // A late try of the same reserve, before anybody looks at the queue.
    const { org_id: _, ...item } = short.body;
    await trx.raw('select reserve_2(?, ?)', [short.org_id, JSON.stringify([item])]);
  });
  expect((await waiting).status).toBe(200);
  expect((await balance(db, short.wallet_id)).reserved_nanos).toBe(10n * TOKEN);
  await expectWhole();
});

test('the hold of another request under the same id is not taken over', async () => {
  const { call, machine } = world;
  const short = await makeShort(world, 10);
  await topUp(call, short, 100);
  const other = { ...reserveBody(short.org_id, 3), request_id: short.request_id };
  expect((await reserve(other)).status).toBe(200);
  expect(refusal(await redeem(call, machine, short))).toMatchObject({
    status: 422,
    code: 'idempotency_key_reused',
  });
});

test('a repeated approval answers the first one also once the held call has taken the hold', async () => {
  const { call, db, machine } = world;
  const short = await makeShort(world, 10);
  const first = await approve(call, short, { note: 'yes' });
  expect(first.status).toBe(200);
  const held = await redeem(call, machine, short);
  expect(held.status).toBe(200);
  const { decided_by, note, credited_amount } = first.body;
  expect(await approve(call, short, { note: 'again' })).toMatchObject({
    status: 200,
    body: { decided_by, note, credited_amount, status: 'redeemed' },
  });
  const { reservation_id } = held.body;
  await call('post', '/v1/gateway/wallets/settle', {
    key: machine,
    body: settleBody(short.org_id, reservation_id, 4),
  });
  expect((await approve(call, short)).status).toBe(200);
  expect((await balance(db, short.wallet_id)).balance_nanos).toBe(6n * TOKEN);
});
