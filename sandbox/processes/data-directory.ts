import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { link, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Birth, birthOf, endLeftover, isAlive } from './leftovers';

type Holder = Birth & { stopping: boolean };

const LEAVING_MS = 10_000;
// A start whose npm was killed needs a moment to see it.
const NOTICING_MS = 2_000;

/** The right to use a data directory, which one start has at a time. */
export type Claim = Awaited<ReturnType<typeof claimDirectory>>;

/** Takes a data directory, and ends the processes that a killed start left in it. */
export async function claimDirectory(data_dir: string) {
  const lock = path.join(data_dir, 'start.lock');
  const records = path.join(data_dir, 'processes.json');
  const us = birthOf(process.pid) ?? { pid: process.pid, born: 'unknown' };
  // Root's PostgreSQL runs as a system user, who must pass through; nobody lists what is in it.
  await mkdir(data_dir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 });
  await takeLock(lock, us);
  await hideFromTools(data_dir);
  await endLeftovers(records);
  const processes = new Map<string, Birth>();
  return {
    /** Remembers a process, so that a later start can end it if we are killed. */
    remember: (name: string, pid: number) => {
      const birth = birthOf(pid);
      if (birth) processes.set(name, birth);
      replaceFile(records, JSON.stringify([...processes.values()]));
    },
    /** Says that we are going, so that a start that comes now waits for us. */
    leave: () => replaceFile(lock, JSON.stringify({ ...us, stopping: true })),
    release: () => {
      for (const file of [records, lock]) rmSync(file, { force: true });
    },
  };
}

/** Git, and whatever reads its rules, as lint does, passes over a data directory inside a clone. */
async function hideFromTools(data_dir: string): Promise<void> {
  await writeFile(path.join(data_dir, '.gitignore'), '*\n', { flag: 'wx' }).catch(isTaken);
}

/** Makes a folder of ours in the data directory, or closes it: only we may look into it. */
export function privateFolder(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  chmodSync(folder, 0o700);
  return folder;
}

/**
 * Writes a file for our eyes only, so that a reader sees the old one or the new one and nothing
 * between.
 */
export function replaceFile(file: string, text: string): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

async function takeLock(lock: string, us: Birth): Promise<void> {
  const ours = `${lock}.${us.pid}`;
  replaceFile(ours, JSON.stringify({ ...us, stopping: false }));
  const began = performance.now();
  try {
    // A link appears with its content, and to one of many at once.
    while (!(await link(ours, lock).then(() => true, isTaken))) {
      const holder = readLock(lock);
      if (holder && isAlive(holder)) await waitFor(holder, lock, performance.now() - began);
      else await removeStale(lock, `${ours}.stale`);
    }
  } finally {
    await rm(ours, { force: true });
  }
}

function isTaken(error: NodeJS.ErrnoException): false {
  if (error.code === 'EEXIST') return false;
  throw error;
}

async function waitFor(holder: Holder, lock: string, waited_ms: number): Promise<void> {
  if (waited_ms > (holder.stopping ? LEAVING_MS : NOTICING_MS)) {
    throw new Error(
      `${path.dirname(lock)} is in use by process ${holder.pid}, another npm start. Stop that ` +
        'one, or give this one its own: PORTS=free DATA_DIR=<folder> npm start',
    );
  }
  await sleep(100);
}

// Between our look and our removal another start may have taken the lock; it gets it back.
async function removeStale(lock: string, aside: string): Promise<void> {
  await rename(lock, aside).catch(() => undefined);
  const holder = readLock(aside);
  if (holder && isAlive(holder)) await link(aside, lock).catch(() => undefined);
  await rm(aside, { force: true });
}

function readLock(lock: string): Holder | undefined {
  return readJson(lock) as Holder | undefined;
}

async function endLeftovers(records: string): Promise<void> {
  const left = (readJson(records) as Birth[] | undefined) ?? [];
  await Promise.all(left.map((record) => endLeftover(record)));
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
