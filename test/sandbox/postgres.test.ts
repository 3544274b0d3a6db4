import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { freePorts } from '../../sandbox/processes/ports';
import { launch } from '../../sandbox/processes/processes';
import { ensureDatabase } from '../../sandbox/servers/database';
import { prepareCluster } from '../../sandbox/servers/postgres';

const scratch = mkdtempSync(path.join(tmpdir(), 'svc-postgres-'));
// The system user that runs PostgreSQL under root must enter it.
chmodSync(scratch, 0o755);
const data_dir = path.join(scratch, 'data');

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

test('what was committed survives a killed server, also in a throw-away cluster', async () => {
  const first = await start(data_dir);
  await ensureDatabase(first.url);
  await query(first.url, 'create table kept as select 1 as one');
  process.kill(first.server.pid, 'SIGKILL');
  await first.server.ended;
  const second = await start(data_dir);
  expect(await query(second.url, 'select one from kept')).toEqual([{ one: 1 }]);
  await second.server.stop();
});

test('a server that was left running is ended before the new one starts', async () => {
  const left = await start(data_dir);
  const second = await start(data_dir);
  await left.server.ended;
  expect(await query(second.url, 'select one from kept')).toEqual([{ one: 1 }]);
  await second.server.stop();
});

test('a pid file whose number is now somebody else ends nobody', async () => {
  const pid_file = path.join(data_dir, 'postgres', 'postmaster.pid');
  writeFileSync(pid_file, `${process.pid}\n${data_dir}/postgres\n`);
  const { server } = await start(data_dir);
  expect(readFileSync(pid_file, 'utf8')).toMatch(`${server.pid}\n`);
  await server.stop();
});

test('a cluster whose password is gone is moved aside, never removed', async () => {
  rmSync(path.join(data_dir, 'postgres.password'));
  const { notes, folder } = await prepareCluster({ data_dir, port: 1, durable: false });
  const aside = /moved to (\S+) /.exec(notes.join())?.[1] ?? '';
  expect(aside).toContain(`${folder}.without-password`);
  expect(readFileSync(path.join(aside, 'PG_VERSION'), 'utf8')).toMatch(/^\d+/);
});

test('a cluster of another PostgreSQL is refused with both versions', async () => {
  writeFileSync(path.join(data_dir, 'postgres', 'PG_VERSION'), '12\n');
  await expect(prepareCluster({ data_dir, port: 1 })).rejects.toThrow(
    /made by PostgreSQL 12, this is \d+/,
  );
});

test('data lies in the data directory, or as root outside a folder that its system user cannot enter', async () => {
  const closed = path.join(scratch, 'closed');
  execFileSync('mkdir', ['-m', '700', closed]);
  const { server, notes, folder } = await start(closed);
  await server.stop();
  if (process.getuid?.() !== 0) {
    expect(folder).toBe(path.join(closed, 'postgres'));
    return;
  }
  expect(folder).toMatch(/^\/var\/tmp\/svc-[0-9a-f]{12}\/postgres$/);
  expect(notes.join()).toContain(`the database is kept in ${folder}`);
  const again = await prepareCluster({ data_dir: closed, port: 1 });
  expect(again.folder).toBe(folder);
  rmSync(path.dirname(folder), { recursive: true });
});

async function start(folder: string) {
  const [port = 0] = await freePorts(1);
  const cluster = await prepareCluster({ data_dir: folder, port, durable: false });
  return { ...cluster, server: await launch(cluster.program) };
}

async function query(url: string, sql: string): Promise<object[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}
