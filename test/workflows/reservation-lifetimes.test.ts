import { randomUUID } from 'node:crypto';
import { Client, Connection, WorkflowNotFoundError } from '@temporalio/client';
import { NativeConnection, type Worker } from '@temporalio/worker';
import { createActivities } from '../../activities';
import { type Batches, openBatches } from '../../api/ledger/batches';
import * as reservations from '../../domain/ledger/reservations';
import { type Db, many } from '../../domain/sql';
import { createLog } from '../../runtime/log';
import { dispatchDue } from '../../temporal/outbox';
import { bundleWorkflows } from '../../workers/bundle';
import { createWorkers } from '../../workers/run';
import { secrets } from '../support/api';
import { openTestDatabase } from '../support/database';
import {
  balance,
  closeClean,
  credit,
  eventsOf,
  makeOrg,
  makePrice,
  reserveBody,
  settleBody,
  TOKEN,
} from '../support/ledger';
import { until } from '../support/until';
import { restOf, sendAll } from '../support/worker';

const log = createLog('test', 'fatal');
let db: Db;
let lanes: Batches;
let close: () => Promise<void>;
let connection: NativeConnection;
let client: Client;
let workers: Worker[];
let running: Promise<unknown>;
// A queue and a namespace shared with other test files would mix their workers.
const address = process.env.TEST_TEMPORAL_ADDRESS as string;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  lanes = openBatches(db, log);
  await makePrice(db);
  connection = await NativeConnection.connect({ address });
  client = new Client({ connection: await Connection.connect({ address }), namespace: 'svc' });
  const workflow_code = await bundleWorkflows();
  workers = await createWorkers({
    name: 'worker_lifecycle',
    connection,
    namespace: 'svc',
    activities: createActivities({ db, secrets, payment_hosts: [] }),
    workflow_code,
  });
  running = Promise.all(workers.map((worker) => worker.run()));
});

afterAll(async () => {
  for (const worker of workers) worker.shutdown();
  await running;
  await client.connection.close();
  await connection.close();
  await closeClean(db, lanes, close);
});

/** Sends the one message of an organization's first hold. */
async function sendFirst(org_id: string): Promise<void> {
  expect(await db('outbox').where({ org_id })).toHaveLength(1);
  await send();
}

const send = () => sendAll({ db, dispatch: () => dispatchDue(db, client, log) });

/** Lets it look now, unless it is over: it would by itself, within a minute. */
async function wake(org_id: string): Promise<void> {
  const handle = client.workflow.getHandle(`lifetimes-${org_id}`);
  await handle.signal('wake').catch((error) => {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  });
}

async function describe(org_id: string) {
  return client.workflow.getHandle(`lifetimes-${org_id}`).describe();
}

test('an abandoned hold expires by itself, once, and the workflow that did it is readable and ends', async () => {
  const org = await makeOrg(db, { reservation_ttl_seconds: 300 });
  await credit(db, org.org_id, org.org_wallet, 100n * TOKEN);
  const hold = await lanes.reserve(reserveBody(org.org_id, 40));
  await sendFirst(org.org_id);
  expect(await restOf(client, `lifetimes-${org.org_id}`)).toBeLessThanOrEqual(60);
  const seen = await describe(org.org_id);
  expect(await seen.staticSummary()).toMatch(/^Holds of organization Org /);
  expect(seen.searchAttributes).toMatchObject({
    OrgId: [org.org_id],
    Kind: ['reservationLifetimes'],
    Status: ['running'],
  });
  await many(
    db,
    `update reservations set expires_at = clock_timestamp() + interval '1 second' where id = :id`,
    { id: hold.reservation_id },
  );
  await wake(org.org_id);
  await until(async () => (await eventsOf(db, org.org_id, 'reservation.expired')).length === 1);
  expect(await balance(db, org.org_wallet)).toEqual({
    balance_nanos: 100n * TOKEN,
    reserved_nanos: 0n,
  });
  await until(async () => (await describe(org.org_id)).status.name === 'COMPLETED');
  expect(await summaries(org.org_id)).toEqual(
    new Set([
      'Expire overdue holds and find the next deadline',
      'Until the next hold lapses, a minute at most, or an earlier one is made',
    ]),
  );
});

