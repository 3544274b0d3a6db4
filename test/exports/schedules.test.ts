import { setTimeout as sleep } from 'node:timers/promises';
import * as destinations from '../../domain/exports/destinations';
import * as making from '../../domain/exports/making';
import * as schedules from '../../domain/exports/schedules';
import * as steps from '../../domain/exports/steps';
import * as tokens from '../../domain/people/tokens';
import { many } from '../../domain/sql';
import { makePerson, makeTenant, refusal, secrets, type Tenant } from '../support/api';
import { makeKey } from '../support/keys';
import { until } from '../support/until';
import { type ExportWorld, ended, openExportWorld } from './world';

// Exports of one day or month after the other: each window once, none skipped, as long as their
// maker may have them.

let world: ExportWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openExportWorld();
});

beforeEach(async () => {
  tenant = await makeTenant(world.db);
});

afterAll(() => world.close());

const DAY_MS = 86_400_000;
// No day falls due while these tests run, at whatever time of day they do.
const LAG_MINUTES = Date.now() % DAY_MS < 30 * 60_000 ? 60 : 15;
// The newest day that no schedule may have exported yet: until the lag has passed, yesterday.
const newest_due = Date.now() - LAG_MINUTES * 60_000;
const today = newest_due - (newest_due % DAY_MS);
const day = (ago: number) => new Date(today - ago * DAY_MS);

async function schedule(more: object = {}, key = tenant.owner_key) {
  const body = { kinds: ['ledger'], every: 'day', lag_minutes: LAG_MINUTES, from: day(3), ...more };
  return world.call('post', '/v1/export-schedules', { key, body });
}

/** Runs the schedules of this tenant until no more is made; the exports' windows, oldest first. */
async function windowsOf(schedule_id: string) {
  const rows = await world.db('exports').where({ schedule_id }).orderBy('id');
  return rows.map(({ from_time, status }) => [from_time.toISOString(), status]);
}

async function run(): Promise<void> {
  // Other transactions of these days must have ended.
  await until(async () => {
    await schedules.run(world.db, 50);
    const waiting = await many(
      world.db,
      `select 1 from pg_stat_activity where datname = current_database() and backend_xid is not null and pid <> pg_backend_pid()`,
    );
    return waiting.length === 0;
  });
  await schedules.run(world.db, 50);
}

async function newest(schedule_id: string) {
  return world.db('exports').where({ schedule_id }).orderBy('id', 'desc').first();
}

/** Ends the running export of a schedule without a worker. */
async function endAs(schedule_id: string, status: 'completed' | 'failed'): Promise<void> {
  const { id } = await newest(schedule_id);
  if (status === 'completed') await steps.complete(world.db, id);
  else await steps.fail(world.db, id, { code: 'export_target_failed', message: 'away' });
}

test('each day is exported once, in order; the present one is not', async () => {
  const { id } = (await schedule()).body;
  for (let ago = 3; ago > 0; ago -= 1) {
    await run();
    await run();
    expect(await newest(id)).toMatchObject({ from_time: day(ago), to_time: day(ago - 1) });
    await endAs(id, 'completed');
  }
  await run();
  await run();
  expect(await windowsOf(id)).toHaveLength(3);
  const { body } = await world.call('get', '/v1/export-schedules', { key: tenant.owner_key });
  expect(body.schedules).toMatchObject([{ id, window_from: day(0).toISOString() }]);
});

test('a window that failed is repeated after an hour, and the next one waits for it', async () => {
  const { db } = world;
  const { id } = (await schedule()).body;
  await run();
  await endAs(id, 'failed');
  await run();
  expect(await windowsOf(id)).toEqual([[day(3).toISOString(), 'failed']]);
  await db('exports')
    .where({ schedule_id: id })
    .update({ ended_at: new Date(Date.now() - 3_601_000) });
  await run();
  expect(await windowsOf(id)).toEqual([
    [day(3).toISOString(), 'failed'],
    [day(3).toISOString(), 'running'],
  ]);
  await endAs(id, 'completed');
  await run();
  await run();
  expect((await windowsOf(id)).at(-1)).toEqual([day(2).toISOString(), 'running']);
});

test('months are whole months, and runners at once make one export', async () => {
  const from = new Date(
    Date.UTC(new Date(today).getUTCFullYear(), new Date(today).getUTCMonth() - 1, 9),
  );
  const { id } = (await schedule({ every: 'month', from })).body;
  await run();
  await Promise.all(Array.from({ length: 8 }, () => schedules.run(world.db, 50)));
  const rows = await world.db('exports').where({ schedule_id: id });
  expect(rows).toHaveLength(1);
  expect(rows[0].from_time.getUTCDate()).toBe(1);
  expect(rows[0].to_time.toISOString().slice(8)).toBe('01T00:00:00.000Z');
});

