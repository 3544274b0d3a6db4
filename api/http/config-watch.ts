import { setTimeout as sleep } from 'node:timers/promises';
import { type Assignments, readAssignments, versionFor } from '../../domain/gateways/assignments';
import * as configs from '../../domain/gateways/configs';
import { cannotWorkNow, type Db } from '../../domain/sql';
import type { Logger } from '../../runtime/log';

/** While gateways wait, what they are to run is looked at this often, once for all of them. */
const LOOK_MS = 400;
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

/** Says what gateways are to run, and wakes those that wait once that changes. */
export type ConfigWatch = ReturnType<typeof createConfigWatch>;

/**
 * One look for all that wait at this process; none holds a connection to the database, and none
 * looks while nobody waits.
 */
export function createConfigWatch(
  db: Db,
  { isDraining }: { isDraining: () => boolean },
  log: Logger,
) {
  const waiters = new Set<Waiter>();
  const texts = new Map<number, string>();
  const look = sharedRead(() => readAssignments(db));
  let is_running = false;

  const run = async (): Promise<void> => {
    is_running = true;
    while (waiters.size > 0) {
      await sleep(LOOK_MS, undefined, { ref: false });
      if (isDraining()) for (const { wake } of waiters) wake();
      const assignments = await look().catch((error) => {
        // They wait on while the database is away; anything else is a bug.
        if (!cannotWorkNow(error))
          log.error({ err: error }, 'the configurations of gateways were not read');
        return undefined;
      });
      if (assignments === undefined) continue;
      for (const { asking, known, wake } of waiters) {
        const desired = desiredOf(assignments, asking);
        if (desired.version !== known.version || desired.is_in_rollout !== known.is_in_rollout)
          wake();
      }
    }
    is_running = false;
  };

  return {
    /**
     * What a gateway is to run: at once if that is another version than it knows, else after a
     * change or the wait.
     */
    async desired(
      asking: Asking,
      {
        known,
        wait_ms,
        gone,
      }: { known: number | null | undefined; wait_ms: number; gone: AbortSignal },
    ): Promise<Desired> {
      const now = desiredOf(await look(), asking);
      if (wait_ms === 0 || now.version !== known || isDraining()) return now;
      const woken = waitIn(waiters, { asking, known: now }, wait_ms, gone);
      if (!is_running) void run();
      await woken;
      return desiredOf(await look(), asking);
    },
    /** A version as JSON text, `{"version": 7, "config": {...}}`. */
    async textOf(version: number): Promise<string> {
      const known = texts.get(version);
      if (known !== undefined) return known;
      const row = await configs.find(db, version);
      const text = JSON.stringify({ version, config: row?.config ?? null });
      const [oldest] = texts.keys();
      if (texts.size >= TEXTS_MAX && oldest !== undefined) texts.delete(oldest);
      texts.set(version, text);
      return text;
    },
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
    const timer = setTimeout(end, wait_ms);
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
