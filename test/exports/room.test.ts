import * as exports from '../../domain/exports/exports';
import { create } from '../../domain/exports/making';
import * as schedules from '../../domain/exports/schedules';
import * as steps from '../../domain/exports/steps';
import type { Db } from '../../domain/sql';
import { openTestDatabase } from '../support/database';
import { makeOrg } from '../support/ledger';

// The folder that all share keeps so much of each organization; what has no room for its next
// export says so, and goes on once there is some.

let db: Db;
let close: () => Promise<void>;
let org_id: string;
let schedule_id: string;

const DAY_MS = 86_400_000;
const today = Date.now() - (Date.now() % DAY_MS);

beforeAll(async () => {
  ({ db, close } = await openTestDatabase(5));
});

beforeEach(async () => {
  ({ org_id } = await makeOrg(db));
  const [made] = await db('export_schedules')
    .insert({
      ...{ org_id, kinds: ['ledger'], format: 'jsonl', every: 'day', lag_minutes: 15 },
      ...{ window_from: new Date(today - 3 * DAY_MS), created_by: 'owner' },
    })
    .returning('id');
  schedule_id = made.id;
});

afterEach(async () => {
  await db('export_schedules').where({ id: schedule_id }).update({ archived_at: new Date() });
});

afterAll(() => close());

/** So many completed exports of the organization, whose files are kept for days. */
async function keep(count: number): Promise<string[]> {
  const row = {
    ...{ org_id, kinds: ['ledger'], format: 'jsonl', status: 'completed', created_by: 'owner' },
    ...{ from_time: new Date(0), to_time: new Date(today) },
    ...{ ended_at: new Date(), expires_at: new Date(Date.now() + 3 * DAY_MS) },
    snapshot: db.raw('pg_current_snapshot()'),
  };
  const made = await db('exports').insert(Array(count).fill(row)).returning('id');
  return made.map(({ id }) => id);
}

async function waiting() {
  const [row] = await db('export_schedules').where({ id: schedule_id });
  const events = await db('events').where({ org_id, type: 'export.failed' });
  const made = await db('exports').where({ schedule_id });
  return {
    since: row.waiting_since,
    reason: row.waiting_reason,
    told: events.map(({ payload }) => [payload.schedule_id, payload.error_code]),
    made: made.length,
  };
}

test('a schedule without room says so once, and goes on as an export of the folder is deleted', async () => {
  const [first = ''] = await keep(50);
  for (let n = 0; n < 3; n += 1) await schedules.run(db, 50);
  const told = [[schedule_id, 'exports_exceeded']];
  const said = await waiting();
  const reason = expect.stringMatching(/^The files of 50 exports are kept here.*DELETE/);
  expect(said).toEqual({ since: expect.any(Date), reason, told, made: 0 });
  expect((await exports.cancel(db, first, org_id)).status).toBe('expired');
  await schedules.run(db, 50);
  expect(await waiting()).toEqual({ since: null, reason: null, told, made: 1 });
});

test('one that waits for minutes says nothing', async () => {
  const ids = await keep(50);
  const soon = new Date(Date.now() + 5 * 60_000);
  await db('exports').where({ id: ids[7] }).update({ expires_at: soon });
  await schedules.run(db, 50);
  expect(await waiting()).toEqual({ since: null, reason: null, told: [], made: 0 });
});

/** As if the schedule had been made, and its last export had ended, so long ago. */
async function since(minutes: number): Promise<void> {
  const then = new Date(Date.now() - minutes * 60_000);
  await db('export_schedules').where({ id: schedule_id }).update({ created_at: then });
  await db('exports').where({ schedule_id }).update({ ended_at: then });
}

/** Five exports wait behind one that never ends. */
async function queue(): Promise<void> {
  const period = { from: new Date(today - DAY_MS), to: new Date(today) };
  const by = { destination_id: null, created_by: 'owner', created_with: null };
  const wanted = { org_id, kinds: ['ledger'], format: 'jsonl', ...period, ...by } as const;
  for (let n = 0; n < 6; n += 1) await db.transaction((trx) => create(trx, wanted));
}

/** Files of an export that was canceled cannot be deleted, and fill the folder. */
async function stick(): Promise<number> {
  const [id = ''] = await keep(1);
  await db('exports').where({ id }).update({ status: 'canceled' });
  await db('export_files').insert({ export_id: id, n: 0, kind: 'manifest', bytes: 10 });
  return 10;
}

