import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createExportSteps } from '../../activities/exports';
import { moves } from '../../domain/exports/exports';
import { pagesOf } from '../../domain/exports/parts';
import * as steps from '../../domain/exports/steps';
import { many } from '../../domain/sql';
import { copyText } from '../../exports/copy-text';
import { removeLeft } from '../../exports/drafts';
import { createTargetOf } from '../../exports/open';
import { makeTenant, secrets, type Tenant } from '../support/api';
import { until } from '../support/until';
import { download, type ExportWorld, ended, filesBelow, lastHour, openExportWorld } from './world';

// How an export goes on and ends: completed, canceled, failed, expired; and what is left of it.

let world: ExportWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openExportWorld();
});

beforeEach(async () => {
  tenant = await makeTenant(world.db);
});

afterAll(() => world.close());

const HOUR_MS = 3_600_000;

async function ask(kinds: string[]): Promise<string> {
  const body = {
    kinds,
    ...(await lastHour()),
    format: 'jsonl',
  };
  const answer = await world.call('post', '/v1/exports', { key: tenant.owner_key, body });
  expect(answer.status).toBe(201);
  return answer.body.id;
}

/** So many events of the tenant, written now. */
async function addEvents(count: number, characters = 200): Promise<void> {
  await many(
    world.db,
    `insert into events (id, created_at, org_id, type, payload)
     select q.id, id_time(q.id), :org_id, 'request.completed', jsonb_build_object('n', q.n, 'text', repeat('x', :characters))
     from (select new_id('evt') as id, n from generate_series(1, :count) as n offset 0) as q`,
    { org_id: tenant.org_id, count, characters },
  );
  // An id's time is rounded to a millisecond: the last of them may be the one that has just begun.
  await sleep(5);
}

async function eventsOf(type: string) {
  return many<{ payload: Record<string, unknown> }>(
    world.db,
    'select payload from events where org_id = :org_id and type = :type',
    { org_id: tenant.org_id, type },
  );
}

test('a completed export has its event, its manifest last, and nothing beside its files', async () => {
  const exporter = await world.startExporter();
  const id = await ask(['audit_log', 'statement', 'tickets']);
  const done = await ended(world, tenant.owner_key, id);
  const handle = world.client.workflow.getHandle(id);
  await until(async () => (await handle.describe()).status.name === 'COMPLETED');
  await exporter.stop();
  expect(done).toMatchObject({ status: 'completed', parts_done: done.parts_total });
  const days_left = (Date.parse(done.expires_at) - Date.now()) / (24 * HOUR_MS);
  expect(days_left).toBeCloseTo(7, 1);
  const written = done.files.filter((one: { sha256: string | null }) => one.sha256 !== null);
  const folder = path.join(world.dir, 'org', tenant.org_id, id);
  expect(await readdir(folder)).toHaveLength(written.length);
  const last = Math.max(
    ...done.files.map((one: { written_at: string }) => Date.parse(one.written_at)),
  );
  expect(Date.parse(done.files[0].written_at)).toBe(last);
  expect(await eventsOf('export.completed')).toMatchObject([
    { payload: { export_id: id, kinds: ['audit_log', 'statement', 'tickets'], rows: done.rows } },
  ]);
  for (const table of ['export_rows', 'export_wallets'])
    expect(await world.db(table).where({ export_id: id })).toEqual([]);
});

test('an export that is canceled in the middle of a file stops and leaves no file', async () => {
  await addEvents(150_000);
  const exporter = await world.startExporter();
  const id = await ask(['audit_log', 'events']);
  await world.dispatch();
  const key = tenant.owner_key;
  await until(async () => {
    const { body } = await world.call('get', `/v1/exports/${id}`, { key });
    const events = body.files.filter((one: { kind: string }) => one.kind === 'events');
    return events.some((one: { rows: number }) => one.rows > 0);
  });
  const folder = path.join(world.dir, 'org', tenant.org_id, id);
  expect(existsSync(folder)).toBe(true);
  const canceled = await world.call('delete', `/v1/exports/${id}`, { key });
  expect(canceled.body.status).toBe('canceled');
  await until(async () => {
    await world.dispatch();
    const [row] = await world.db('exports').where({ id });
    return row.cleared_at !== null;
  });
  expect(existsSync(folder)).toBe(false);
  expect((await download(world, key, `${id}/files/0`)).status).toBe(409);
  const ending = world.client.workflow.getHandle(id).result();
  expect(await ending).toBe('canceled');
  await exporter.stop();
  expect(existsSync(folder)).toBe(false);
});

