import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { many } from '../../domain/sql';
import { makeTenant, type Tenant } from '../support/api';
import { randomOf, seed } from '../support/random';
import { until } from '../support/until';
import {
  type ExportWorld,
  ended,
  filesBelow,
  openExportWorld,
  startWorkerProcess,
  sumsOf,
} from './world';

// A worker that stops or dies between any two steps of an export leaves no trace in its files.
// EXPORT_KILLS=10 kills it ten times; each time its silence must first be noticed.

const KILLS = Number(process.env.EXPORT_KILLS ?? 1);
const STOPS = 4;
const DAYS = 3;

let world: ExportWorld;
let tenant: Tenant;
let period: { from: string; to: Date };
let expected: Record<string, string>;
const children: ChildProcess[] = [];
const random = randomOf(seed);

beforeAll(async () => {
  world = await openExportWorld();
  tenant = await makeTenant(world.db);
  const { org_id, wallet_id } = tenant;
  await many(
    world.db,
    `insert into events (id, created_at, org_id, type, payload)
     select q.id, id_time(q.id), :org_id, 'request.completed', jsonb_build_object('n', q.n, 'text', md5(q.n::text))
     from (select 'evt_' || lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint - (n % :days) * 86400000), 12, '0')
         || left(md5(n::text), 20) as id, n
       from generate_series(1, 60000) as n offset 0) as q`,
    { org_id, days: DAYS },
  );
  await many(
    world.db,
    `select credit(:org_id, :wallet_id, n, 'credit ' || n) from generate_series(1, 1500) as n`,
    { org_id, wallet_id },
  );
  const from = new Date(Date.now() - DAYS * 86_400_000).toISOString();
  period = { from, to: new Date() };
  const exporter = await world.startExporter();
  expected = sumsOf(await ended(world, tenant.owner_key, await ask()));
  await exporter.stop();
  expect(Object.keys(expected).length).toBeGreaterThan(4);
});

afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await world.close();
});

async function ask(): Promise<string> {
  const body = { kinds: ['events', 'ledger', 'statement'], ...period };
  const answer = await world.call('post', '/v1/exports', { key: tenant.owner_key, body });
  expect(answer.status).toBe(201);
  return answer.body.id;
}

async function rowsOf(id: string): Promise<number> {
  const { body } = await world.call('get', `/v1/exports/${id}`, { key: tenant.owner_key });
  return body.status === 'running' ? body.rows : Number.POSITIVE_INFINITY;
}

/** Waits until a worker has begun anew or gone on, and then for some moment more. */
async function getsOn(id: string, rows: number): Promise<void> {
  await until(async () => {
    await world.dispatch();
    return (await rowsOf(id)) !== rows;
    // Its silence is noticed after 10 s, and each further try waits longer, up to 30 s.
  }, 120_000);
  await sleep(random() * 120);
}

/** The export is complete, and its files are those of an export that nobody disturbed. */
async function requireSame(id: string): Promise<void> {
  const done = await ended(world, tenant.owner_key, id);
  expect(done).toMatchObject({ status: 'completed', error_code: null });
  expect(sumsOf(done)).toEqual(expected);
  const files = (await filesBelow(world.dir)).filter((name) => name.includes(id));
  expect(files.filter((name) => path.basename(name).startsWith('.'))).toEqual([]);
  expect(files.filter((name) => name.endsWith('manifest.json'))).toHaveLength(1);
  const manifest = files.find((name) => name.endsWith('manifest.json')) as string;
  const { files: named } = JSON.parse(await readFile(path.join(world.dir, manifest), 'utf8'));
  for (const { name } of named.filter((one: { name: string | null }) => one.name !== null))
    expect(files.map((one) => path.basename(one))).toContain(name);
}

test(`a worker that is stopped ${STOPS} times hands the file over at once: the same bytes`, async () => {
  const id = await ask();
  for (let stop = 0; stop < STOPS; stop += 1) {
    const rows = await rowsOf(id);
    const exporter = await world.startExporter();
    await getsOn(id, rows);
    await exporter.stop();
  }
  const exporter = await world.startExporter();
  await requireSame(id);
  await exporter.stop();
  // Nobody had to find out by silence.
  const { events } = await world.client.workflow.getHandle(id).fetchHistory();
  const failures = (events ?? []).map((one) => one.activityTaskStartedEventAttributes?.lastFailure);
  expect(failures.filter((one) => one?.timeoutFailureInfo)).toEqual([]);
  expect(failures.some((one) => one?.applicationFailureInfo?.type === 'WorkerStops')).toBe(true);
}, 900_000);

test(`a worker that is killed (${KILLS}) leaves no trace: the same bytes, one manifest`, async () => {
  const id = await ask();
  for (let kill = 0; kill < KILLS; kill += 1) {
    const rows = await rowsOf(id);
    const child = startProcess();
    await getsOn(id, rows);
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  startProcess();
  await requireSame(id);
}, 900_000);

test(`a database that ends the sessions that read, ${STOPS} times, changes nothing: the same bytes`, async () => {
  const id = await ask();
  startProcess();
  for (let ended_sessions = 0; ended_sessions < STOPS; ended_sessions += 1)
    await until(async () => {
      await world.dispatch();
      const cut = await many(
        world.db,
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and state = 'active' and query like 'copy (%'`,
      );
      return cut.length > 0;
    }, 120_000);
  await requireSame(id);
}, 900_000);

function startProcess(): ChildProcess {
  const child = startWorkerProcess(world);
  children.push(child);
  return child;
}
