import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { many } from '../../domain/sql';
import { schemaFile } from '../../migrations/files';
import { schemaText } from '../../migrations/schema';
import { openDatabase } from '../../runtime/database';
import { maintenanceUrl } from '../../sandbox/servers/database';
import { openTestDatabase, patient } from '../support/database';

// migrations/schema.sql shows people the schema as it stands after the last migration.

test('migrations/schema.sql is the schema after the last migration; renew it with npm run schema', async () => {
  const { db, close } = await openTestDatabase(1);
  const text = await schemaText(db);
  // Partitions come and go with the days, and are left out.
  await many(db, 'select add_event_partition(current_date)');
  const next_day = await schemaText(db);
  await close();
  if ((await readFile(schemaFile, 'utf8')) !== text)
    throw new Error(
      'migrations/schema.sql is stale. Run `npm run schema` and commit what it wrote.',
    );
  expect(next_day).toBe(text);
});

test('nothing is left out of it: an empty database that runs it has the same schema', async () => {
  const template = process.env.TEST_DATABASE_URL as string;
  const admin = patient(openDatabase(maintenanceUrl(template), 1));
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await many(admin, `create database ${name}`);
  const url = Object.assign(new URL(template), { pathname: `/${name}` }).toString();
  const db = patient(openDatabase(url, 1));
  const written = await readFile(schemaFile, 'utf8');
  try {
    await db.raw(written.replaceAll('?', '\\?'));
    expect(await schemaText(db)).toBe(written);
  } finally {
    await db.destroy();
    await many(admin, `drop database ${name} with (force)`);
    await admin.destroy();
  }
});
