import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { migrate } from '../migrations';
import { schemaFile } from '../migrations/files';
import { schemaText } from '../migrations/schema';
import { openDatabase } from '../runtime/database';
import { freePorts } from './processes/ports';
import { launch } from './processes/processes';
import { ensureDatabase } from './servers/database';
import { prepareCluster } from './servers/postgres';

/** Writes migrations/schema.sql from the migrations, by way of an empty database of its own. */
export async function main(): Promise<void> {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-schema-'));
  // The system user that PostgreSQL runs as under root must enter it.
  await chmod(folder, 0o755);
  const [port = 0] = await freePorts(1);
  try {
    const { program, url } = await prepareCluster({ data_dir: folder, port, durable: false });
    const server = await launch(program);
    try {
      await ensureDatabase(url);
      const db = openDatabase(url, 1);
      await migrate(db);
      await writeFile(schemaFile, await schemaText(db));
      await db.destroy();
    } finally {
      await server.stop();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
