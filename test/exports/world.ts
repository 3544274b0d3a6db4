import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { NativeConnection } from '@temporalio/worker';
import { request } from 'undici';
import { activities_of } from '../../activities';
import { audit } from '../../domain/ledger/audit';
import type { Db } from '../../domain/sql';
import { markFolder } from '../../exports/folder';
import { root } from '../../runtime/root';
import { bundleWorkflows } from '../../workers/bundle';
import { createWorkers } from '../../workers/run';
import {
  type Answer,
  type CallApi,
  payment_hosts,
  secrets,
  secrets_key,
  serve,
} from '../support/api';
import { openTestDatabase } from '../support/database';
import { gatewayToken, platformKey } from '../support/keys';
import { makePrice } from '../support/ledger';
import { until } from '../support/until';
import { openWorker, type TestWorker } from '../support/worker';

export interface ExportWorld extends TestWorker {
  db: Db;
  call: CallApi;
  url: string;
  machine: string;
  platform: string;
  /** EXPORT_DIR of the API and the worker. */
  dir: string;
  /** A worker on the queue `export`, over that folder or another one. */
  startExporter: (more?: { dir?: string }) => Promise<{ stop: () => Promise<void> }>;
  close: () => Promise<void>;
}

/**
 * An API and workers over one database and one folder, a new one unless it is given; closing proves
 * the ledger.
 */
export async function openExportWorld(
  s3_origins: string[] = [],
  given_dir?: string,
): Promise<ExportWorld> {
  const { db, close: dropDatabase } = await openTestDatabase(20);
  const dir = given_dir ?? (await mkdtemp(path.join(tmpdir(), 'svc-exports-')));
  const worker = await openWorker(db);
  const { namespace, temporal } = worker;
  const api = await serve({ db, temporal, export_dir: dir, s3_origins });
  await makePrice(db);
  await markFolder({ db, dir });
  const address = process.env.TEST_TEMPORAL_ADDRESS as string;
  const connection = await NativeConnection.connect({ address });
  const running = new Set<() => Promise<void>>();
  const startExporter = async ({ dir: export_dir = dir } = {}) => {
    const [exporter] = await createWorkers({
      name: 'worker_export',
      connection,
      namespace,
      activities: activities_of.worker_export({
        db,
        secrets,
        payment_hosts,
        export_dir,
        s3_origins,
      }),
      workflow_code: await bundleWorkflows(),
    });
    const done = exporter?.run();
    const stop = async () => {
      if (!running.delete(stop)) return;
      exporter?.shutdown();
      await done;
    };
    running.add(stop);
    return { stop };
  };
  const close = async () => {
    await api.close();
    for (const stop of running) await stop();
    await connection.close();
    await worker.close();
    const { broken } = await audit(db);
    await dropDatabase();
    if (given_dir === undefined) await rm(dir, { recursive: true });
    expect(broken).toEqual([]);
  };
  const machine = await gatewayToken(db);
  const platform = await platformKey(db);
  return { ...worker, ...api, db, machine, platform, dir, startExporter, close };
}

/** `npm run start:worker -- export` over a world's database and folder, with further variables. */
export function startWorkerProcess(
  { db, dir, namespace }: Pick<ExportWorld, 'db' | 'dir' | 'namespace'>,
  more: Record<string, string> = {},
): ChildProcess {
  return spawn(process.execPath, ['run.cjs', 'workers/main.ts', 'export'], {
    cwd: root,
    env: {
      ...process.env,
      DATABASE_URL: db.client.config.connection.connectionString,
      TEMPORAL_ADDRESS: process.env.TEST_TEMPORAL_ADDRESS,
      TEMPORAL_NAMESPACE: namespace,
      SVC_SECRETS_KEY: secrets_key,
      EXPORT_DIR: dir,
      LOG_LEVEL: 'error',
      ...more,
    },
    stdio: 'ignore',
  });
}

/** The digest of each file but the manifest, which names its export. */
export function sumsOf({ files }: Answer['body']): Record<string, string> {
  return Object.fromEntries(
    files
      .filter(({ n, sha256 }: { n: number; sha256: string | null }) => n > 0 && sha256 !== null)
      .map(({ kind, day, sha256 }: Record<string, string>) => [`${kind} ${day}`, sha256]),
  );
}

/**
 * A `to` that all written so far lies before: it has milliseconds where the database stamps
 * microseconds, so the moment of a write itself would cut that write off.
 */
export async function afterWritten(): Promise<Date> {
  await sleep(2);
  return new Date();
}

/** The hour that ends after all that is written so far. */
export async function lastHour(): Promise<{ from: Date; to: Date }> {
  const to = await afterWritten();
  return { from: new Date(to.getTime() - 3_600_000), to };
}

/** Waits until an export has ended, sending what waits in the outbox; its answer with files. */
export async function ended(
  { call, dispatch }: ExportWorld,
  key: string,
  id: string,
): Promise<Answer['body']> {
  let body: Answer['body'];
  await until(async () => {
    await dispatch();
    ({ body } = await call('get', `/v1/exports/${id}`, { key }));
    return !['queued', 'running'].includes(body.status);
    // A file whose worker was killed waits for its silence, several times.
  }, 180_000);
  return body;
}

export async function download(
  { url }: Pick<ExportWorld, 'url'>,
  key: string,
  at: string,
  headers: Record<string, string> = {},
) {
  const answer = await request(`${url}/v1/exports/${at}`, {
    headers: { authorization: `Bearer ${key}`, ...headers },
  });
  const bytes = Buffer.from(await answer.body.arrayBuffer());
  return { status: answer.statusCode, headers: answer.headers, bytes };
}

/** The rows of a file of JSON lines. */
export function rowsIn(bytes: Buffer): Record<string, string | number | null>[] {
  const lines = gunzipSync(bytes).toString().split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line));
}

/** All files below a folder, by their paths from it, but for the mark. */
export async function filesBelow(dir: string): Promise<string[]> {
  const found = await readdir(dir, { recursive: true, withFileTypes: true });
  return found
    .filter((one) => one.isFile() && one.name !== '.svc-exports')
    .map((one) => path.relative(dir, path.join(one.parentPath, one.name)))
    .sort();
}
