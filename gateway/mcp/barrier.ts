/** Several wait until all are there, and then go on together; one that fails ends the wait of all. */
export interface Meeting<Who> {
  arrive(at: number, who: Who): Promise<void>;
  fail(error: unknown): void;
  /** Somebody ends without having arrived; nobody waits for the others then. Changes nothing once all have gone on. */
  leave: () => void;
  /** What failed first. */
  failure(): unknown;
}

/** A meeting of so many; `goOn` runs once with all of them, in the order of their places. */
export function openMeeting<Who>(count: number, goOn: (all: Who[]) => Promise<void>): Meeting<Who> {
  const arrived = new Map<number, Who>();
  let resolve!: (gone: Promise<void> | undefined) => void;
  let reject!: (error: unknown) => void;
  const over = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  let failure: { error: unknown } | undefined;
  // Nobody may have arrived yet to hear of it.
  over.catch(() => {});
  return {
    arrive(at, who) {
      arrived.set(at, who);
      if (failure === undefined && arrived.size === count) {
        const all = [...arrived.keys()].sort((a, b) => a - b).map((key) => arrived.get(key) as Who);
        resolve(goOn(all));
      }
      return over;
    },
    fail(error) {
      failure ??= { error };
      reject(error);
    },
    leave: () => resolve(undefined),
    failure: () => failure?.error,
  };
}
