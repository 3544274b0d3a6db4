import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../runtime/log';
import { launch, type Process, type Program, type Watch } from './processes';

/** A process that is to run until it is stopped. */
export interface Kept {
  name: string;
  /** The number of the process that was ready last. */
  pid: number | undefined;
  /** Settles with the first start: that one must work, later ones are tried for ever. */
  first_start: Promise<void>;
  stop: (grace_ms: number) => Promise<void>;
}

const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 10_000;
// Having run this long, a process is taken to be healthy again.
const STEADY_MS = 30_000;

/**
 * Starts a process, and starts it again whenever it ends; `onReady` follows each start that worked.
 */
export function keepRunning(
  program: Program,
  { log, onReady, ...watch }: Watch & { log: Logger; onReady: () => void },
): Kept {
  const stopping = new AbortController();
  const { signal } = stopping;
  let running: Process | undefined;

  const start = async () => {
    running = await launch(program, { ...watch, signal });
    kept.pid = running.pid;
    onReady();
    return running;
  };
  const restart = async () => {
    try {
      const { pid, ended } = await start();
      log.info(`${program.name} runs again as process ${pid}`);
      return await ended;
    } catch (error) {
      return `failed: ${(error as Error).message}`;
    }
  };
  const keep = async (first: Promise<string>) => {
    let since = performance.now();
    let backoff_ms = BACKOFF_MIN_MS;
    for (let how = await first; !signal.aborted; how = await restart()) {
      if (performance.now() - since > STEADY_MS) backoff_ms = BACKOFF_MIN_MS;
      log.warn(`${program.name} ${how}; starting it again in ${backoff_ms / 1_000} s`);
      await sleep(backoff_ms, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      backoff_ms = Math.min(backoff_ms * 2, BACKOFF_MAX_MS);
      since = performance.now();
    }
  };

  const first = start();
  const life = first.then(({ ended }) => keep(ended)).catch(() => undefined);
  const kept: Kept = {
    name: program.name,
    pid: undefined,
    first_start: first.then(() => undefined),
    stop: async (grace_ms) => {
      stopping.abort();
      await first.catch(() => undefined);
      await running?.stop(grace_ms);
      await life;
    },
  };
  return kept;
}
