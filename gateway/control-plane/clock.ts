/**
 * The control plane's clock, read from the `date` of its answers: deadlines are set by it, and this
 * machine's may be wrong.
 */
export type Clock = ReturnType<typeof createClock>;

// A date is cut to whole seconds. The second counts as over, so that holds are extended early
// rather than late.
const CUT_MS = 999;

export function createClock() {
  let last: unknown;
  let ahead_ms = Date.now() - performance.now();
  return {
    /** Takes the header `date` of an answer. */
    set(date: unknown): void {
      // The first answer of a second says most; those that follow it say nothing new.
      if (date === last || typeof date !== 'string') return;
      last = date;
      const date_ms = Date.parse(date);
      if (date_ms > 0) ahead_ms = date_ms + CUT_MS - performance.now();
    },
    /** In milliseconds since 1970. */
    now: (): number => performance.now() + ahead_ms,
  };
}