test('a schedule falls with the key that made it, and with the role of its person', async () => {
  const { db, call } = world;
  const { org_id } = tenant;
  const key = await makeKey(db, org_id, { scopes: ['org:billing'], name: 'accountant' });
  const of_key = (await schedule({}, key)).body.id;
  await tokens.revoke(db, org_id, await tokens.find(db, org_id, 'accountant'));
  const person = await makePerson({ db, call }, tenant, 'billing_admin');
  const of_person = (await schedule({}, person.key)).body.id;
  const demoted = await call('put', person.at, { key: tenant.owner_key, body: { role: 'member' } });
  expect(demoted.status).toBe(200);
  await run();
  for (const id of [of_key, of_person]) {
    const [row] = await db('export_schedules').where({ id });
    expect(row.ended_reason).toContain('may no longer');
    expect(await windowsOf(id)).toEqual([]);
  }
  const events = await db('events').where({ org_id, type: 'export.failed' });
  expect(events.map(({ payload }) => payload.schedule_id).sort()).toEqual(
    [of_key, of_person].sort(),
  );
});

test('what is suspended exports nothing, and goes on where it stood', async () => {
  const { db } = world;
  const { id } = (await schedule()).body;
  const suspend = (suspended_at: Date | null) =>
    db('organizations').where({ id: tenant.org_id }).update({ suspended_at });
  await suspend(new Date());
  await run();
  expect(await windowsOf(id)).toEqual([]);
  await suspend(null);
  await run();
  expect(await windowsOf(id)).toEqual([[day(3).toISOString(), 'running']]);
});

test('a schedule ends with its bucket: nothing more is written there', async () => {
  const { db } = world;
  const { org_id } = tenant;
  const where = { endpoint: 'https://s3.example.com', region: 'a', bucket: 'b' };
  const named = { ...where, access_key_id: 'AKIA', secret_access_key: 's', created_by: 'owner' };
  const bucket = await destinations.create(db, secrets, { ...named, org_id });
  const { id } = (await schedule({ destination_id: bucket.id })).body;
  await run();
  await endAs(id, 'completed');
  await destinations.archive(db, bucket.id, org_id);
  await run();
  await run();
  expect(await windowsOf(id)).toHaveLength(1);
  const { body } = await world.call('get', '/v1/export-schedules', { key: tenant.owner_key });
  expect(body.schedules).toMatchObject([{ id, ended_reason: 'Its destination is out of use.' }]);
  expect(body.schedules[0].ended_at).not.toBe(null);
  const [event] = await db('events').where({ org_id, type: 'export.failed' });
  expect(event.payload).toMatchObject({ schedule_id: id, error_code: 'export_target_refused' });
});

test('a bucket stays in use until an export that is being made for it is there', async () => {
  const { db } = world;
  const { org_id } = tenant;
  const where = { endpoint: 'https://s3.example.com', region: 'a', bucket: 'b' };
  const named = { ...where, access_key_id: 'AKIA', secret_access_key: 's', created_by: 'owner' };
  const { id: destination_id } = await destinations.create(db, secrets, { ...named, org_id });
  const period = { from: day(2), to: day(1), created_by: 'owner', created_with: null };
  const wanted = { org_id, kinds: ['ledger'], format: 'jsonl', destination_id, ...period } as const;
  let archived = false;
  let archiving: Promise<void> | undefined;
  await db.transaction(async (trx) => {
    await making.create(trx, wanted);
    archiving = destinations.archive(db, destination_id, org_id).then(() => {
      archived = true;
    });
    await sleep(200);
    expect(archived).toBe(false);
  });
  await archiving;
  const later = db.transaction((trx) => making.create(trx, wanted));
  await expect(later).rejects.toMatchObject({ code: 'not_found' });
});

