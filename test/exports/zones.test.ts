import * as schedules from '../../domain/exports/schedules';
import * as steps from '../../domain/exports/steps';
import { many } from '../../domain/sql';
import { makeTenant, type Tenant } from '../support/api';
import { until } from '../support/until';
import { type ExportWorld, openExportWorld } from './world';

// Schedules whose months are those of a time zone.

let world: ExportWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openExportWorld();
  tenant = await makeTenant(world.db);
});

afterAll(() => world.close());

const madeBy = (schedule_id: string) => world.db('exports').where({ schedule_id }).orderBy('id');

test('a schedule of months in a zone has windows that meet, across the change of clocks', async () => {
  const { owner_key: key } = tenant;
  const body = {
    ...{ kinds: ['statement'], every: 'month', time_zone: 'Europe/Berlin' },
    from: '2025-10-15T12:00:00Z',
  };
  const made = await world.call('post', '/v1/export-schedules', { key, body });
  expect(made.body).toMatchObject({
    ...{ time_zone: 'Europe/Berlin', window_from: '2025-09-30T22:00:00.000Z' },
    next_at: '2025-11-01T00:00:00.000Z',
  });
  const { id } = made.body;
  for (let n = 0; n < 7; n += 1) {
    // A look moves on to the next window, once other transactions have ended, and another makes it.
    await until(async () => {
      await schedules.run(world.db, 50);
      return (await madeBy(id)).length > n;
    });
    await steps.complete(world.db, (await madeBy(id)).at(-1).id);
  }
  const windows = (await madeBy(id)).map(({ from_time, to_time }) => [
    from_time.toISOString(),
    to_time.toISOString(),
  ]);
  expect(windows).toEqual([
    ['2025-09-30T22:00:00.000Z', '2025-10-31T23:00:00.000Z'],
    ['2025-10-31T23:00:00.000Z', '2025-11-30T23:00:00.000Z'],
    ['2025-11-30T23:00:00.000Z', '2025-12-31T23:00:00.000Z'],
    ['2025-12-31T23:00:00.000Z', '2026-01-31T23:00:00.000Z'],
    ['2026-01-31T23:00:00.000Z', '2026-02-28T23:00:00.000Z'],
    ['2026-02-28T23:00:00.000Z', '2026-03-31T22:00:00.000Z'],
    ['2026-03-31T22:00:00.000Z', '2026-04-30T22:00:00.000Z'],
  ]);
  await world.call('delete', `/v1/export-schedules/${made.body.id}`, { key });
});

test("a worker that adds a month of UTC to a zone's writes no statement: its export is refused", async () => {
  const { db } = world;
  const { owner_key: key, org_id } = tenant;
  const made = [];
  for (const time_zone of ['Europe/Berlin', 'UTC']) {
    const body = { kinds: ['statement'], every: 'month', time_zone, from: '2025-10-15' };
    made.push((await world.call('post', '/v1/export-schedules', { key, body })).body.id);
  }
  // As it computed the window before schedules had zones.
  const older = (id: string) =>
    many(
      db,
      `insert into exports (org_id, kinds, format, from_time, to_time, status, snapshot, created_by, schedule_id)
       select :org_id, s.kinds, s.format, s.window_from, date_trunc(s.every, s.window_from) + ('1 ' || s.every)::interval,
         'queued', pg_current_snapshot(), s.created_by, s.id from export_schedules s where s.id = :id`,
      { org_id, id },
    );
  const [zoned, utc] = made as [string, string];
  await expect(older(zoned)).rejects.toThrow('update the workers that run schedules');
  expect(await madeBy(zoned)).toEqual([]);
  await older(utc);
  expect(await madeBy(utc)).toMatchObject([
    { from_time: new Date('2025-10-01'), to_time: new Date('2025-11-01') },
  ]);
  for (const id of made) await world.call('delete', `/v1/export-schedules/${id}`, { key });
});
