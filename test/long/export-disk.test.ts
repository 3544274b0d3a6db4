import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { msToTs } from '@temporalio/common/lib/time';
import { knownMarker } from '../../domain/exports/steps';
import { many } from '../../domain/sql';
import { MARKER, markFolder } from '../../exports/folder';
import { root } from '../../runtime/root';
import {
  afterWritten,
  type ExportWorld,
  filesBelow,
  openExportWorld,
  startWorkerProcess,
  sumsOf,
} from '../exports/world';
import { type Answer, makeTenant, type Tenant } from '../support/api';
import { openTestDatabase } from '../support/database';
import { until } from '../support/until';
import { keepSending } from '../support/worker';
import { wholeFolder } from './export-stalls';
import { openSmallDisk, type SmallDisk } from './small-disk';

// Exports on a disk that is really full, in each way in which one can be, and that gets room again.

/** Compressed, they are several times the disk. */
const EVENTS = 600;
/** A worker of exports lets all others go first, so a busy machine may take minutes. */
const PATIENCE_MS = 300_000;

let disk: SmallDisk;
let world: ExportWorld;
let stopSending: () => Promise<void>;
let worker: ChildProcess;
let small: Tenant;
let large: Tenant;
let larger: Tenant;
let period: { from: string; to: Date };

beforeAll(async () => {
  disk = openSmallDisk('size=1m,nr_inodes=64');
  world = await openExportWorld([], disk.dir);
  stopSending = keepSending(world);
  small = await makeTenant(world.db);
  [large, larger] = [await makeTenant(world.db), await makeTenant(world.db)];
  await many(
    world.db,
    `select credit(:org_id, :wallet_id, n, 'credit ' || n) from generate_series(1, 200) as n`,
    { org_id: small.org_id, wallet_id: small.wallet_id },
  );
  await many(
    world.db,
    `insert into events (id, created_at, org_id, type, payload)
     select q.id, id_time(q.id), case q.n % 2 when 0 then :large else :larger end, 'request.completed', jsonb_build_object('n', q.n, 'text', q.text)
     from (select new_id('evt') as id, n, (select string_agg(md5(n || ' ' || k), '') from generate_series(1, 330) as k) as text
       from generate_series(1, :events) as n offset 0) as q`,
    { large: large.org_id, larger: larger.org_id, events: EVENTS * 2 },
  );
  period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: await afterWritten() };
  worker = startWorkerProcess(world);
});

afterAll(async () => {
  worker?.kill('SIGKILL');
  await stopSending?.();
  await world?.close();
  disk?.close();
});

async function ask({ owner_key: key }: Tenant, kinds: string[], format = 'jsonl'): Promise<string> {
  const answer = await world.call('post', '/v1/exports', {
    key,
    body: { kinds, format, ...period },
  });
  expect(answer.status).toBe(201);
  return answer.body.id;
}

const look = async ({ owner_key: key }: Tenant, id: string): Promise<Answer['body']> =>
  (await world.call('get', `/v1/exports/${id}`, { key })).body;

async function ended(tenant: Tenant, id: string): Promise<Answer['body']> {
  let body: Answer['body'];
  await until(async () => {
    body = await look(tenant, id);
    return !['queued', 'running'].includes(body.status);
  }, PATIENCE_MS);
  return body;
}

/** A whole export of the organization that needs little. */
async function smallExport(): Promise<object> {
  const id = await ask(small, ['ledger']);
  expect(await ended(small, id)).toMatchObject({ status: 'completed' });
  return wholeFolder(world.dir, id);
}

/** The step of an export that is tried again later: how often it was tried, and why it failed. */
async function failing(id: string) {
  // There is none until the outbox has brought it there.
  const handle = world.client.workflow.getHandle(id);
  const described = await handle.describe().catch(() => undefined);
  const [step] = described?.raw.pendingActivities ?? [];
  const { message, applicationFailureInfo } = step?.lastFailure ?? {};
  // Scheduled, and no worker has it.
  const is_waiting = step?.state === 1 && step.lastFailure != null;
  return { tries: step?.attempt, is_waiting, message, type: applicationFailureInfo?.type };
}

/** Waits until a step has failed so, and words for it. */
async function failedAs(type: string, id: string): Promise<string> {
  let words = '';
  await until(async () => {
    const found = await failing(id);
    words = found.message ?? '';
    return found.type === type;
  }, PATIENCE_MS);
  return words;
}

const filesOf = async (id: string) =>
  (await filesBelow(world.dir)).filter((name) => name.includes(id));

/** Between two tries of a step there is nothing of its file. */
async function leavesNothing(id: string): Promise<void> {
  await until(async () => {
    const before = await failing(id);
    const files = await filesOf(id);
    const after = await failing(id);
    const is_between = before.is_waiting && after.is_waiting && before.tries === after.tries;
    return is_between && files.length === 0;
  });
}

/** Lets the failing step of an export be tried again every 100 ms, as operators can in Temporal. */
async function tryOften(id: string): Promise<void> {
  const interval = msToTs(100);
  await world.client.workflowService.updateActivityOptions({
    namespace: world.namespace,
    execution: { workflowId: id },
    type: 'writeExportPart',
    activityOptions: {
      retryPolicy: { initialInterval: interval, maximumInterval: interval, backoffCoefficient: 1 },
    },
    updateMask: {
      paths: [
        'retry_policy.initial_interval',
        'retry_policy.maximum_interval',
        'retry_policy.backoff_coefficient',
      ],
    },
  });
}

