import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { to } from 'pg-copy-streams';
import * as making from '../domain/exports/making';
import * as organizations from '../domain/people/organizations';
import { type Db, many, one } from '../domain/sql';
import { markFolder } from '../exports/folder';
import { openDatabase } from '../runtime/database';
import { root } from '../runtime/root';
import { noteUse, seedCaller, send } from './alone-reserve';
import type { BenchCluster } from './cluster';
import { median } from './load';
import type { Row } from './row';

const ROWS = 1_000_000;
const ROUNDS = 3;
/** Reserves that are timed alone, as many as an export leaves time for beside it. */
const TURNS = 1_000;
const NOTED_MS = 30_000;

const run = promisify(execFile);

/**
 * A ledger of 10^6 entries written into one file, against a bare COPY of the same rows to a
 * reader that throws them away; and the most memory that the writing process has.
 */
export async function exportRows(cluster: BenchCluster): Promise<Row[]> {
  const url = await cluster.database('bench_exports');
  const db = openDatabase(url, 2);
  const dir = await mkdtemp(path.join(tmpdir(), 'svc-bench-exports-'));
  try {
    await markFolder({ db, dir });
    const { id: org_id } = await organizations.create(db, { name: 'Bench', currency: 'USD' });
    const end = await seedEntries(db, org_id);
    const ratios: number[] = [];
    const memory: number[] = [];
    let [copied, exported] = [0, 0];
    for (let round = 0; round < ROUNDS; round += 1) {
      copied = await copyMs(url);
      const job = await exportOnce(db, { org_id, to: end, url, dir });
      exported = job.ms;
      ratios.push(copied / job.ms);
      memory.push(job.memory_mb);
    }
    const besides = await reservesBeside(url, () => exportOnce(db, { org_id, to: end, url, dir }));
    const ratio = median(ratios);
    const most = Math.max(...memory);
    return [
      {
        measure: 'export of 10^6 entries of the ledger as JSON lines, against a bare COPY of them',
        figure: `${(exported / 1_000).toFixed(1)} s against ${(copied / 1_000).toFixed(1)} s`,
        ratio,
        bar: 'at least 0.3 x',
        isMet: ratio >= 0.3,
      },
      {
        measure: 'memory of the process that writes them',
        figure: `${most.toFixed(0)} MB`,
        bar: 'below 200 MB',
        isMet: most < 200,
      },
      besides,
    ];
  } finally {
    await db.destroy();
    await rm(dir, { recursive: true, force: true });
  }
}

/** A reserve's p50 while an export runs, against its p50 alone, in turns. */
async function reservesBeside(url: string, runExport: () => Promise<Job>): Promise<Row> {
  const caller = await seedCaller(url);
  const db = openDatabase(url, 1);
  /** Until `isOver`; the median of the reserves, in milliseconds. */
  const p50Until = async (isOver: (done: number) => boolean): Promise<number> => {
    const times: number[] = [];
    let noted_at = Number.NEGATIVE_INFINITY;
    while (!isOver(times.length)) {
      // Beside calls an export takes minutes, and the use of a key is noted once in each.
      if (performance.now() - noted_at > NOTED_MS) {
        await noteUse(db, caller);
        noted_at = performance.now();
      }
      const began = performance.now();
      const settle = await send(db, caller);
      times.push(performance.now() - began);
      await send(db, caller, { settle, isLast: true });
    }
    return median(times);
  };
  await p50Until((done) => done === TURNS);
  const pairs: { alone: number; beside: number }[] = [];
  while (pairs.length < ROUNDS) {
    const alone = await p50Until((done) => done === TURNS);
    let is_written = false;
    const writing = runExport().finally(() => {
      is_written = true;
    });
    const beside = await p50Until(() => is_written).catch(async (error) => {
      await writing.catch(() => undefined);
      throw error;
    });
    await writing;
    pairs.push({ alone, beside });
  }
  await db.destroy();
  const of = (name: 'alone' | 'beside') => median(pairs.map((pair) => pair[name])).toFixed(2);
  const ratio = median(pairs.map(({ alone, beside }) => beside / alone));
  return {
    measure: 'reserve of one item while an export of 10^6 entries runs, p50, against alone',
    figure: `${of('beside')} ms against ${of('alone')} ms`,
    ratio,
    bar: 'at most 1.15 x',
    isMet: ratio <= 1.15,
  };
}

/**
 * Entries of one wallet, all of one day; the end of their period. Of calls: one made by hand would
 * write a row of the audit log as well.
 */
async function seedEntries(db: Db, org_id: string): Promise<Date> {
  await many(
    db,
    `insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model, description,
       created_at)
     select 'txn_' || md5(n::text), w.id, w.org_id, n, 'settlement', 1000001, n::bigint * 1000001, 'openai', 'gpt-4o-mini', 'entry ' || n,
       date_trunc('day', clock_timestamp(), 'UTC') - interval '1 day' + n * interval '1 millisecond'
     from wallets w cross join generate_series(1, :rows) as n where w.org_id = :org_id`,
    { org_id, rows: ROWS },
  );
  await many(
    db,
    `update wallets set seq = :rows, balance_nanos = :rows::bigint * 1000001, created_at = created_at - interval '2 days'
     where org_id = :org_id`,
    { org_id, rows: ROWS },
  );
  await many(db, 'vacuum analyze wallet_transactions');
  const { to } = await one<{ to: Date }>(
    db,
    `select date_trunc('day', clock_timestamp(), 'UTC') as to`,
  );
  return to;
}

/** The rows to a reader in a process that throws them away. */
async function copyMs(url: string): Promise<number> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const began = performance.now();
  const copy = 'copy (select * from wallet_transactions order by wallet_id, seq) to stdout';
  for await (const _ of client.query(to(copy)));
  const ms = performance.now() - began;
  await client.end();
  return ms;
}

interface Wanted {
  org_id: string;
  to: Date;
  url: string;
  dir: string;
}

interface Job {
  ms: number;
  memory_mb: number;
}

async function exportOnce(db: Db, { org_id, to, url, dir }: Wanted): Promise<Job> {
  const from = new Date(to.getTime() - 86_400_000);
  const wanted = { org_id, kinds: ['ledger'] as const, format: 'jsonl' as const, from, to };
  const by = { destination_id: null, created_by: 'bench', created_with: null };
  const { id } = await db.transaction((trx) => making.create(trx, { ...wanted, ...by }));
  const { stdout } = await run(process.execPath, ['run.cjs', 'bench/processes/export-job.ts'], {
    cwd: root,
    env: { ...process.env, DATABASE_URL: url, EXPORT_DIR: dir, EXPORT_ID: id },
  });
  const { status, ...figures } = JSON.parse(stdout);
  if (status !== 'completed') throw new Error(`The export ended as ${status}.`);
  return figures;
}
