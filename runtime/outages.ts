import { isUnable } from '../domain/sql';
import type { Logger } from './log';

/** An outage is over if nothing has failed of it for so long. */
const QUIET_MS = 10_000;

/** A statement past its time says nothing of the database: another one may be answered. */
const STATEMENT_TIMEOUT = '57014';

interface Outage {
  failed_at: number;
  timer: NodeJS.Timeout;
}

const outages = new WeakMap<Logger, Map<string, Outage>>();

/**
 * Notes that something which a process needs is away or cannot work: a line in its log as that
 * begins, and one as it is over, however many requests meet it.
 */
export function noteOutage(log: Logger, error: unknown): undefined {
  const running = outages.get(log) ?? new Map<string, Outage>();
  outages.set(log, running);
  const { code = 'unreachable' } = error as { code?: string };
  const known = running.get(code);
  if (known) {
    known.failed_at = performance.now();
    return;
  }
  log.warn({ err: error, code }, wordsOf(code));
  const end = () => {
    const { failed_at } = running.get(code) as Outage;
    const left_ms = failed_at + QUIET_MS - performance.now();
    if (left_ms > 0) {
      running.set(code, { failed_at, timer: setTimeout(end, left_ms).unref() });
      return;
    }
    running.delete(code);
    log.info({ code }, 'nothing has failed of it for a while');
  };
  running.set(code, {
    failed_at: performance.now(),
    timer: setTimeout(end, QUIET_MS).unref(),
  });
}

function wordsOf(code: string): string {
  return code === STATEMENT_TIMEOUT
    ? 'a statement took too long and was ended'
    : 'a dependency is away or cannot work now';
}

/** The code with which the database has refused work lately. */
export function outageOf(log: Logger): string | undefined {
  const codes = [...(outages.get(log)?.keys() ?? [])];
  return codes.find((code) => code !== STATEMENT_TIMEOUT && isUnable({ code }));
}
