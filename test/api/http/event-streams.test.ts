import { setTimeout as sleep } from 'node:timers/promises';
import { createEventStreams } from '../../../api/http/event-streams';
import { newestPlace, type Place } from '../../../domain/event-places';
import { type Db, many, one } from '../../../domain/sql';
import { makeTenant } from '../../support/api';
import { openTestDatabase, type TestDatabase } from '../../support/database';
import { until } from '../../support/until';

let database: TestDatabase;

beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database.close());

/**
 * Until all that was written so far can be read: readers stay below the oldest transaction that is
 * open, also in the databases of other tests.
 */
async function untilVisible(db: Db): Promise<void> {
  const { id } = await one<{ id: string }>(db, 'select pg_current_xact_id()::text as id');
  const isVisible = async () => BigInt((await newestPlace(db)).transaction_id) > BigInt(id);
  await until(isVisible);
}

/** Far more events than one look reads. */
const FAR = 10_000;
/** A database that has much to do. */
const ANSWER_MS = 30;

test('a stream that resumes far back holds up none that is nearer, however many places they are at', async () => {
  const { db } = database;
  const { org_id } = await makeTenant(db);
  const write = (type: string, count: number) =>
    many(
      db,
      `insert into events (id, created_at, org_id, type, payload) select i.id, id_time(i.id), :org_id, :type, '{}'
       from generate_series(1, :count) as n cross join lateral (select new_id('evt') as id, n) as i`,
      { org_id, type, count },
    );
  const far = await newestPlace(db);
  await write('request.completed', FAR);
  await untilVisible(db);
  const middle = await newestPlace(db);
  await write('wallet.balance_low', 1);
  await untilVisible(db);
  const near = await newestPlace(db);
  await write('wallet.balance_low', 1);
  await untilVisible(db);
  const slow = {
    async raw(...given: Parameters<Db['raw']>) {
      await sleep(ANSWER_MS);
      return db.raw(...given);
    },
  } as unknown as Db;
  const streams = createEventStreams(slow, () => false);
  const seen = new Set<string>();
  const leave = Object.entries({ far, middle, near }).map(([name, place]: [string, Place]) =>
    streams.follow({
      org_id,
      types: new Set(['wallet.balance_low']),
      action: undefined,
      own: undefined,
      sees_costs: false,
      place,
      show() {
        seen.add(name);
        return true;
      },
      end(error) {
        throw error;
      },
    }),
  );
  // There is always something new to read.
  while (!seen.has('far')) await write('wallet.balance_low', 1);
  for (const each of leave) each();
  expect([...seen]).toEqual(['near', 'middle', 'far']);
});
