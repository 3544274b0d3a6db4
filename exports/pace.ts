import { setTimeout as sleep } from 'node:timers/promises';
import type { CopyText } from '../domain/exports/copy-text';
import { type Db, one } from '../domain/sql';

// An export is in no hurry where others wait: while somebody writes to the database, calls that are
// paid for above all, its pages take a third of the time at most. While nobody does it goes on as
// fast as it can.

/** How often it looks whether somebody writes. */
const LOOK_MS = 200;
/** More than an export's own notes, and less than a handful of calls. */
const BUSY_BYTES_PER_S = 32_768;
/** So many times as long as a page took it pauses before the next one. */
const PAUSES = 3;
const PAUSE_MS_MAX = 500;

/** What an export hears and does while it holds itself back. */
interface Means {
  /** Bytes that the server has written to its log of changes, up to now. */
  writtenBytes: (db: Db) => Promise<number>;
  /** Ends early once `signal` is aborted: whoever stops it says so when the page is there. */
  pause: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

const means: Means = {
  async writtenBytes(db) {
    const { bytes } = await one<{ bytes: string }>(
      db,
      `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text as bytes`,
    );
    return Number(bytes);
  },
  pause: (ms, signal) => sleep(ms, undefined, { signal }).catch(() => undefined),
};

/** Reads pages by `copyText`, each after a pause while others write. */
export function paced(
  copyText: CopyText,
  signal: AbortSignal,
  { writtenBytes, pause }: Means = means,
): CopyText {
  const others = createLook(writtenBytes);
  let read_ms = 0;
  let used = process.cpuUsage();
  return async (db, sql, bindings) => {
    others.look(db);
    // Since the last page was asked for: the one before it is written while this one is waited for.
    const { user, system } = process.cpuUsage(used);
    const took_ms = (user + system) / 1_000 + read_ms;
    used = process.cpuUsage();
    if (others.isBusy()) await pause(Math.min(PAUSES * took_ms, PAUSE_MS_MAX), signal);
    const began = performance.now();
    const page = await copyText(db, sql, bindings);
    read_ms = performance.now() - began;
    return page;
  };
}

/** Looks beside what goes on, so that no page waits for it. */
function createLook(writtenBytes: Means['writtenBytes']) {
  let last: { at: number; bytes: number } | undefined;
  let is_looking = false;
  let is_busy = false;
  const lookNow = async (db: Db) => {
    const bytes = await writtenBytes(db);
    const at = performance.now();
    if (last !== undefined)
      is_busy = ((bytes - last.bytes) * 1_000) / (at - last.at) > BUSY_BYTES_PER_S;
    last = { at, bytes };
  };
  return {
    isBusy: () => is_busy,
    look(db: Db): void {
      if (is_looking || (last !== undefined && performance.now() - last.at < LOOK_MS)) return;
      is_looking = true;
      // Who cannot know pauses for nobody.
      lookNow(db)
        .catch(() => {
          is_busy = false;
        })
        .finally(() => {
          is_looking = false;
        });
    },
  };
}
