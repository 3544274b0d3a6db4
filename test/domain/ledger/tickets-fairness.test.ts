import { randomUUID } from 'node:crypto';
import * as verdicts from '../../../domain/ledger/verdicts';
import { many } from '../../../domain/sql';
import { makeTenant, refusal } from '../../support/api';
import { makeKeyId } from '../../support/keys';
import { balance, makePrice, reserveBody, TOKEN } from '../../support/ledger';
import {
  approve,
  areWaiting,
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

const untilWaiting = (short: Short, calls: number) =>
  until(async () => (await show(world.call, short)).waiting_calls === calls);

const cancel = ({ org_id }: Short, request_id: string) =>
  world.call('post', '/v1/gateway/wallets/settle', {
    key: world.machine,
    body: { org_id, request_id, outcome: 'canceled' },
  });

test('the same bytes on another route are another request with a ticket of its own', async () => {
  const { call, machine } = world;
  const dear = await makeShort(world, 1_000, { family: 'chat_completions' });
  const { request_body_hash } = dear.body;
  const cheap = await makeShort(world, 1, { family: 'embeddings', request_body_hash }, dear);
  expect(cheap.ticket_id).not.toBe(dear.ticket_id);
  expect((await show(call, dear)).estimated_cost).toBe(0.001);
  await topUp(call, dear, 1_000);
  expect(refusal(await redeem(call, machine, dear, { family: 'embeddings' }))).toMatchObject({
    status: 409,
    code: 'ticket_owner_differs',
  });
  expect((await redeem(call, machine, dear, { family: 'chat_completions' })).status).toBe(200);
});

test('a verdict that is delivered twice credits once, also after its ticket was opened again', async () => {
  const { call, db, machine } = world;
  const short = await makeShort(world, 10);
  const { ticket_id, org_id } = short;
  const verdict: verdicts.Verdict = {
    id: randomUUID(),
    ticket_id,
    org_id,
    verdict: 'approved',
    by: 'somebody',
    is_platform: false,
    amount_nanos: '5000000',
    valid_until: await verdicts.verdictDeadline(db),
  };
  await verdicts.decide(db, verdict);
  await redeem(call, machine, short);
  await cancel(short, short.request_id);
  expect(await show(call, short)).toMatchObject({
    status: 'open',
    decided_by: null,
    credited_amount: null,
  });
  await verdicts.decide(db, verdict);
  expect(await balance(db, short.wallet_id)).toEqual({
    balance_nanos: 5_000_000n,
    reserved_nanos: 0n,
  });
});

test('a call that cancelled is never told that it is paid', async () => {
  const { call, machine } = world;
  const short = await makeShort(world, 10);
  await topUp(call, short, 100);
  await redeem(call, machine, short);
  await cancel(short, short.request_id);
  const again = await redeem(call, machine, short);
  expect(refusal(again)).toMatchObject({ status: 409, code: 'request_canceled' });
  const body = { ...reserveBody(short.org_id, 5), request_id: randomUUID() };
  const reserve = () => call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
  expect((await reserve()).status).toBe(200);
  await cancel(short, body.request_id);
  expect(refusal(await reserve())).toMatchObject({ status: 409, code: 'request_canceled' });
});

test('a ticket that clients bring pays for one of two calls; the other is told so and holds nothing', async () => {
  const { call, other, machine } = world;
  const bringTwice = async (wait_ms: number) => {
    const short = await makeShort(world, 10);
    const answers = [call, other].map((from) =>
      redeem(from, machine, { ...short, request_id: randomUUID() }, { is_brought: true, wait_ms }),
    );
    return { short, answers, are_waiting: await areWaiting(call, short, answers) };
  };
  const brief = await bringTwice(8_000);
  const { short, answers } = brief.are_waiting ? brief : await bringTwice(30_000);
  await topUp(call, short, 100);
  expect((await Promise.all(answers)).map(({ status }) => status).sort()).toEqual([200, 409]);
});

test('an approval goes to the call that has waited longest, whoever asked last', async () => {
  const { call, other, db, machine } = world;
  const join = async (wait_ms: number) => {
    const short = await makeShort(world, 10);
    const [old, young] = [randomUUID(), randomUUID()];
    const wait = (request_id: string, for_ms: number) =>
      redeem(other, machine, { ...short, request_id }, { wait_ms: for_ms });
    await wait(old, 300);
    const second = wait(young, wait_ms);
    if (!(await areWaiting(call, short, [second]))) return undefined;
    const first = wait(old, wait_ms);
    return (await areWaiting(call, short, [first, second])) ? { short, first, second } : undefined;
  };
  await withLongGrace(db, async () => {
    const joined = (await join(4_000)) ?? (await join(30_000));
    if (joined === undefined) throw new Error('Both are to wait at one time.');
    const { short, first, second } = joined;
    await approve(call, short);
    expect((await first).status).toBe(200);
    expect((await second).status).toBe(402);
  });
});

test('a waiting call whose key is revoked is told at once, and blocks nobody', async () => {
  const { call, db, machine } = world;
  const tenant = await makeTenant(db);
  const key_id = await makeKeyId(db, tenant.org_id);
  const large = await makeShort(world, 1_000, { key_id }, tenant);
  const small = await makeShort(world, 10, {}, tenant);
  const told = redeem(call, machine, large, { wait_ms: 30_000 });
  await untilWaiting(large, 1);
  const paid = redeem(call, machine, small, { wait_ms: 30_000 });
  await untilWaiting(small, 1);
  const started_at = performance.now();
  await many(db, 'update tokens set revoked_at = now() where id = :key_id', { key_id });
  expect((await told).status).toBe(401);
  await topUp(call, tenant, 10);
  expect((await paid).status).toBe(200);
  expect(performance.now() - started_at).toBeLessThan(25_000);
});

test("another agent's ticket is no way round a cap", async () => {
  const { call, machine } = world;
  const tenant = await makeTenant(world.db);
  const short = await makeShort(world, 10, { agent_id: tenant.agent_id }, tenant);
  await topUp(call, tenant, 10);
  expect(refusal(await redeem(call, machine, short, { agent_id: 'agent_other' }))).toMatchObject({
    status: 409,
    code: 'ticket_owner_differs',
  });
  expect((await redeem(call, machine, short, { agent_id: tenant.agent_id })).status).toBe(200);
});

test('a cap counts calls that cost money without any token', async () => {
  const { call, db, machine } = world;
  await makePrice(db, { model: 'per call', input_per_1m: 0, output_per_1m: 0, per_request: 1 });
  const tenant = await makeTenant(db);
  await topUp(call, tenant, 9_000_000);
  await call('post', `/v1/agents/${tenant.agent_id}/usage-constraints`, {
    key: tenant.owner_key,
    body: {
      constraint_type: 'cost',
      provider: 'openai',
      model_pattern: 'per call',
      max_value: 2,
      interval: 'day',
      enforcement_mode: 'reject',
    },
  });
  const statuses = [];
  for (let n = 0; n < 3; n += 1) {
    const body = { ...reserveBody(tenant.org_id, 0), model: 'per call', agent_id: tenant.agent_id };
    const held = await call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
    statuses.push(held.status);
    const { reservation_id } = held.body;
    const settle = { org_id: tenant.org_id, reservation_id, outcome: 'completed', usage: {} };
    if (held.status === 200)
      await call('post', '/v1/gateway/wallets/settle', { key: machine, body: settle });
  }
  expect(statuses).toEqual([200, 200, 429]);
});

test('under platform_only a ticket that is covered meanwhile is approved without moving money', async () => {
  const { call, db } = world;
  const short = await makeShort(world, 10);
  await many(db, `update organizations set manual_credit = 'platform_only' where id = :org_id`, {
    org_id: short.org_id,
  });
  await many(db, `select credit(:org_id, :wallet_id, :amount, 'platform')`, {
    org_id: short.org_id,
    wallet_id: short.wallet_id,
    amount: 10n * TOKEN,
  });
  expect(await approve(call, short)).toMatchObject({ status: 200, body: { credited_amount: 0 } });
});