async function eventsOf(id: string): Promise<string[]> {
  const rows = await many<{ type: string }>(
    world.db,
    `select type from events where payload ->> 'export_id' = :id order by id`,
    { id },
  );
  return rows.map(({ type }) => type);
}

test('a disk that stays full for ten minutes ends the export with words; nothing of it is left, and others go on', async () => {
  const before = await smallExport();
  const id = await ask(large, ['events']);
  const words = await failedAs('export_target_full', id);
  expect(words).toMatch(/disk of worker_export is full \(ENOSPC\).*Make some.*ask for it again/);
  const met = { error_code: 'export_target_full', error_message: words };
  expect(await look(large, id)).toMatchObject({ status: 'running', ...met });
  await leavesNothing(id);
  expect(await smallExport()).toEqual(before);
  // Another worker goes on, ten minutes later by its clock.
  worker.kill('SIGTERM');
  await once(worker, 'exit');
  const ahead = path.join(root, 'test/long/clock-ahead.cjs');
  worker = startWorkerProcess(world, {
    NODE_OPTIONS: `--require ${ahead}`,
    CLOCK_AHEAD_MS: '660000',
  });
  await tryOften(id);
  const failed = await ended(large, id);
  expect(failed).toMatchObject({ status: 'failed', ...met });
  expect(await eventsOf(id)).toEqual(['export.failed']);
  await until(async () => (await filesOf(id)).length === 0);
  expect(await smallExport()).toEqual(before);
  worker.kill('SIGTERM');
  await once(worker, 'exit');
  worker = startWorkerProcess(world);
});

test('once there is room the same exports go on by themselves, with the bytes of undisturbed ones', async () => {
  const before = await smallExport();
  const asked = [
    { tenant: large, format: 'jsonl' },
    { tenant: larger, format: 'parquet' },
  ];
  const ids = await Promise.all(asked.map(({ tenant, format }) => ask(tenant, ['events'], format)));
  for (const id of ids) await failedAs('export_target_full', id);
  for (const id of ids) await leavesNothing(id);
  expect(await smallExport()).toEqual(before);
  disk.change('size=64m');
  for (const [at, { tenant, format }] of asked.entries()) {
    const id = ids[at] as string;
    const done = await ended(tenant, id);
    expect([done.status, done.error_code]).toEqual(['completed', null]);
    expect(await eventsOf(id)).toEqual(['export.completed']);
    const manifest = await wholeFolder(world.dir, id);
    const again = await ended(tenant, await ask(tenant, ['events'], format));
    expect([again.status, sumsOf(again)]).toEqual(['completed', sumsOf(done)]);
    expect(await wholeFolder(world.dir, again.id)).toEqual(manifest);
  }
  expect(await smallExport()).toEqual(before);
});

test('a disk that has no place for another folder is said in the same words', async () => {
  const before = await smallExport();
  const fillers: string[] = [];
  const fill = async () => {
    const filler = path.join(world.dir, `filler-${fillers.length}`);
    await writeFile(filler, '');
    fillers.push(filler);
    return fill();
  };
  await expect(fill()).rejects.toMatchObject({ code: 'ENOSPC' });
  const id = await ask(small, ['ledger']);
  expect(await failedAs('export_target_full', id)).toMatch(/full \(ENOSPC\).*Make some/);
  for (const filler of fillers) await rm(filler);
  expect(await ended(small, id)).toMatchObject({ status: 'completed' });
  expect(await wholeFolder(world.dir, id)).toEqual(before);
});

test('a disk that may only be read is said, and the export goes on once it may be written', async () => {
  const before = await smallExport();
  disk.change('ro');
  const id = await ask(small, ['ledger']);
  const words = await failedAs('export_target_failed', id);
  expect(words).toMatch(/cannot write files on its disk \(EROFS\).*ask for it again/);
  disk.change('rw');
  expect(await ended(small, id)).toMatchObject({ status: 'completed' });
  expect(await wholeFolder(world.dir, id)).toEqual(before);
});

test('a folder on a full disk is not marked, and is once there is room', async () => {
  const { db, close } = await openTestDatabase(2);
  const full = openSmallDisk('size=64k');
  const { dir } = full;
  const marker = path.join(dir, MARKER);
  const filler = path.join(dir, 'filler');
  await expect(writeFile(filler, Buffer.alloc(1_048_576))).rejects.toMatchObject({
    code: 'ENOSPC',
  });
  // Twice: what the first try leaves must not be the mark of the second.
  for (let tries = 0; tries < 2; tries += 1) {
    await expect(markFolder({ db, dir })).rejects.toMatchObject({ code: 'ENOSPC' });
    expect([await readdir(dir), await knownMarker(db)]).toEqual([['filler'], undefined]);
  }
  await rm(filler);
  // As a version before this one has left it.
  await writeFile(marker, '');
  await Promise.all([markFolder({ db, dir }), markFolder({ db, dir })]);
  const text = await readFile(marker, 'utf8');
  expect([text, await readdir(dir)]).toEqual([await knownMarker(db), [MARKER]]);
  expect(text).toMatch(/^[0-9a-f-]{36}$/);
  full.close();
  await close();
});
