import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection, WorkflowNotFoundError } from '@temporalio/client';
import * as tickets from '../../domain/ledger/tickets';
import * as outbox from '../../domain/outbox';
import { many } from '../../domain/sql';
import { createLog } from '../../runtime/log';
import { dispatchDue } from '../../temporal/outbox';
import { refusal, serve } from '../support/api';
import { besideReference } from '../support/cpu';
import { balance, eventsOf } from '../support/ledger';
import {
  approve,
  deny,
  makeShort,
  openTicketWorld,
  redeem,
  type Short,
  show,
  type TicketWorld,
  topUp,
} from '../support/tickets';
import { repeated, until } from '../support/until';
import { sendAll } from '../support/worker';

const log = createLog('test', 'fatal');
let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

const describe = ({ ticket_id }: Short) => world.client.workflow.getHandle(ticket_id).describe();

const outboxOf = (workflow_id: string) =>
  many<{ signal: string | null }>(
    world.db,
    'select signal from outbox where workflow_id = :workflow_id order by id',
    { workflow_id },
  );

const dispatchAll = () => sendAll(world);

async function isOver(short: Short): Promise<boolean> {
  return (await describe(short)).status.name === 'COMPLETED';
}

test('an open ticket has a workflow that operators can read and find', async () => {
  const tenant = await makeShort(world, 10);
  await dispatchAll();
  const seen = await describe(tenant);
  expect(await seen.staticSummary()).toMatch(
    /^0\.00001 USD for gpt-4o-mini, asked by Org \w+, open until 20/,
  );
  expect(seen.searchAttributes).toMatchObject({
    OrgId: [tenant.org_id],
    Kind: ['costTicket'],
    Status: ['running'],
  });
});

test('at its deadline a ticket expires by itself, once', async () => {
  const short = await makeShort(world, 10);
  await many(
    world.db,
    `update cost_tickets set expires_at = clock_timestamp() + interval '2 seconds' where id = :ticket_id`,
    { ticket_id: short.ticket_id },
  );
  await dispatchAll();
  await until(() => isOver(short));
  expect((await show(world.call, short)).status).toBe('expired');
  expect(await eventsOf(world.db, short.org_id, 'cost_ticket.resolved')).toEqual([
    expect.objectContaining({ status: 'expired' }),
  ]);
  expect(await outboxOf(short.ticket_id)).toEqual([]);
  expect((await describe(short)).searchAttributes).toMatchObject({ Status: ['expired'] });
});

test('a redeemed ticket ends its workflow by one signal; one whose start was still unsent never starts', async () => {
  const { call, machine } = world;
  const started = await makeShort(world, 10);
  await dispatchAll();
  const unsent = await makeShort(world, 10);
  for (const short of [started, unsent]) {
    await topUp(call, short, 10);
    expect((await redeem(call, machine, short)).status).toBe(200);
  }
  expect(await outboxOf(started.ticket_id)).toEqual([{ signal: 'resolved' }]);
  expect(await outboxOf(unsent.ticket_id)).toEqual([]);
  await dispatchAll();
  await until(() => isOver(started));
  await expect(describe(unsent)).rejects.toBeInstanceOf(WorkflowNotFoundError);
});

test('a verdict is recorded by the workflow, which ends and says who decided', async () => {
  const { call, client } = world;
  const [yes, no] = [await makeShort(world, 10), await makeShort(world, 10)];
  await dispatchAll();
  expect((await approve(call, yes, { note: 'go ahead' })).status).toBe(200);
  expect((await deny(call, no)).status).toBe(200);
  for (const [short, status] of [
    [yes, 'approved'],
    [no, 'denied'],
  ] as const) {
    await until(() => isOver(short));
    expect(await client.workflow.getHandle(short.ticket_id).result()).toBe(status);
    expect((await describe(short)).searchAttributes).toMatchObject({ Status: [status] });
  }
});

test('verdicts that come as the workflow ends are all answered, by one outcome', async () => {
  for (let round = 0; round < 10; round += 1) {
    const short = await makeShort(world, 10);
    const answers = [];
    for (let n = 0; n < 6; n += 1) {
      const decide = n % 2 ? deny : approve;
      answers.push(repeated(() => decide(n % 3 ? world.call : world.other, short)));
      await sleep(15);
    }
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(3);
    expect(statuses.every((status) => status === 200 || status === 409)).toBe(true);
  }
});

test('a ticket is decided before the dispatcher has reached it, and then needs no start', async () => {
  const short = await makeShort(world, 10);
  expect((await approve(world.call, short)).status).toBe(200);
  await until(() => isOver(short));
  const { runId } = (await describe(short)) as { runId: string };
  await dispatchAll();
  expect((await describe(short)).runId).toBe(runId);
});

test('with Temporal away a verdict is 503 in time and changes nothing, and redeem goes on', async () => {
  const { db, machine } = world;
  const api = await serve({ db }, '127.0.0.1:1');
  const short = await makeShort(world, 10);
  const {
    result: refused,
    took_ms,
    reference_ms,
  } = await besideReference(
    () => show(world.call, short),
    () => approve(api.call, short),
  );
  expect(refusal(refused)).toMatchObject({ status: 503, code: 'unavailable' });
  expect(refused.headers['retry-after']).toBeDefined();
  // It did not wait for the 25 s that a result may take.
  expect(took_ms).toBeLessThan(15_000 + 5 * reference_ms);
  expect(await balance(db, short.wallet_id)).toMatchObject({ balance_nanos: 0n });
  await topUp(api.call, short, 10);
  expect((await redeem(api.call, machine, short)).status).toBe(200);
  await api.close();
});

