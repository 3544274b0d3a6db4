import { keepPartitions, keptFrom } from '../../domain/exports/kept-events';
import { create } from '../../domain/exports/making';
import { pagesOf } from '../../domain/exports/parts';
import * as schedules from '../../domain/exports/schedules';
import * as steps from '../../domain/exports/steps';
import { newId } from '../../domain/ids';
import { type Db, many, one } from '../../domain/sql';
import { copyText } from '../../exports/copy-text';

import { openTestDatabase } from '../support/database';
import { makeOrg } from '../support/ledger';

// Events are kept for 90 days: what was not exported by then is named, and what an export has begun
// to read stays until it has ended.

let db: Db;
let close: () => Promise<void>;
let org_id: string;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase(5));
});
beforeEach(async () => {
  ({ org_id } = await makeOrg(db));
});
afterEach(async () => {
  await many(db, 'update export_schedules set archived_at = now()', {});
  const running = await many<{ id: string }>(db, `select id from exports where status = 'running'`);
  for (const { id } of running) await steps.complete(db, id);
});
afterAll(() => close());

const DAY_MS = 86_400_000;
const kept = keptFrom(new Date());
/** The first moment of a day so long after the oldest that is kept. */
const day = (after: number) => new Date(kept.getTime() + after * DAY_MS);

async function schedule(kinds: string[], window_from: Date, more: object = {}): Promise<string> {
  const [made] = await db('export_schedules')
    .insert({
      ...{ org_id, kinds, format: 'jsonl', every: 'day', lag_minutes: 60 },
      ...{ window_from, created_by: 'owner', ...more },
    })
    .returning('id');
  return made.id;
}

const rowOf = (id: string) => db('export_schedules').where({ id }).first();
const exportsOf = (schedule_id: string) => db('exports').where({ schedule_id }).orderBy('id');
const told = async () => {
  const events = await db('events').where({ org_id, type: 'export.failed' }).orderBy('id');
  // Of schedules: an export that fails says so itself.
  return events.map(({ payload }) => payload).filter((one) => one.export_id === undefined);
};

const named = (id: string, from: Date, to: Date) => ({
  ...{ schedule_id: id, kinds: ['events'], error_code: 'export_expired' },
  ...{ from: from.toISOString(), to: to.toISOString() },
});

test('a schedule of events that stood still goes on with the first day that is kept, and names the gap', async () => {
  const id = await schedule(['events'], day(-3));
  expect(await schedules.run(db, 50)).toEqual({ made: 0, failed: [] });
  const reason = expect.stringContaining(
    `from ${day(-3).toISOString()} to ${day(0).toISOString()}`,
  );
  expect(await rowOf(id)).toMatchObject({
    ...{ window_from: day(0), waiting_since: expect.any(Date), waiting_reason: reason },
  });
  expect(await schedules.run(db, 50)).toEqual({ made: 1, failed: [] });
  expect(await exportsOf(id)).toMatchObject([{ from_time: day(0), to_time: day(1) }]);
  expect(await rowOf(id)).toMatchObject({ waiting_since: null, waiting_reason: null });
  expect(await told()).toEqual([named(id, day(-3), day(0))]);
});

test.each([
  ['day', 'America/New_York', -3],
  ['day', 'Asia/Tokyo', -3],
  ['month', 'America/New_York', -40],
])(
  'a %s of %s that is kept in part is exported from the first moment that is kept',
  async (every, zone, after) => {
    const id = await schedule(['events'], day(after), { every, time_zone: zone });
    await many(
      db,
      `update export_schedules set window_from = (reporting_window(every, time_zone, window_from)).starts_at where id = :id`,
      { id },
    );
    const { window_from: before } = await rowOf(id);
    await schedules.run(db, 50);
    expect(await rowOf(id)).toMatchObject({ window_from: kept });
    expect(await told()).toEqual([named(id, before, kept)]);
    await schedules.run(db, 50);
    const [made] = await exportsOf(id);
    expect(made.from_time).toEqual(kept);
    const local = await one<{ day: number; hour: number; ends: Date }>(
      db,
      `select extract(day from :to::timestamptz at time zone :zone)::int as day, extract(hour from :to::timestamptz at time zone :zone)::int as hour,
       (reporting_window(:every, :zone, :kept::timestamptz)).ends_at as ends`,
      { to: made.to_time, zone, every, kept },
    );
    expect(local).toEqual({
      day: every === 'month' ? 1 : expect.any(Number),
      hour: 0,
      ends: made.to_time,
    });
    // The next one begins where that ends.
    await steps.complete(db, made.id);
    await schedules.run(db, 50);
    expect(await rowOf(id)).toMatchObject({ window_from: made.to_time });
    expect(await told()).toHaveLength(1);
  },
);

