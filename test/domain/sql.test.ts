import { type Db, many, prepared, withRetry } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { openTestDatabase } from '../support/database';

let db: Db;
let session: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  const opened = await openTestDatabase(1);
  ({ db } = opened);
  session = openDatabase(opened.url, 1);
  close = async () => {
    await session.destroy();
    await opened.close();
  };
});

afterAll(() => close());

const count = () =>
  withRetry(() => prepared<{ n: number }>(session, 'row', 'select * from rows_of(:n)', { n: 1 }));

test('a session that has lost what it prepared, or prepared what a migration changed, is given up', async () => {
  await many(db, 'create type told as (n integer)');
  await many(
    db,
    'create function rows_of(integer) returns setof told language sql as $$ select $1 $$',
  );
  expect(await count()).toEqual([{ n: 1 }]);
  await many(session, 'deallocate all');
  expect(await count()).toEqual([{ n: 1 }]);
  await many(db, 'drop function rows_of(integer)');
  await many(
    db,
    'create function rows_of(integer) returns table (n bigint) language sql as $$ select $1 $$',
  );
  expect(await count()).toEqual([{ n: 1n }]);
});