test.each([
  ['a queue that does not move', queue, /^5 exports wait here/],
  ['files that cannot be deleted', stick, /^10 bytes/],
])('a schedule that is kept for an hour by %s says so, once', async (_, fill, words) => {
  const bytes_max = (await fill()) ?? undefined;
  await since(59);
  await schedules.run(db, 50, bytes_max);
  expect(await waiting()).toEqual({ since: null, reason: null, told: [], made: 0 });
  await since(61);
  for (let n = 0; n < 3; n += 1) await schedules.run(db, 50, bytes_max);
  const told = [[schedule_id, 'exports_exceeded']];
  const reason = expect.stringMatching(words);
  expect(await waiting()).toEqual({ since: expect.any(Date), reason, told, made: 0 });
  await db('exports').where({ org_id }).update({ status: 'expired', cleared_at: new Date() });
  await schedules.run(db, 50, bytes_max);
  expect(await waiting()).toEqual({ since: null, reason: null, told, made: 1 });
});

test('a schedule that goes on with what it missed has its hour from its last export on', async () => {
  await schedules.run(db, 50);
  await db('exports').where({ schedule_id }).update({ status: 'completed', ended_at: new Date() });
  await db('export_schedules')
    .where({ id: schedule_id })
    .update({ created_at: new Date(0) });
  await schedules.run(db, 50);
  await queue();
  await schedules.run(db, 50);
  expect(await waiting()).toEqual({ since: null, reason: null, told: [], made: 1 });
  await since(61);
  await schedules.run(db, 50);
  expect(await waiting()).toMatchObject({ since: expect.any(Date), made: 1 });
});

test('what is deleted twice, at once, is deleted once; what has failed is not', async () => {
  const [id = '', failed = ''] = await keep(2);
  const both = await Promise.all([1, 2].map(() => exports.cancel(db, id, org_id)));
  expect(both.map(({ status }) => status)).toEqual(['expired', 'expired']);
  expect(await db('audit_events').where({ action: 'export.deleted', object_id: id })).toHaveLength(
    1,
  );
  await db('exports').where({ id: failed }).update({ status: 'running' });
  await steps.fail(db, failed, { code: 'internal_error', message: '' });
  await expect(exports.cancel(db, failed, org_id)).rejects.toMatchObject({ code: 'export_state' });
});

test('an export is deleted by its owner alone', async () => {
  const [id = ''] = await keep(1);
  const { org_id: other } = await makeOrg(db);
  for (const whose of [other, null])
    await expect(exports.cancel(db, id, whose)).rejects.toMatchObject({ code: 'not_found' });
});

test('the folder keeps so many bytes of an organization, also of what is written or not deleted yet', async () => {
  const [id = '', canceled = ''] = await keep(2);
  const period = { from: new Date(today - DAY_MS), to: new Date(today) };
  const by = { destination_id: null, created_by: 'owner', created_with: null };
  const wanted = { org_id, kinds: ['ledger'], format: 'jsonl', ...period, ...by } as const;
  const ask = (more = {}) => db.transaction((trx) => create(trx, { ...wanted, ...more }, 1_000));
  await db('exports').where({ id: canceled }).update({ status: 'canceled' });
  await db('export_files').insert([
    { export_id: id, n: 0, kind: 'manifest', bytes: 600 },
    { export_id: canceled, n: 0, kind: 'manifest', bytes: 399 },
  ]);
  const made = await ask();
  expect(made.status).toBe('running');
  await db('export_files').where({ export_id: made.id, n: 0 }).update({ bytes: 1 });
  await expect(ask()).rejects.toMatchObject({
    code: 'exports_exceeded',
    message: expect.stringMatching(/^1000 bytes .* no more than 1000 may be/),
  });
  // What was canceled makes room with the next look, days before the completed one expires.
  const words: string = await ask().catch(({ message }) => message);
  const next = Date.parse(/deleted on (\S+),/.exec(words)?.[1] ?? '');
  expect(next - Date.now()).toBeLessThanOrEqual(5 * 60_000);
  // Another organization has a bound of its own.
  const { org_id: other } = await makeOrg(db);
  expect((await ask({ org_id: other })).status).toBe('running');
  await db('exports').where({ id: canceled }).update({ cleared_at: new Date() });
  expect((await ask()).status).toBe('queued');
});

test('a schedule waits for bytes too', async () => {
  const [id = ''] = await keep(1);
  await db('export_files').insert({ export_id: id, n: 0, kind: 'manifest', bytes: 10 });
  await schedules.run(db, 50, 10);
  expect(await waiting()).toMatchObject({ reason: expect.stringMatching(/^10 bytes/), made: 0 });
  await schedules.run(db, 50, 11);
  expect(await waiting()).toMatchObject({ reason: null, made: 1 });
});