test('a page of long rows ends by its bytes, and none is left out', async () => {
  const { db } = world;
  await addEvents(12, 1_048_576);
  const id = await ask(['events']);
  const files = await db('export_files').where({ export_id: id, kind: 'events' });
  const sizes: number[] = [];
  for (const { n } of files) {
    const part = await steps.partOf(db, id, n);
    if (part === undefined) continue;
    for await (const { rows } of pagesOf(db, part, copyText)) sizes.push(rows);
  }
  const [all] = await db('events').where({ org_id: tenant.org_id }).count();
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(Number(all?.count));
  expect(sizes.length).toBeGreaterThan(2);
});

test('files are deleted after their time, and their answers say so', async () => {
  const exporter = await world.startExporter();
  const id = await ask(['audit_log']);
  const key = tenant.owner_key;
  await ended(world, key, id);
  const folder = path.join(world.dir, 'org', tenant.org_id, id);
  expect((await readdir(folder)).length).toBeGreaterThan(1);
  await world.db('exports').where({ id }).update({ expires_at: new Date() });
  const run = { taskQueue: 'export', workflowId: `upkeep-${id}` };
  const result = await world.client.workflow.execute('exportUpkeep', run);
  expect(result).toMatchObject({ expired: 1 });
  await exporter.stop();
  expect(existsSync(folder)).toBe(false);
  const { body } = await world.call('get', `/v1/exports/${id}`, { key });
  expect(body.status).toBe('expired');
  const answer = await world.call('get', `/v1/exports/${id}/files/0`, { key });
  expect([answer.status, answer.body.error.code]).toEqual([410, 'export_expired']);
  const again = await world.call('delete', `/v1/exports/${id}`, { key });
  expect([again.status, again.body.status]).toEqual([200, 'expired']);
});

test('a completed export that is deleted has no files from then on, and the upkeep deletes them', async () => {
  const exporter = await world.startExporter();
  const id = await ask(['audit_log']);
  const key = tenant.owner_key;
  await ended(world, key, id);
  const folder = path.join(world.dir, 'org', tenant.org_id, id);
  expect(existsSync(folder)).toBe(true);
  const gone = await world.call('delete', `/v1/exports/${id}`, { key });
  expect([gone.status, gone.body.status]).toEqual([200, 'expired']);
  expect((await download(world, key, `${id}/files/0`)).status).toBe(410);
  const recorded = await world.db('audit_events').where({ action: 'export.deleted' });
  expect(recorded).toMatchObject([{ object_id: id, after: { status: 'expired' } }]);
  await world.client.workflow.execute('exportUpkeep', {
    ...{ taskQueue: 'export', workflowId: `upkeep-${id}` },
  });
  await exporter.stop();
  expect(existsSync(folder)).toBe(false);
});

test('an export whose workflow was lost is taken up again, and one that waits for none starts', async () => {
  const { db } = world;
  const [id, next] = [await ask(['audit_log']), await ask(['audit_log'])];
  await db('outbox').where({ workflow_id: id }).delete();
  expect(await steps.adoptOrphans(db, 10)).toBe(0);
  const long_ago = new Date(Date.now() - HOUR_MS);
  await db('exports').where({ id }).update({ progressed_at: long_ago });
  expect(await steps.adoptOrphans(db, 10)).toBe(1);
  const exporter = await world.startExporter();
  expect((await ended(world, tenant.owner_key, id)).status).toBe('completed');
  expect((await ended(world, tenant.owner_key, next)).status).toBe('completed');
  await exporter.stop();
});

test('a full disk is said, and tried again; what was written before stays good', async () => {
  const { db, dir } = world;
  await addEvents(100);
  const id = await ask(['events']);
  const { n } = await db('export_files')
    .where({ export_id: id, kind: 'events' })
    .orderBy('n', 'desc')
    .first();
  const targetOf = createTargetOf(db, { dir, origins: [], secrets });
  const full = async () => ({
    ...(await targetOf({ target: 'folder', org_id: tenant.org_id, destination_id: null })),
    draft: async () => '/dev/full',
    discard: async () => undefined,
  });
  const life = {
    attempt: '1',
    requireLife: () => undefined,
    signal: AbortSignal.timeout(60_000),
  };
  const parts = await steps.unwritten(db, id);
  const written = createExportSteps(db, full).writeExportPart({ export_id: id, n }, life);
  await expect(written).rejects.toMatchObject({
    code: 'export_target_full',
    message: expect.stringContaining('no room'),
  });
  expect(await steps.unwritten(db, id)).toEqual(parts);
  await createExportSteps(db, targetOf).writeExportPart({ export_id: id, n }, life);
  expect(await steps.unwritten(db, id)).toEqual(parts.filter((one) => one !== n));
  await world.call('delete', `/v1/exports/${id}`, { key: tenant.owner_key });
});