/** The line that Temporal's page shows beside each activity and timer. */
async function summaries(org_id: string): Promise<Set<string>> {
  const { events } = await client.workflow.getHandle(`lifetimes-${org_id}`).fetchHistory();
  const steps = (events ?? []).filter(
    (event) => event.activityTaskScheduledEventAttributes || event.timerStartedEventAttributes,
  );
  return new Set(
    steps.map(({ userMetadata }) => JSON.parse(String(userMetadata?.summary?.data ?? '""'))),
  );
}

test('a hold made after the workflow ended wakes it again; a settled hold lets it end without expiring anything', async () => {
  const org = await makeOrg(db, { reservation_ttl_seconds: 300 });
  await credit(db, org.org_id, org.org_wallet, 100n * TOKEN);
  for (let round = 0; round < 2; round += 1) {
    const hold = await lanes.reserve(reserveBody(org.org_id, 40));
    await sendFirst(org.org_id);
    await lanes.settle(settleBody(org.org_id, hold.reservation_id, 10));
    await wake(org.org_id);
    await until(async () => (await describe(org.org_id)).status.name === 'COMPLETED');
  }
  expect(await eventsOf(db, org.org_id, 'reservation.expired')).toEqual([]);
});

test("holds whose workflow was lost with Temporal's store are adopted by reconcile and expire once", async () => {
  const org = await makeOrg(db, { reservation_ttl_seconds: 1 });
  await credit(db, org.org_id, org.org_wallet, 100n * TOKEN);
  const hold = await lanes.reserve(reserveBody(org.org_id, 40));
  // The message was sent and the workflow is gone: nothing in Temporal knows of this hold.
  await many(db, 'delete from outbox where org_id = :org_id', { org_id: org.org_id });
  await many(
    db,
    `update reservations set expires_at = expires_at - interval '1 minute' where id = :id`,
    { id: hold.reservation_id },
  );
  const result = await client.workflow.execute('reconcile', {
    taskQueue: 'lifecycle',
    workflowId: `reconcile-${randomUUID()}`,
  });
  expect(result).toMatchObject({ adopted: 1 });
  await send();
  await until(async () => (await eventsOf(db, org.org_id, 'reservation.expired')).length === 1);
});

test('a message that Temporal does not take is tried again, parked after 20 tries, and then adopted anew', async () => {
  const org = await makeOrg(db);
  await credit(db, org.org_id, org.org_wallet, 100n * TOKEN);
  const hold = await lanes.reserve(reserveBody(org.org_id, 40));
  // Longer than Temporal takes: a refusal of this message, not an outage.
  await many(
    db,
    "update outbox set workflow_id = repeat('x', 2000), next_at = now() where org_id = :org_id",
    { org_id: org.org_id },
  );
  await dispatchDue(db, client, log);
  const tried = await many<{ attempts: number; last_error: string }>(
    db,
    'select attempts, last_error from outbox where org_id = :org_id',
    { org_id: org.org_id },
  );
  expect(tried).toEqual([{ attempts: 1, last_error: expect.any(String) }]);
  await many(
    db,
    'update outbox set attempts = 19, next_at = clock_timestamp() where org_id = :org_id',
    { org_id: org.org_id },
  );
  await dispatchDue(db, client, log);
  expect(
    await many(db, 'select parked_at is not null as parked from outbox where org_id = :org_id', {
      org_id: org.org_id,
    }),
  ).toEqual([{ parked: true }]);
  await many(
    db,
    `update reservations set expires_at = clock_timestamp() - interval '1 minute' where id = :id`,
    { id: hold.reservation_id },
  );
  expect(await reservations.adoptOrphans(db, 100)).toBe(1);
});