test('what a window has beside events is exported without them, which is told once', async () => {
  const id = await schedule(['ledger', 'events'], day(-2));
  await schedules.run(db, 50);
  expect(await exportsOf(id)).toMatchObject([{ kinds: ['ledger'], from_time: day(-2) }]);
  expect(await told()).toEqual([named(id, day(-2), day(-1))]);
  // A repeat of the same window is no news.
  const [{ id: first }] = await exportsOf(id);
  await steps.fail(db, first, { code: 'export_target_failed', message: 'away' });
  await many(db, `update exports set ended_at = now() - interval '2 hours' where id = :first`, {
    first,
  });
  await schedules.run(db, 50);
  const [, again] = await exportsOf(id);
  expect(again).toMatchObject({ kinds: ['ledger'], from_time: day(-2) });
  expect(await told()).toHaveLength(1);
  for (let after = -2; after < 0; after += 1) {
    const { id: export_id } = (await exportsOf(id)).at(-1);
    await steps.complete(db, export_id);
    await schedules.run(db, 50);
    await schedules.run(db, 50);
  }
  expect((await exportsOf(id)).at(-1)).toMatchObject({
    ...{ kinds: ['ledger', 'events'], from_time: day(0) },
  });
  expect(await told()).toHaveLength(2);
});

/** An event at noon of a day, in a partition of its own; its id. */
async function event(on: Date): Promise<string> {
  const id = newId('evt', on.getTime() + DAY_MS / 2);
  await many(db, 'select add_event_partition(:on::date)', { on: on.toISOString().slice(0, 10) });
  await many(
    db,
    `insert into events (id, created_at, org_id, type, payload) values (:id, id_time(:id), :org_id, 'x', '{}')`,
    { id, org_id },
  );
  return id;
}

async function read(export_id: string): Promise<string[]> {
  const ids: string[] = [];
  for (const n of await steps.unwritten(db, export_id)) {
    const part = await steps.partOf(db, export_id, n);
    if (part === undefined) continue;
    for await (const { text } of pagesOf(db, part, copyText))
      ids.push(...(text.toString().match(/^evt_\w+/gm) ?? []));
  }
  return ids.sort();
}

test('an export across midnight has its oldest day, which is dropped once it has ended', async () => {
  const ids = [await event(day(0)), await event(day(1))].sort();
  const early = await event(day(-1));
  const period = { from: day(0), to: day(2), destination_id: null, created_with: null };
  const wanted = { org_id, kinds: ['events'], format: 'jsonl', ...period } as const;
  const { id } = await db.transaction((trx) => create(trx, { ...wanted, created_by: 'owner' }));
  // Two days later, as by a worker that stood still.
  const later = new Date(Date.now() + 2 * DAY_MS);
  await keepPartitions(db, later);
  expect(await read(id)).toEqual(ids);
  const { rows } = await db.raw('select 1 from events where id = ?', [early]);
  expect(rows).toEqual([]);
  await steps.complete(db, id);
  await keepPartitions(db, later);
  const left = await many(db, 'select id from events where id = any(:ids)', { ids });
  expect(left).toEqual([]);
});

test('the oldest day stays for an hour after midnight, for whoever asked a moment before it', async () => {
  const id = await event(day(0));
  const midnight = new Date(kept.getTime() + 91 * DAY_MS);
  const left = () => many(db, 'select 1 from events where id = :id', { id });
  await keepPartitions(db, new Date(midnight.getTime() + 60_000));
  expect(await left()).toHaveLength(1);
  await keepPartitions(db, new Date(midnight.getTime() + 3_660_000));
  expect(await left()).toHaveLength(0);
});
