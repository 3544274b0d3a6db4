const WINDOW_MS = 60_000;
/** Of one organization so many events a minute by one process, whoever meets its refusals. */
const GROUP_MAX = 60;
/** One is left for all that has none of its own. */
const REASONS_MAX = GROUP_MAX - 1;
const GROUPS_MAX = 10_000;

/**
 * Tells of a refusal, and of how many it stands for. `is_rest`: they are of several callers or
 * reasons, of which this one was the last.
 */
export type Tell = (count: number, is_rest: boolean) => void;

/** Runs something once after so many milliseconds, unless it is canceled by what it answers. */
export type Later = (action: () => void, ms: number) => () => void;

const byTimer: Later = (action, ms) => {
  const timer = setTimeout(action, ms).unref();
  return () => clearTimeout(timer);
};

interface Counted {
  /** Refusals that nobody was told of yet. */
  count: number;
  /** As the last one of them is told of. */
  tell: Tell;
}

interface Group {
  /** Events of this window. */
  told: number;
  reasons: Map<string, Counted>;
  rest: Counted;
  cancel: () => void;
}

/**
 * Tells of refusals, so that a flood of them is a few events and each is counted in one: of one
 * caller and one reason the first at once, and those that follow as a minute ends. Of an
 * organization 60 a minute: what has none of its own is told of together. What is remembered is
 * bounded: if more organizations have refusals, all are told of before their minute ends.
 */
export function createRefusalCounts(later: Later = byTimer) {
  const groups = new Map<string, Group>();
  let is_closed = false;

  /** The minute of a group: it goes on as another one if there was something to tell. */
  function begin(name: string, told: Map<string, Counted>): Group {
    const cancel = later(() => end(name), WINDOW_MS);
    const group = { told: told.size, reasons: told, rest: nothing(), cancel };
    groups.set(name, group);
    return group;
  }

  function end(name: string): void {
    const group = groups.get(name);
    if (group === undefined) return;
    groups.delete(name);
    const told = tellAll(group);
    if (told.size > 0 && !is_closed) begin(name, told);
  }

  function endAll(): void {
    for (const [name, group] of groups) {
      group.cancel();
      groups.delete(name);
      tellAll(group);
    }
  }

  return {
    /** Counts a refusal of a group (an organization) for a reason, which names the caller too. */
    count(name: string, reason: string, tell: Tell): void {
      if (is_closed) {
        tell(1, false);
        return;
      }
      if (groups.size >= GROUPS_MAX && !groups.has(name)) endAll();
      const group = groups.get(name) ?? begin(name, new Map());
      const known = group.reasons.get(reason);
      if (known === undefined && group.told < REASONS_MAX) {
        group.told += 1;
        group.reasons.set(reason, nothing());
        tell(1, false);
        return;
      }
      const counted = known ?? (group.reasons.size < REASONS_MAX ? nothing() : group.rest);
      if (counted !== group.rest) group.reasons.set(reason, counted);
      counted.count += 1;
      counted.tell = tell;
    },

    /** Tells of all that nobody was told of, and from now on of each at once. */
    close(): void {
      is_closed = true;
      endAll();
    },
  };
}

export type RefusalCounts = ReturnType<typeof createRefusalCounts>;

function nothing(): Counted {
  return { count: 0, tell: () => undefined };
}

/** Tells of what is left of a minute; what was told of stands in the next one already. */
function tellAll({ reasons, rest }: Group): Map<string, Counted> {
  const told = new Map<string, Counted>();
  for (const [reason, { count, tell }] of reasons) {
    if (count === 0) continue;
    told.set(reason, nothing());
    tell(count, false);
  }
  if (rest.count > 0) rest.tell(rest.count, true);
  return told;
}