test('a verdict that arrives after its time changes nothing', async () => {
  const { client, db } = world;
  const short = await makeShort(world, 10);
  await dispatchAll();
  const { ticket_id, org_id } = short;
  const verdict = {
    ticket_id,
    org_id,
    verdict: 'approved',
    by: 'someone',
    is_platform: false,
    valid_until: new Date(Date.now() - 1_000).toISOString(),
  };
  const handle = client.workflow.getHandle(ticket_id);
  await expect(handle.executeUpdate('decide', { args: [verdict] })).rejects.toThrow();
  expect((await show(world.call, short)).status).toBe('open');
  expect(await balance(db, short.wallet_id)).toMatchObject({ balance_nanos: 0n });
  expect((await describe(short)).status.name).toBe('RUNNING');
});

test('the news that a ticket is redeemed reaches a workflow whose verdict was refused', async () => {
  const { call, machine } = world;
  const short = await makeShort(world, 10);
  await dispatchAll();
  expect((await approve(call, short, { amount: 0.000_001 })).status).toBe(409);
  expect((await describe(short)).status.name).toBe('RUNNING');
  await topUp(call, short, 10);
  await redeem(call, machine, short);
  await dispatchAll();
  await until(() => isOver(short));
});

test('no message is given up while Temporal is away, however long; one that it refuses is parked and shown', async () => {
  const { db } = world;
  const short = await makeShort(world, 10);
  const nowhere = new Client({
    connection: Connection.lazy({ address: '127.0.0.1:1' }),
    namespace: 'svc',
  });
  const due = () =>
    many(db, 'update outbox set next_at = now() where workflow_id = :id', { id: short.ticket_id });
  for (let n = 0; n < 3; n += 1) {
    await due();
    expect(await dispatchDue(db, nowhere, log)).toBeGreaterThan(0);
  }
  const [row] = await db('outbox').where({ workflow_id: short.ticket_id });
  expect(row).toMatchObject({ attempts: 0, parked_at: null, last_error: expect.any(String) });
  await nowhere.connection.close();

  await many(
    db,
    "update outbox set workflow = 'unheardOf', attempts = 19, next_at = now() where workflow_id = :id",
    {
      id: short.ticket_id,
    },
  );
  await dispatchAll();
  expect((await outbox.list(db, 'parked', { page: 1, per_page: 10 })).rows).toMatchObject([
    { workflow_id: short.ticket_id, workflow: 'unheardOf' },
  ]);
  await many(db, "update outbox set workflow = 'costTicket' where workflow_id = :id", {
    id: short.ticket_id,
  });
  expect(await outbox.unpark(db)).toBe(1);
  await dispatchAll();
  expect((await describe(short)).status.name).toBe('RUNNING');
});

test("a ticket past its deadline without a workflow is given one by reconcile's page", async () => {
  const { db } = world;
  const short = await makeShort(world, 10);
  const { ticket_id } = short;
  await many(db, 'delete from outbox where workflow_id = :ticket_id', { ticket_id });
  await many(
    db,
    `update cost_tickets set expires_at = clock_timestamp() - interval '1 minute' where id = :ticket_id`,
    { ticket_id },
  );
  expect(await tickets.adoptOrphans(db, 100)).toBe(1);
  expect(await tickets.adoptOrphans(db, 100)).toBe(0);
  await dispatchAll();
  await until(async () => (await eventsOf(db, short.org_id, 'cost_ticket.resolved')).length === 1);
});

test('the nightly audit ends well on a whole ledger, and fails by name on a broken one', async () => {
  const { client, db } = world;
  const run = (workflowId: string) =>
    client.workflow.execute('audit', { workflowId, taskQueue: 'lifecycle' });
  expect(await run('audit-whole')).toEqual({ clean: true });
  const short = await makeShort(world, 10);
  const move = (nanos: number) =>
    many(db, 'update wallets set balance_nanos = balance_nanos + :nanos where id = :id', {
      nanos,
      id: short.wallet_id,
    });
  await move(5);
  const failure = await run('audit-broken').catch((error) => error);
  await move(-5);
  expect(failure.cause.cause).toMatchObject({
    type: 'ledger_broken',
    details: [expect.objectContaining({ check: 'balance_is_sum_of_entries' })],
  });
});

test('the nightly check of prices says what is to be mended, and tells the platform once', async () => {
  const { client, db } = world;
  const target = { id: 'a', provider: 'openai', models: ['gpt-4o', 'not-priced'] };
  const config = JSON.stringify({ providers: { targets: [target] } });
  await many(
    db,
    `insert into gateway_configs (config, config_hash, created_by) values (:config, 'x', 'test') returning version`,
    { config },
  );
  const run = { workflowId: 'prices', taskQueue: 'lifecycle' };
  const found = await client.workflow.execute('pricesCheck', run);
  expect(found.unpriced).toContain('openai/not-priced');
  expect(found.faults).toBeGreaterThan(0);
  await until(async () => {
    const [event] = await eventsOf(db, 'platform', 'prices.checked');
    return event !== undefined && event.faults === found.faults;
  });
});
