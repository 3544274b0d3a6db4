import { create } from '../../domain/exports/making';
import { pagesOf } from '../../domain/exports/parts';
import * as steps from '../../domain/exports/steps';
import { newId } from '../../domain/ids';
import { type Db, many } from '../../domain/sql';
import { copyText } from '../../exports/copy-text';
import { openTestDatabase } from '../support/database';
import { makeOrg } from '../support/ledger';

// An event is of the time at which its gateway saw it, and may arrive days later: each one is in
// one export of a schedule all the same.

let db: Db;
let close: () => Promise<void>;
let org_id: string;
let schedule_id: string;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase(5));
});

beforeEach(async () => {
  ({ org_id } = await makeOrg(db));
  const [made] = await db('export_schedules')
    .insert({
      ...{ org_id, kinds: ['events'], format: 'jsonl', every: 'day', lag_minutes: 60 },
      ...{ window_from: day(9), created_by: 'owner' },
    })
    .returning('id');
  schedule_id = made.id;
});

afterAll(() => close());

const DAY_MS = 86_400_000;
const today = Date.now() - (Date.now() % DAY_MS);
const day = (ago: number) => new Date(today - ago * DAY_MS);

/** An event at noon of a day that arrives now; its id. */
async function arrive(ago: number): Promise<string> {
  const id = newId('evt', day(ago).getTime() + DAY_MS / 2);
  await many(
    db,
    `insert into events (id, created_at, org_id, type, payload) values (:id, id_time(:id), :org_id, 'x', '{}')`,
    { id, org_id },
  );
  return id;
}

/** Makes the export of a day, with the schedule or without one, and ends it. */
async function exported(ago: number, how: 'completed' | 'failed' | 'by hand' = 'completed') {
  const period = { from: day(ago), to: day(ago - 1) };
  const by = { destination_id: null, created_by: 'owner', created_with: null };
  const wanted = { org_id, kinds: ['events'], format: 'jsonl', ...period, ...by } as const;
  if (how !== 'by hand')
    await db('export_schedules')
      .where({ id: schedule_id })
      .update({ window_from: day(ago) });
  const of = how === 'by hand' ? {} : { schedule_id };
  const { id } = await db.transaction((trx) => create(trx, { ...wanted, ...of }));
  const ids: string[] = [];
  for (const n of await steps.unwritten(db, id)) {
    const part = await steps.partOf(db, id, n);
    if (part === undefined) throw new Error(`Part ${n} does not wait.`);
    for await (const { text } of pagesOf(db, part, copyText))
      ids.push(
        ...text
          .toString()
          .trimEnd()
          .split('\n')
          .map((row) => row.split('\t')[0] ?? ''),
      );
  }
  if (how === 'failed') await steps.fail(db, id, { code: 'export_target_failed', message: 'away' });
  else await steps.complete(db, id);
  return ids.sort();
}

test('an event that arrives after the export of its day is in the next one, and in no other', async () => {
  const on_time = await arrive(9);
  expect(await exported(9)).toEqual([on_time]);
  const [late, of_8] = [await arrive(9), await arrive(8)];
  expect(await exported(8)).toEqual([late, of_8].sort());
  const [later, of_7] = [await arrive(9), await arrive(7)];
  expect(await exported(7)).toEqual([later, of_7].sort());
  expect(await exported(6)).toEqual([]);
});

test('what a failed export had is in the one that repeats it', async () => {
  await exported(9);
  const [late, of_8] = [await arrive(9), await arrive(8)];
  expect(await exported(8, 'failed')).toEqual([late, of_8].sort());
  const even_later = await arrive(9);
  expect(await exported(8)).toEqual([late, of_8, even_later].sort());
  expect(await exported(7)).toEqual([]);
});

test('events that arrive early are of their day alone', async () => {
  const of_8 = await arrive(8);
  expect(await exported(9)).toEqual([]);
  expect(await exported(8)).toEqual([of_8]);
  expect(await exported(7)).toEqual([]);
});

test('an export that somebody asks for has the events of its period alone', async () => {
  await exported(9);
  await arrive(9);
  const of_8 = await arrive(8);
  expect(await exported(8, 'by hand')).toEqual([of_8]);
});
