import { createDeferred } from '../../runtime/deferred';

/**
 * Several wait until all are there, and then go on together; one that fails ends the wait of all.
 */
interface Barrier<Who> {
  arrive(at: number, who: Who): Promise<void>;
  fail(error: unknown): void;
  /**
   * Somebody ends without having arrived; nobody waits for the others then. Changes nothing once
   * all have gone on.
   */
  leave: () => void;
  /** What failed first. */
  failure(): unknown;
}

/** A barrier of so many; `goOn` runs once with all of them, in the order of their places. */
export function createBarrier<Who>(
  count: number,
  goOn: (all: Who[]) => Promise<void>,
): Barrier<Who> {
  const arrived = new Map<number, Who>();
  const over = createDeferred<void | Promise<void>>();
  let failure: { error: unknown } | undefined;
  return {
    arrive(at, who) {
      arrived.set(at, who);
      if (failure === undefined && arrived.size === count) {
        const all = [...arrived.keys()].sort((a, b) => a - b).map((key) => arrived.get(key) as Who);
        over.resolve(goOn(all));
      }
      return over.promise as Promise<void>;
    },
    fail(error) {
      failure ??= { error };
      over.reject(error);
    },
    leave: () => over.resolve(),
    failure: () => failure?.error,
  };
}
