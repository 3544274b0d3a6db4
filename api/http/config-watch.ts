import { type Assignments, readAssignments, versionFor } from '../../domain/gateways/assignments';
import * as configs from '../../domain/gateways/configs';
import type { Db } from '../../domain/sql';
import type { Logger } from '../../runtime/log';
import { openListener } from '../../runtime/notices';

/** What was read is read again after so long, though no notice came: it may have been lost. */
const KEPT_MS = 5_000;
/** What could not be read is tried again after so long, while somebody waits for it. */
const RETRY_MS = 500;
/** Versions never change; those of a few rollouts are kept as text. */
const TEXTS_MAX = 8;

/** A gateway as it asks for its configuration. */
export interface Asking {
  /** Null for one of the version before, which no rollout moves. */
  id: string | null;
  group: string;
}

/** What a gateway is to run. */
export interface Desired {
  /** Null: its own file. */
  version: number | null;
  /** True while a rollout goes on in its group: then it reports often. */
  is_in_rollout: boolean;
}

interface Waiter {
  asking: Asking;
  known: Desired;
  wake: () => void;
}

/** What a gateway has, and how long it waits for something else. */
interface Wait {
  /** Null: its own file; undefined if it does not say. */
  known: number | null | undefined;
  wait_ms: number;
  gone: AbortSignal;
}

interface WatchParts {
  db: Db;
  database_url: string;
  log: Logger;
}

/** Says what gateways are to run, and wakes those that wait once that changes. */
export type ConfigWatch = ReturnType<typeof openConfigWatch>;

/**
 * The questions for configurations that wait at this process. PostgreSQL notifies of a change,
 * which is then read once for all of them; none of them holds a connection, and none costs anything
 * while nothing changes. A notice that is lost is made up for at the end of each wait.
 */
export function openConfigWatch({ db, database_url, log }: WatchParts) {
  const waiters = new Set<Waiter>();
  const textOf = createTexts(db);
  const assigned = createAssigned(db);
  let is_closing = false;
  let retry: NodeJS.Timeout | undefined;

  const wakeChanged = async (): Promise<void> => {
    assigned.notice();
    if (waiters.size === 0) return;
    const assignments = await assigned.read();
    for (const { asking, known, wake } of waiters) {
      const desired = desiredOf(assignments, asking);
      if (desired.version !== known.version || desired.is_in_rollout !== known.is_in_rollout)
        wake();
    }
  };
  const noticed = (): void => {
    wakeChanged().catch((error) => {
      log.warn({ err: error }, 'what gateways are to run could not be read');
      // The notice came once: without another try all would wait to their end.
      if (is_closing || waiters.size === 0) return;
      retry ??= setTimeout(() => {
        retry = undefined;
        noticed();
      }, RETRY_MS);
    });
  };
  const listener = openListener({ database_url, channel: 'configs', log }, noticed);

  return {
    /**
     * What a gateway is to run: at once if that is another version than it knows, else after a
     * change or the wait.
     */
    async desired(asking: Asking, { known, wait_ms, gone }: Wait): Promise<Desired> {
      const read = wait_ms === 0 ? assigned.read : assigned.readUnlessKnown;
      let now = desiredOf(await read(), asking);
      // What is kept may be of before a change that another process has told the gateway of.
      if (wait_ms > 0 && now.version !== known) now = desiredOf(await assigned.read(), asking);
      if (wait_ms === 0 || now.version !== known || is_closing) return now;
      await waitIn(waiters, { asking, known: now }, wait_ms, gone);
      return desiredOf(await assigned.readUnlessKnown(), asking);
    },
    /** A version as JSON text, `{"version": 7, "config": {...}}`. */
    textOf,
    /** Ends every wait with the answer of now; further questions no longer wait. */
    async close(): Promise<void> {
      is_closing = true;
      clearTimeout(retry);
      for (const { wake } of waiters) wake();
      await listener.close();
    },
  };
}

/** What all gateways are to run, as it was read last. */
function createAssigned(db: Db) {
  const readOnce = sharedRead(() => readAssignments(db));
  /** How many notices came. */
  let notices = 0;
  let kept: { assignments: Assignments; notices: number; read_at: number } | undefined;
  const read = async (): Promise<Assignments> => {
    for (;;) {
      const before = notices;
      const assignments = await readOnce();
      // A notice that came while this was read may be of something later than what was read.
      if (before !== notices) continue;
      kept = { assignments, notices, read_at: performance.now() };
      return assignments;
    }
  };
  return {
    /** Something has changed. */
    notice: (): void => {
      notices += 1;
    },
    read,
    /** The same without a read, unless a notice came since the last one, or may have been lost. */
    readUnlessKnown: async (): Promise<Assignments> => {
      const is_new = kept?.notices === notices && performance.now() - kept.read_at < KEPT_MS;
      return is_new && kept !== undefined ? kept.assignments : read();
    },
  };
}

/** The texts of versions. */
function createTexts(db: Db): (version: number) => Promise<string> {
  const texts = new Map<number, string>();
  return async (version) => {
    const known = texts.get(version);
    if (known !== undefined) return known;
    const row = await configs.find(db, version);
    const text = JSON.stringify({ version, config: row?.config ?? null });
    const [oldest] = texts.keys();
    if (texts.size >= TEXTS_MAX && oldest !== undefined) texts.delete(oldest);
    texts.set(version, text);
    return text;
  };
}

/**
 * One read at a time: those who ask while one is out share the next, so that none is answered from
 * before its own time.
 */
function sharedRead<T>(read: () => Promise<T>): () => Promise<T> {
  let out: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  return () => {
    next ??= out.then(() => {
      const now = read();
      out = now.catch(() => undefined);
      next = undefined;
      return now;
    });
    return next;
  };
}

/**
 * Waits end on the multiples of a twentieth of their time, and so up to that much sooner: the
 * gateways of a fleet then ask anew in a few groups, and a process that wakes for ten questions at
 * once spends on each a fraction of what one alone takes.
 */
function timeUntilTick(wait_ms: number): number {
  const tick_ms = wait_ms / 20;
  const now = performance.now();
  return Math.floor((now + wait_ms) / tick_ms) * tick_ms - now;
}

/** Resolves when the waiter is woken, after its time, or when its gateway has gone. */
function waitIn(
  waiters: Set<Waiter>,
  { asking, known }: Pick<Waiter, 'asking' | 'known'>,
  wait_ms: number,
  gone: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      gone.removeEventListener('abort', end);
      waiters.delete(waiter);
      resolve();
    };
    const timer = setTimeout(end, timeUntilTick(wait_ms));
    const waiter: Waiter = { asking, known, wake: end };
    gone.addEventListener('abort', end);
    waiters.add(waiter);
  });
}

function desiredOf(assignments: Assignments, asking: Asking): Desired {
  return {
    version: versionFor(assignments, asking),
    is_in_rollout: Object.hasOwn(assignments.rollouts, asking.group),
  };
}
