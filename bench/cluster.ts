import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { migrate } from '../migrations';
import { openDatabase } from '../runtime/database';
import { freePorts } from '../sandbox/processes/ports';
import { launch } from '../sandbox/processes/processes';
import { ensureDatabase } from '../sandbox/servers/database';
import { prepareCluster } from '../sandbox/servers/postgres';

export type BenchCluster = Awaited<ReturnType<typeof startCluster>>;

/** A PostgreSQL server of its own whose commits are durable, with one migrated database. */
export async function startCluster() {
  const data_dir = await mkdtemp(path.join(tmpdir(), 'svc-bench-'));
  await chmod(data_dir, 0o755);
  const [port = 0] = await freePorts(1);
  const { program, url, folder } = await prepareCluster({ data_dir, port });
  const server = await launch(program);
  const database = async (name: string, { is_empty = false } = {}) => {
    const address = Object.assign(new URL(url), { pathname: `/${name}` }).toString();
    await ensureDatabase(address);
    if (is_empty) return address;
    const db = openDatabase(address, 1);
    await migrate(db);
    await db.destroy();
    return address;
  };
  return {
    url: await database('svc'),
    pid: server.pid,
    /** A fresh database beside the first one, migrated unless it is to be empty. */
    database,
    async stop() {
      await server.stop(5_000);
      await rm(folder, { recursive: true, force: true });
      await rm(data_dir, { recursive: true, force: true });
    },
  };
}
