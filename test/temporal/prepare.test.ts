import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Client, Connection } from '@temporalio/client';
import { many } from '../../domain/sql';
import { createLog } from '../../runtime/log';
import { root } from '../../runtime/root';
import { openTemporal } from '../../temporal/client';
import { dispatchDue } from '../../temporal/outbox';
import { missingParts } from '../../temporal/prepare';
import { makeTenant, secrets_key, serve } from '../support/api';
import { openTestDatabase, type TestDatabase } from '../support/database';
import { gatewayToken } from '../support/keys';
import { makePrice, reserveBody } from '../support/ledger';
import { until } from '../support/until';

const address = process.env.TEST_TEMPORAL_ADDRESS as string;
let database: TestDatabase;
let connection: Connection;
const started: ChildProcess[] = [];

beforeAll(async () => {
  database = await openTestDatabase();
  connection = await Connection.connect({ address });
});

afterAll(async () => {
  for (const child of started) child.kill('SIGKILL');
  await connection.close();
  await database.close();
});

/** A process of the product on a namespace; `exit` is its code. */
function run(namespace: string, file: string, ...args: string[]) {
  const child = spawn(process.execPath, ['run.cjs', file, ...args], {
    cwd: root,
    env: {
      ...process.env,
      DATABASE_URL: database.url,
      TEMPORAL_ADDRESS: address,
      TEMPORAL_NAMESPACE: namespace,
      SVC_SECRETS_KEY: secrets_key,
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

const admin = (namespace: string) => run(namespace, 'api/admin.ts', 'prepare');

test('a worker that finds no namespace says what is missing, waits, and works once it is prepared', async () => {
  const namespace = `test-${randomUUID()}`;
  const worker = run(namespace, 'workers/lifecycle.ts');
  await until(() => worker.output().includes('npm run admin -- prepare'));
  expect(worker.output()).toContain(`the namespace ${namespace}`);
  expect(worker.child.exitCode).toBeNull();

  const prepared = admin(namespace);
  expect(await prepared.exit).toBe(0);
  expect(prepared.output()).toContain(`has the namespace ${namespace}`);
  await until(() => worker.output().includes('worker_lifecycle runs'));
  // It says what is missing once, however often it looks.
  const said = worker.output().match(/Temporal lacks [^"]*/g) ?? [];
  expect(new Set(said).size).toBe(said.length);
  const client = new Client({ connection, namespace });
  await until(async () => {
    const { info } = await client.schedule.getHandle('reconcile').describe();
    return info.recentActions.length > 0;
  });
  worker.child.kill('SIGTERM');
  expect(await worker.exit).toBe(0);
});

test('prepare makes namespace, attributes and schedules, and may be run again', async () => {
  const namespace = `test-${randomUUID()}`;
  const client = new Client({ connection, namespace });
  expect(await missingParts(client)).toEqual([`the namespace ${namespace}`]);
  expect(await admin(namespace).exit).toBe(0);
  expect(await missingParts(client)).toEqual([]);
  const { namespaceInfo, config } = await connection.workflowService.describeNamespace({
    namespace,
  });
  expect(namespaceInfo?.name).toBe(namespace);
  expect(Number(config?.workflowExecutionRetentionTtl?.seconds)).toBe(7 * 24 * 3_600);

  // An older version left another time of day, and a person paused it.
  const audit = client.schedule.getHandle('audit');
  await audit.update((previous) => ({ ...previous, spec: { calendars: [{ hour: 5 }] } }));
  // The server takes a pause before an update that came in the same moment, and so loses it.
  await until(async () => (await audit.describe()).spec.calendars?.[0]?.hour?.[0]?.start === 5);
  await audit.pause('while the disk is replaced');
  await until(async () => (await audit.describe()).state.paused);
  expect(await admin(namespace).exit).toBe(0);
  const { spec, state } = await audit.describe();
  expect(spec.calendars).toMatchObject([
    { hour: [{ start: 3, end: 3 }], minute: [{ start: 30, end: 30 }] },
  ]);
  expect(state).toMatchObject({ paused: true, note: 'while the disk is replaced' });
});

test('while the namespace is missing messages wait, none is put aside, and verdicts are 503', async () => {
  const { db } = database;
  const namespace = `test-${randomUUID()}`;
  const client = new Client({ connection, namespace });
  const temporal = openTemporal({ address, namespace }, db);
  const { call, close } = await serve({ db, temporal });
  await makePrice(db);
  const tenant = await makeTenant(db);
  const refused = await call('post', '/v1/gateway/wallets/reserve', {
    key: await gatewayToken(db),
    body: reserveBody(tenant.org_id, 10),
  });
  expect(refused.status).toBe(402);
  for (let tries = 0; tries < 25; tries += 1) {
    await many(db, 'update outbox set next_at = clock_timestamp()');
    expect(await dispatchDue(db, client, createLog('test', 'fatal'))).toBeGreaterThan(0);
  }
  expect(await many(db, 'select id from outbox where parked_at is not null')).toEqual([]);

  const ticket = `/v1/cost-tickets/${refused.body.cost_ticket.id}`;
  const denied = await call('post', `${ticket}/deny`, { key: tenant.billing_key, body: {} });
  expect([denied.status, denied.headers['retry-after']]).toEqual([503, '2']);
  await close();
  await temporal.close();
});