test('a wallet that does not add up fails the statement for good, with its name and an event', async () => {
  const { db, call, platform } = world;
  const { org_id, wallet_id } = tenant;
  const body = { org_id, target_wallet_owner_type: 'organization', amount: 3 };
  await call('post', '/v1/admin/wallets/credit', { key: platform, body });
  await db('wallet_transactions').where({ wallet_id, seq: 1 }).update({ amount_nanos: 1n });
  const exporter = await world.startExporter();
  const id = await ask(['statement']);
  const failed = await ended(world, tenant.owner_key, id);
  await db('wallet_transactions')
    .where({ wallet_id, seq: 1 })
    .update({ amount_nanos: 3_000_000_000n });
  expect(failed).toMatchObject({ status: 'failed', error_code: 'ledger_broken' });
  expect(failed.error_message).toContain(wallet_id);
  expect(await eventsOf('export.failed')).toMatchObject([
    { payload: { export_id: id, error_code: 'ledger_broken' } },
  ]);
  await until(async () => !existsSync(path.join(world.dir, 'org', org_id, id)));
  await exporter.stop();
});

test('every step of an export that has ended is refused by its row', async () => {
  const { db } = world;
  const ways = {
    completed: (id: string) => steps.complete(db, id),
    failed: (id: string) => steps.fail(db, id, { code: 'internal_error', message: '' }),
    canceled: async (id: string) => {
      await world.call('delete', `/v1/exports/${id}`, { key: tenant.owner_key });
    },
  };
  for (const from of ['completed', 'failed', 'canceled'] as const) {
    const id = await ask(['audit_log']);
    await ways[from](id);
    for (const to of ['completed', 'failed', 'canceled'] as const) {
      await ways[to](id);
      const [row] = await db('exports').where({ id });
      // What is completed is deleted at somebody's wish, and never canceled.
      const is_deleted = from === 'completed' && to === 'canceled';
      expect([from, to, row.status]).toEqual([from, to, is_deleted ? 'expired' : from]);
      expect(moves[from]).not.toContain(to);
    }
    const page = { export_id: id, n: 1, rows: 5 };
    expect(await steps.progress(db, page)).toBe(false);
  }
});

test('drafts that a killed worker left are gone once the export is written', async () => {
  await addEvents(10);
  const id = await ask(['events']);
  const folder = path.join(world.dir, 'org', tenant.org_id, id);
  await mkdir(folder, { recursive: true });
  // Of a try of another file, and of one that nobody tries again.
  await writeFile(path.join(folder, '.events-2027-01-31.jsonl.gz.dead-1'), 'half');
  await writeFile(path.join(folder, '.manifest.json.dead-1'), '{');
  const exporter = await world.startExporter();
  expect((await ended(world, tenant.owner_key, id)).status).toBe('completed');
  const left = (await readdir(folder)).filter((name) => name.startsWith('.'));
  expect(left).toEqual([]);
  await exporter.stop();
});

test('folders of drafts of processes that were killed are removed, those that somebody writes to are not', async () => {
  const made = async (name: string, age_ms: number) => {
    const folder = await mkdtemp(path.join(tmpdir(), `svc-export-drafts-${name}`));
    const file = path.join(folder, '.part.1');
    await writeFile(file, 'half');
    const then = new Date(Date.now() - age_ms);
    await utimes(file, then, then);
    await utimes(folder, new Date(0), new Date(0));
    return folder;
  };
  const [old, living] = [await made('old', 8 * HOUR_MS), await made('living', HOUR_MS)];
  removeLeft();
  expect([existsSync(old), existsSync(living)]).toEqual([false, true]);
  await rm(living, { recursive: true });
});

test('no draft is left by anything above', async () => {
  const left = (await filesBelow(world.dir)).filter((name) => path.basename(name).startsWith('.'));
  expect(left).toEqual([]);
});
