/** The control plane's clock, as its answers' `date` tells it: deadlines are set by it, and this machine's may be wrong. */
export interface Clock {
  hear(date: unknown): void;
  now(): number;
}

// A date is cut to whole seconds. The second counts as over, so that holds are extended early rather than late.
const CUT_MS = 999;

export function openClock(): Clock {
  let heard: unknown;
  let ahead_ms = Date.now() - performance.now();
  return {
    hear(date) {
      // The first answer of a second says most; those that follow it say nothing new.
      if (date === heard || typeof date !== 'string') return;
      heard = date;
      const heard_ms = Date.parse(date);
      if (heard_ms > 0) ahead_ms = heard_ms + CUT_MS - performance.now();
    },
    now: () => performance.now() + ahead_ms,
  };
}
