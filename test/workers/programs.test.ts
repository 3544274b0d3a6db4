import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import path from 'node:path';
import { Context } from '@temporalio/activity';
import { Client, Connection } from '@temporalio/client';
import { bundleWorkflowCode, DefaultLogger, NativeConnection } from '@temporalio/worker';
import { request } from 'undici';
import { activities_of } from '../../activities';
import { root } from '../../runtime/root';
import { API_VERSION } from '../../runtime/version';
import { freePorts } from '../../sandbox/processes/ports';
import { useTemporal } from '../../sandbox/servers/temporal';
import { versionIn, type WorkerName } from '../../temporal/queues';
import { createWorkers } from '../../workers/run';
import { payment_hosts, secrets, secrets_key } from '../support/api';
import { openTestDatabase, type TestDatabase } from '../support/database';
import { until } from '../support/until';
import { installRuntime } from '../support/worker';

const address = process.env.TEST_TEMPORAL_ADDRESS as string;
const namespace = `test-${randomUUID()}`;
let database: TestDatabase;
let connection: Connection;
let client: Client;
const started: ChildProcess[] = [];

beforeAll(async () => {
  installRuntime();
  database = await openTestDatabase();
  await useTemporal({ address }, namespace);
  connection = await Connection.connect({ address });
  client = new Client({ connection, namespace });
});

afterAll(async () => {
  for (const child of started) child.kill('SIGKILL');
  await connection.close();
  await database.close();
});

/** `npm run start:worker -- names`; `exit` is its code. */
function startWorker(names: string[], more: Record<string, string> = {}) {
  const child = spawn(process.execPath, ['run.cjs', 'workers/main.ts', ...names], {
    cwd: root,
    env: {
      ...process.env,
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      SVC_SECRETS_KEY: secrets_key,
      LOG_LEVEL: 'info',
      ...more,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  started.push(child);
  let text = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      text += chunk;
    });
  return { child, output: () => text, exit: once(child, 'exit').then(([code]) => code) };
}

/** Who asks a queue for work, by the names that the workers give themselves. */
async function pollersOf(task_queue: string): Promise<string[]> {
  const { pollers } = await connection.workflowService.describeTaskQueue({
    namespace,
    taskQueue: { name: task_queue },
    taskQueueType: 1,
  });
  return [...new Set((pollers ?? []).map(({ identity }) => identity ?? ''))];
}

test('a process runs the named programs and no other, each on its own queue, and ends on SIGTERM', async () => {
  const worker = startWorker(['export', 'config']);
  const runs = (name: string) => worker.output().includes(`${name} runs`);
  await until(() => runs('worker_export') && runs('worker_config'));
  for (const name of ['export', 'config']) {
    await until(async () => (await pollersOf(name)).length === 1);
    const [identity = ''] = await pollersOf(name);
    expect(identity).toMatch(new RegExp(`^worker_${name} .* ${worker.child.pid}@`));
    expect(versionIn(identity)).toBe('1.5.0');
  }
  for (const queue of ['payments', 'lifecycle']) expect(await pollersOf(queue)).toEqual([]);
  expect(worker.output()).not.toContain('worker_lifecycle');
  worker.child.kill('SIGTERM');
  expect(await worker.exit).toBe(0);
});

test('a name that is no worker ends the start with words, before anything is connected', async () => {
  const worker = startWorker(['export', 'exports']);
  expect(await worker.exit).toBe(1);
  expect(worker.output()).toBe(
    'There is no worker "exports". Usage: npm run start:worker -- [lifecycle] [export] [config]; ' +
      'no name starts all three.\n',
  );
});

test('probes tell whether a process of workers lives, and whether it takes tasks', async () => {
  const probe = async (port: string, path: string) => {
    const answer = await request(`http://127.0.0.1:${port}${path}`);
    return [answer.statusCode, await answer.body.json()];
  };
  const portOf = async (worker: ReturnType<typeof startWorker>) => {
    await until(() => worker.output().includes('probes listen'));
    return /"port":(\d+)/.exec(worker.output())?.[1] ?? '';
  };
  const given = { WORKER_PORT: '0', WORKER_HOST: '127.0.0.1' };
  const worker = startWorker(['export', 'config'], given);
  const port = await portOf(worker);
  expect(await probe(port, '/health')).toEqual([200, { status: 'ok', version: API_VERSION }]);
  await until(async () => (await probe(port, '/readyz'))[0] === 200);
  expect(await probe(port, '/')).toEqual([404, expect.objectContaining({ status: 'not found' })]);
  const clash = startWorker(['config'], { ...given, WORKER_PORT: port });
  expect(await clash.exit).toBe(1);
  expect(clash.output()).toContain(`Port ${port} is in use by another process. Set WORKER_PORT`);
  worker.child.kill('SIGTERM');
  expect(await worker.exit).toBe(0);

  const [nobody = 0] = await freePorts(1);
  const alone = startWorker(['config'], { ...given, TEMPORAL_ADDRESS: `127.0.0.1:${nobody}` });
  const lonely = await portOf(alone);
  expect((await probe(lonely, '/health'))[0]).toBe(200);
  const reason = 'Temporal is not connected yet';
  expect(await probe(lonely, '/readyz')).toEqual([503, { status: 'not ready', reason }]);
  alone.child.kill('SIGKILL');
});

test('no program has an activity of another one', () => {
  const given = { db: database.db, secrets, payment_hosts };
  const names = Object.values(activities_of).flatMap((make) => Object.keys(make(given)));
  expect(names.length).toBeGreaterThan(0);
  expect(new Set(names).size).toBe(names.length);
});

test.each<[WorkerName, string]>([
  ['worker_export', 'export'],
  ['worker_config', 'config'],
])(
  '%s gives a long step back at once when it stops, and another one ends it',
  async (name, queue) => {
    const { code } = await bundleWorkflowCode({
      workflowsPath: path.join(root, 'test/workers/hold-on.ts'),
      logger: new DefaultLogger('ERROR'),
    });
    const native = await NativeConnection.connect({ address });
    const run = async (holdOn: () => Promise<string>) => {
      const activities = { holdOn };
      const parts = { name, connection: native, namespace, activities, workflow_code: code };
      const workers = await createWorkers(parts);
      const running = Promise.all(workers.map((worker) => worker.run()));
      return async () => {
        for (const worker of workers) worker.shutdown();
        await running;
      };
    };
    let has_begun = false;
    const stopFirst = await run(async () => {
      has_begun = true;
      const { cancelled } = Context.current();
      return await (cancelled as Promise<never>);
    });
    const handle = await client.workflow.start('oneLongStep', {
      taskQueue: queue,
      workflowId: `long-${randomUUID()}`,
    });
    await until(() => has_begun);
    const stopping_at = performance.now();
    await stopFirst();
    const stopped_at = performance.now();
    const stopSecond = await run(async () => 'the second');
    expect(await handle.result()).toBe('the second');
    await stopSecond();
    // The 5 s that a short step gets were not waited for. The second worker, which has nothing to
    // give back, shows what a worker's end takes here.
    const second_ms = performance.now() - stopped_at;
    expect(stopped_at - stopping_at).toBeLessThan(3_000 + second_ms);
    // Nor were the heartbeat's 30 s: the step was told to be over.
    const { events } = await handle.fetchHistory();
    const ends = (events ?? []).map(
      ({ activityTaskStartedEventAttributes: one }) => one?.lastFailure,
    );
    expect(ends.filter((end) => end?.timeoutFailureInfo)).toEqual([]);
    await native.close();
  },
);
