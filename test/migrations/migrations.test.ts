import { randomUUID } from 'node:crypto';
import { many } from '../../domain/sql';
import { migrate } from '../../migrations';
import { migrationNames } from '../../migrations/files';
import { openDatabase } from '../../runtime/database';
import { maintenanceUrl } from '../../sandbox/servers/database';

test('four instances migrating an empty database at once apply each file once, and none fails', async () => {
  const template = process.env.TEST_DATABASE_URL as string;
  const admin = openDatabase(maintenanceUrl(template), 1);
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await many(admin, `create database ${name}`);
  const url = Object.assign(new URL(template), { pathname: `/${name}` }).toString();
  const instances = Array.from({ length: 4 }, () => openDatabase(url, 2));
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