test('a schedule that fails keeps no other one waiting, nor files that are past their time', async () => {
  const { db } = world;
  const ids: string[] = [];
  for (let n = 0; n < 3; n += 1) ids.push((await schedule()).body.id);
  const [broken = '', ...good] = ids;
  await db.raw(`
    create function refuse() returns trigger language plpgsql as 'begin raise ''no such luck''; end';
    create trigger refuse before insert on exports for each row when (new.schedule_id = '${broken}') execute function refuse()`);
  const { owner_key } = await makeTenant(db);
  const old = (await schedule({ from: day(1) }, owner_key)).body.id;
  await run();
  await endAs(old, 'completed');
  await db('exports').where({ schedule_id: old }).update({ expires_at: new Date() });
  // A page is full with the one that fails.
  expect(await schedules.run(db, 1)).toMatchObject({
    failed: [expect.stringContaining(`${broken}: `)],
  });
  for (const id of good) expect(await windowsOf(id)).toHaveLength(1);
  const exporter = await world.startExporter();
  const run_as = { taskQueue: 'export', workflowId: `upkeep-${broken}` };
  const result = await world.client.workflow.execute('exportUpkeep', run_as);
  await exporter.stop();
  await db.raw('drop trigger refuse on exports; drop function refuse');
  expect(result).toMatchObject({ failed: [expect.stringContaining('no such luck')] });
  const gone = { status: 'expired', cleared_at: expect.any(Date) };
  expect(await newest(old)).toMatchObject(gone);
});

test('what a schedule may be: rights, bounds, and nobody else’s', async () => {
  const other = await makeTenant(world.db);
  const made = await schedule();
  expect(refusal(await schedule({ kinds: ['events'] }, tenant.billing_key))).toMatchObject({
    status: 403,
  });
  expect(refusal(await schedule({ lag_minutes: 1 }))).toMatchObject({
    status: 422,
    param: 'lag_minutes',
  });
  expect(refusal(await schedule({ every: 'hour' }))).toMatchObject({ status: 422, param: 'every' });
  expect(refusal(await schedule({ destination_id: 'dest_x' }))).toMatchObject({ status: 404 });
  const path = `/v1/export-schedules/${made.body.id}`;
  expect((await world.call('delete', path, { key: other.owner_key })).status).toBe(404);
  const ended_one = await world.call('delete', path, { key: tenant.owner_key });
  expect(ended_one.body.ended_at).not.toBe(null);
  await run();
  expect(await windowsOf(made.body.id)).toEqual([]);
  const platforms = await schedule({}, world.platform);
  expect(platforms.body.org_id).toBe(null);
  await run();
  expect(await windowsOf(platforms.body.id)).toHaveLength(1);
});

test('schedules whose export cannot be made now keep no others waiting', async () => {
  const body = { kinds: ['ledger'], from: day(3), to: day(2) };
  for (let n = 0; n < 6; n += 1)
    await world.call('post', '/v1/exports', { key: tenant.owner_key, body });
  const stuck = [];
  for (let n = 0; n < 3; n += 1) stuck.push((await schedule({ from: '2020-01-01' })).body.id);
  const other = await makeTenant(world.db);
  const { id } = (await schedule({}, other.owner_key)).body;
  await until(async () => {
    await schedules.run(world.db, 1);
    return (await newest(id)) !== undefined;
  });
  for (const one of stuck) expect(await windowsOf(one)).toEqual([]);
});

test('20 schedules of an organization go on, 7 of them daily to the folder; one more is taken as one ends', async () => {
  const daily = await Promise.all(Array.from({ length: 9 }, () => schedule({ from: day(0) })));
  expect(daily.filter(({ status }) => status === 201)).toHaveLength(7);
  const asked = Array.from({ length: 16 }, () => schedule({ from: day(0), every: 'month' }));
  const made = (await Promise.all(asked)).filter(({ status }) => status === 201);
  expect(made).toHaveLength(13);
  expect(refusal(await schedule())).toMatchObject({ status: 429, code: 'exports_exceeded' });
  const { status } = await schedule({}, (await makeTenant(world.db)).owner_key);
  expect(status).toBe(201);
  const path = `/v1/export-schedules/${made[0]?.body.id}`;
  await world.call('delete', path, { key: tenant.owner_key });
  expect((await schedule({ from: day(0), every: 'month' })).status).toBe(201);
});

test('the upkeep makes the exports of schedules, and its worker writes them', async () => {
  const { id } = (await schedule({ kinds: ['statement', 'audit_log'], from: day(1) })).body;
  const exporter = await world.startExporter();
  const run_as = { taskQueue: 'export', workflowId: `upkeep-${id}` };
  await until(async () => {
    await world.client.workflow.execute('exportUpkeep', run_as);
    return (await newest(id)) !== undefined;
  });
  const { id: export_id } = await newest(id);
  const done = await ended(world, tenant.owner_key, export_id);
  expect(done).toMatchObject({ status: 'completed', schedule_id: id });
  await exporter.stop();
});
