import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { many } from '../../domain/sql';
import { root } from '../../runtime/root';
import { freePorts } from '../../sandbox/processes/ports';
import { afterWritten, sumsOf } from '../exports/world';
import { type Answer, makeTenant, type Tenant } from '../support/api';
import { openPaymentProcesses, type PaymentProcesses } from '../support/payments/processes';
import { type Cluster, openCluster } from '../support/postgres/cluster';
import { scratchRoot } from '../support/scratch';
import { until } from '../support/until';
import {
  export_steps,
  makeStalls,
  stallAt,
  stallNoMore,
  standsStill,
  wholeFolder,
} from './export-stalls';

// The database ends in the middle of an export and is started again: the job goes on by itself,
// and nothing in its files tells of it.

/** Several pages. */
const EVENTS = 12_000;

let data_dir: string;
let dir: string;
let cluster: Cluster;
let world: PaymentProcesses;
let tenant: Tenant;
let worker: ChildProcess;
let period: { from: string; to: Date };
let undisturbed: { sums: Record<string, string>; manifest: object };

beforeAll(async () => {
  data_dir = await mkdtemp(path.join(scratchRoot(), 'svc-cluster-'));
  // The system user that PostgreSQL runs as under root must enter it.
  await chmod(data_dir, 0o755);
  dir = await mkdtemp(path.join(tmpdir(), 'svc-exports-'));
  const [port = 0] = await freePorts(1);
  cluster = await openCluster({ data_dir, port, durable: true });
  world = await openPaymentProcesses({ EXPORT_DIR: dir }, cluster.template);
  worker = spawn(process.execPath, ['run.cjs', 'workers/main.ts', 'export'], {
    cwd: root,
    env: world.env,
    stdio: 'ignore',
  });
  tenant = await makeTenant(world.db);
  const { org_id, wallet_id } = tenant;
  await many(
    world.db,
    `select credit(:org_id, :wallet_id, n, 'credit ' || n) from generate_series(1, 500) as n`,
    { org_id, wallet_id },
  );
  await many(
    world.db,
    `insert into events (id, created_at, org_id, type, payload)
     select q.id, id_time(q.id), :org_id, 'request.completed', jsonb_build_object('n', q.n, 'text', md5(q.n::text))
     from (select new_id('evt') as id, n from generate_series(1, :events) as n offset 0) as q`,
    { org_id, events: EVENTS },
  );
  period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: await afterWritten() };
  await makeStalls(world.db);
  // The worker takes up its folder as it starts.
  let asked: Answer | undefined;
  await until(async () => {
    asked = await ask();
    return asked.status === 201;
  });
  const done = await ended(asked?.body.id);
  expect(done.status).toBe('completed');
  expect(Number(done.rows)).toBeGreaterThan(EVENTS);
  undisturbed = { sums: sumsOf(done), manifest: await wholeFolder(dir, done.id) };
});

afterAll(async () => {
  worker?.kill('SIGKILL');
  await world?.close();
  await cluster?.stop();
  for (const folder of [dir, data_dir]) await rm(folder, { recursive: true, force: true });
});

function ask(): Promise<Answer> {
  const body = { kinds: ['events', 'ledger', 'statement'], format: 'csv', ...period };
  return world.call('post', '/v1/exports', { key: tenant.owner_key, body });
}

/** How an export ended. The API is 503 while it has not found its way back to the database. */
async function ended(id: string): Promise<Answer['body']> {
  let answer: Answer | undefined;
  await until(async () => {
    answer = await world.call('get', `/v1/exports/${id}`, { key: tenant.owner_key });
    return answer.status === 200 && !['queued', 'running'].includes(answer.body.status);
  });
  return answer?.body;
}

/** The database answers this process again, whose connections were cut. */
async function isBack(): Promise<boolean> {
  return many(world.db, 'select 1').then(
    () => true,
    () => false,
  );
}

const endings = {
  'stopped in order': () => cluster.stop(),
  killed: () => cluster.kill(),
};

test.each([
  ['stopped in order', 'exited 0'],
  ['killed', 'ended by SIGKILL'],
] as const)(
  'a database that is %s at each step of an export and started again changes none of its bytes',
  async (how, how_ended) => {
    const [first, ...further] = export_steps;
    await stallAt(world.db, first);
    const asked = await ask();
    expect(asked.status).toBe(201);
    const { id } = asked.body;
    for (const next of [...further, undefined]) {
      await until(() => standsStill(world.db));
      await stallNoMore(world.db);
      if (next !== undefined) await stallAt(world.db, next);
      expect(await endings[how]()).toBe(how_ended);
      await cluster.start();
      await until(isBack);
    }
    const done = await ended(id);
    expect(done).toMatchObject({ status: 'completed', error_code: null });
    expect(sumsOf(done)).toEqual(undisturbed.sums);
    expect(await wholeFolder(dir, id)).toEqual(undisturbed.manifest);
    const told = await many<{ type: string }>(
      world.db,
      `select type from events where org_id = :org_id and payload ->> 'export_id' = :id`,
      { org_id: tenant.org_id, id },
    );
    expect(told.map(({ type }) => type)).toEqual(['export.completed']);
    // No step counts the outage as a failure of its own.
    const { events } = await world.client.workflow.getHandle(id).fetchHistory();
    const failures = (events ?? []).flatMap(
      (one) => one.activityTaskStartedEventAttributes?.lastFailure ?? [],
    );
    const types = failures.map(({ applicationFailureInfo }) => applicationFailureInfo?.type);
    expect(types.length).toBeGreaterThan(0);
    expect(new Set(types)).toEqual(new Set(['unavailable']));
    // Nobody started it again.
    expect([worker.exitCode, worker.signalCode]).toEqual([null, null]);
  },
);
