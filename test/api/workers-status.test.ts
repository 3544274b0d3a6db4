import { one } from '../../domain/sql';
import { API_VERSION } from '../../runtime/version';
import { bringSchedules } from '../../temporal/schedules';
import { serve } from '../support/api';
import { platformKey } from '../support/keys';
import { openTicketWorld, type TicketWorld } from '../support/tickets';
import { until } from '../support/until';

let world: TicketWorld;
let key: string;

beforeAll(async () => {
  world = await openTicketWorld();
  key = await platformKey(world.db);
});

/** The workers in the order of the answer, each with so many pollers of its first queue. */
async function pollers(): Promise<[string, number][]> {
  const { workers } = (await status()).body;
  return workers.map((worker: { name: string; queues: { pollers: object[] }[] }) => [
    worker.name,
    worker.queues[0]?.pollers.length,
  ]);
}

test('a worker program that nobody started is named, with what starts it', async () => {
  await until(async () => (await pollers())[0]?.[1] === 1);
  expect((await status()).body).toMatchObject({
    status: 'degraded',
    problems: expect.arrayContaining([
      'No worker_export polls the queue export. Start one: npm run start:worker -- export.',
      'No worker_config polls the queue config. Start one: npm run start:worker -- config.',
    ]),
  });
  await world.runAlso('worker_export');
  await world.runAlso('worker_config');
  await until(async () => (await pollers()).every(([, count]) => count === 1));
  expect(await pollers()).toEqual([
    ['worker_lifecycle', 1],
    ['worker_export', 1],
    ['worker_config', 1],
  ]);
});

afterAll(() => world.close());

const status = () => world.call('get', '/v1/admin/workers/status', { key });

async function parked(): Promise<string> {
  const { id } = await one<{ id: bigint }>(
    world.db,
    `insert into outbox (org_id, workflow, workflow_id, input, parked_at, attempts, last_error)
     values ('org_1', 'costTicket', 'tkt_gone', '{}', clock_timestamp(), 20, 'it was refused') returning id`,
  );
  return String(id);
}

test('says what each queue’s pollers are, when the schedules ran, and that all is well', async () => {
  await bringSchedules(world.client, world.db);
  // Schedules that run at once end soon; that of the night has not run.
  await until(async () => {
    const { body } = await status();
    const [reconcile] = body.schedules;
    const { queues } = body.workers[0];
    const isPolled = ({ pollers }: { pollers: object[] }) => pollers.length === 1;
    return reconcile?.last_result === 'completed' && queues.every(isPolled);
  });
  const { status: code, body } = await status();
  const poller = (name: string) => ({
    identity: expect.stringMatching(new RegExp(`^${name} 1\\.5\\.0 \\d+@`)),
    version: API_VERSION,
    last_seen_at: expect.any(String),
  });
  const queue = {
    backlog: 0,
    oldest_task_age_seconds: 0,
    failed_workflows_last_day: 0,
    last_failed_at: null,
  };
  expect([code, body]).toMatchObject([
    200,
    {
      status: 'ok',
      problems: [],
      temporal: 'up',
      workers: [
        {
          name: 'worker_lifecycle',
          queues: [
            {
              ...queue,
              task_queue: 'payments',
              pollers: [poller('worker_lifecycle')],
              running_workflows: 0,
            },
            { ...queue, task_queue: 'lifecycle', pollers: [poller('worker_lifecycle')] },
            { ...queue, task_queue: 'notices', pollers: [poller('worker_lifecycle')] },
          ],
        },
        {
          name: 'worker_export',
          queues: [{ ...queue, task_queue: 'export', pollers: [poller('worker_export')] }],
        },
        {
          name: 'worker_config',
          queues: [{ ...queue, task_queue: 'config', pollers: [poller('worker_config')] }],
        },
      ],
      schedules: [
        { id: 'reconcile', status: 'active', next_at: expect.any(String) },
        { id: 'audit', status: 'active', last_ended_at: null, last_result: null },
        { id: 'exportUpkeep', status: 'active', next_at: expect.any(String) },
        { id: 'pricesCheck', status: 'active', last_ended_at: null, last_result: null },
      ],
      outbox: { waiting: 0, parked: 0, oldest_waiting_since: null, newest_parked_at: null },
    },
  ]);
});

test('a schedule that a person paused and a workflow that was terminated are said in words', async () => {
  await bringSchedules(world.client, world.db);
  await world.client.schedule.getHandle('audit').pause();
  await world.client.workflow.start('audit', { workflowId: 'audit-ended', taskQueue: 'nobody' });
  await world.client.workflow.getHandle('audit-ended').terminate();
  const ended = await world.client.workflow.start('reconcile', {
    workflowId: 'reconcile-ended',
    taskQueue: 'payments',
    startDelay: '1 hour',
  });
  await ended.terminate();
  await until(async () => (await status()).body.problems.length === 2);
  expect((await status()).body).toMatchObject({
    status: 'degraded',
    problems: [
      '1 workflow of payments failed within the last day. The Temporal page says why: ExecutionStatus = "Failed".',
      'The schedule audit is paused. Unpause it in the Temporal page.',
    ],
  });
  await world.client.schedule.getHandle('audit').unpause();
});

test('messages that were given up are listed, sent once more by hand, and gone once they are taken', async () => {
  const id = await parked();
  expect((await status()).body).toMatchObject({
    status: 'degraded',
    problems: expect.arrayContaining([
      expect.stringContaining('1 message to Temporal was given up'),
    ]),
    outbox: { waiting: 0, parked: 1 },
  });
  const list = (query: string) => world.call('get', `/v1/admin/outbox${query}`, { key });
  expect((await list('?status=parked')).body).toMatchObject({
    messages: [{ id, workflow: 'costTicket', attempts: 20, last_error: 'it was refused' }],
    total: 1,
  });
  const retry = (of: string) => world.call('post', `/v1/admin/outbox/${of}/retry`, { key });
  expect(await retry(id)).toMatchObject({
    status: 200,
    body: { id, attempts: 0, parked_at: null },
  });
  expect((await list('?status=parked')).body.messages).toEqual([]);
  expect(await retry(id)).toMatchObject({
    status: 409,
    body: { error: { code: 'message_not_parked' } },
  });
  // Its ticket does not exist, so there is nothing to start.
  await until(async () => (await world.dispatch()) === 0);
  expect((await list('')).body.messages).toEqual([]);
  expect((await retry(id)).status).toBe(404);
  expect((await retry('abc')).status).toBe(404);
});

test('says which migrations a database lacks, as one that was restored does', async () => {
  const { db } = world;
  const { migrations } = (await status()).body;
  expect(migrations).toEqual({ applied: expect.any(Number), pending: [] });
  const name = '0003-events.sql';
  const [row] = await db('knex_migrations').where({ name }).delete().returning('*');
  expect(row).toMatchObject({ name });
  const lacking = (await status()).body.migrations;
  await db('knex_migrations').insert(row);
  expect(lacking).toEqual({ applied: migrations.applied - 1, pending: [name] });
});

test('while Temporal is away the answer is 200, and says so', async () => {
  const { db } = world;
  const alone = await serve({ db }, '127.0.0.1:1');
  expect(await alone.call('get', '/v1/admin/workers/status', { key })).toMatchObject({
    status: 200,
    body: {
      status: 'degraded',
      temporal: 'away',
      problems: ['Temporal does not answer. Nothing is known of the workers.'],
      workers: [],
      schedules: [],
    },
  });
  await alone.close();
});
