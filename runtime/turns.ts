import { AppError } from '../domain/errors';

interface Line {
  under_way: number;
  /** Those that wait, in the order in which they came. */
  waiting: Set<() => void>;
}

/** How many of one name have a turn at one time, and how long others of it wait for one. */
interface Bounds {
  most: number;
  wait_ms: number;
  /** The message of the refusal. */
  message: string;
}

/** The turns of many names, which share something; no name takes the place of another. */
export interface Turns {
  /** Resolves once there is a turn, with how to end it; throws 503 if that takes too long. */
  take(name: string): Promise<() => void>;
}

/** Gives each name so many turns at one time; the rest of it wait, in order. */
export function createTurns({ most, wait_ms, message }: Bounds): Turns {
  const lines = new Map<string, Line>();

  function end(name: string, line: Line): void {
    const [next] = line.waiting;
    // The turn goes on to the next.
    if (next) {
      next();
      return;
    }
    line.under_way -= 1;
    if (line.under_way === 0) lines.delete(name);
  }

  function wait({ waiting }: Line): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        clearTimeout(timer);
        waiting.delete(begin);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(begin);
        reject(new AppError('unavailable', message, { retry_after: 2 }));
      }, wait_ms);
      waiting.add(begin);
    });
  }

  return {
    async take(name) {
      const line = lines.get(name) ?? { under_way: 0, waiting: new Set() };
      lines.set(name, line);
      if (line.under_way < most) line.under_way += 1;
      else await wait(line);
      let is_over = false;
      return () => {
        if (is_over) return;
        is_over = true;
        end(name, line);
      };
    },
  };
}
