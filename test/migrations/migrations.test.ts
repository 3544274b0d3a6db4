import { randomUUID } from 'node:crypto';
import { many } from '../../domain/sql';
import { migrate } from '../../migrations';
import { migrationNames, migrationText } from '../../migrations/files';
import { openDatabase } from '../../runtime/database';
import { maintenanceUrl } from '../../sandbox/servers/database';
import { openTestDatabase, patient } from '../support/database';
import { until } from '../support/until';

test('four instances migrating an empty database at once apply each file once, and none fails', async () => {
  const template = process.env.TEST_DATABASE_URL as string;
  const admin = patient(openDatabase(maintenanceUrl(template), 1));
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await many(admin, `create database ${name}`);
  const url = Object.assign(new URL(template), { pathname: `/${name}` }).toString();
  const instances = Array.from({ length: 4 }, () => patient(openDatabase(url, 2)));
  try {
    await Promise.all(instances.map((db) => migrate(db)));
    // And once more, as every start does.
    await Promise.all(instances.map((db) => migrate(db)));
    const [db] = instances as [(typeof instances)[number]];
    const applied = await many<{ name: string }>(
      db,
      'select name from knex_migrations order by id',
    );
    expect(applied.map(({ name }) => name)).toEqual(await migrationNames());
  } finally {
    await Promise.all(instances.map((db) => db.destroy()));
    await many(admin, `drop database ${name} with (force)`);
    await admin.destroy();
  }
});

test('a migration that gets no lock says who is in the way, and goes on once they have ended', async () => {
  const { db, drop, open } = await openEmptyDatabase();
  const dump = open('pg_dump');
  try {
    await many(db, 'create table of_somebody (id text)');
    const words = /Session \d+ \(pg_dump\) has had one of some for \d+ s: .*pg_terminate_backend/;
    const said: string[] = [];
    const waiting = await dump.transaction(async (trx) => {
      await trx.raw('set local idle_in_transaction_session_timeout = 0');
      await many(trx, 'select count(*) from of_somebody');
      await expect(migrate(db, { patience_ms: 0 })).rejects.toThrow(words);
      const migrating = migrate(db, { say: (text) => said.push(text) });
      migrating.catch(() => undefined);
      await until(() => said.length > 0);
      return { migrating };
    });
    expect(said[0]).toMatch(words);
    await waiting.migrating;
    const applied = await many<{ name: string }>(
      db,
      'select name from knex_migrations order by id',
    );
    expect(applied.map(({ name }) => name)).toEqual(await migrationNames());
  } finally {
    await dump.destroy();
    await drop();
  }
});

/** A database without a table, and sessions of any name in it. */
async function openEmptyDatabase() {
  const template = process.env.TEST_DATABASE_URL as string;
  const admin = patient(openDatabase(maintenanceUrl(template), 1));
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await many(admin, `create database ${name}`);
  const url = Object.assign(new URL(template), { pathname: `/${name}` }).toString();
  const open = (application: string) => patient(openDatabase(url, 2, application));
  const db = open('test');
  const drop = async () => {
    await db.destroy();
    await many(admin, `drop database ${name} with (force)`);
    await admin.destroy();
  };
  return { db, open, drop };
}

// The ledger of a large installation takes minutes to scan, and a start holds its locks to its end.
test('a check that is added to a table that was there looks at none of its rows', async () => {
  const landed = '0024';
  const names = (await migrationNames()).filter((name) => name >= landed);
  const texts = await Promise.all(names.map(migrationText));
  const statements = texts.flatMap((text) => text.split(';'));
  const added = statements.filter((text) => /alter table [^;]*add constraint/.test(text));
  expect(added.length).toBeGreaterThan(0);
  for (const statement of added) expect(statement).toMatch(/ not valid$/);
});

test('new entries of the ledger meet such a check all the same', async () => {
  const { db, close } = await openTestDatabase(1);
  try {
    const sql = `insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, phase, created_at)
      values ('t', 'w', 'o', 1, 'credit', 1, 1, 'nonsense', now())`;
    await expect(many(db, sql)).rejects.toThrow('wallet_transactions_phase_check');
  } finally {
    await close();
  }
});
