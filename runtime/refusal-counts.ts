const PAUSE_MS = 60_000;
/** An organization is told of so many refusals in a minute by one process, whoever meets them. */
const GROUP_MAX = 60;
const KEPT_MAX = 10_000;

interface Told {
  at: number;
  /** Refusals since then, which nobody was told of. */
  count: number;
}

/**
 * Which refusals are told of, so that a flood of them is a few events: of one caller and one reason
 * the first, then one a minute, which says how many it stands for; and of one organization so many
 * a minute. What is remembered is bounded, too.
 */
export function createRefusalCounts(now: () => number = () => performance.now()) {
  const told = new Map<string, Told>();
  const groups = new Map<string, Told>();

  function forgetOld(): void {
    for (const map of [told, groups]) {
      for (const [name, { at }] of map) if (now() - at >= PAUSE_MS) map.delete(name);
      if (map.size >= KEPT_MAX) map.clear();
    }
  }

  return {
    /** How many refusals this one stands for; undefined if nobody is told of it now. */
    take(group: string, reason: string): number | undefined {
      const name = `${group} ${reason}`;
      if (told.size >= KEPT_MAX || groups.size >= KEPT_MAX) forgetOld();
      const known = told.get(name) ?? { at: -Infinity, count: 0 };
      told.set(name, known);
      known.count += 1;
      if (now() - known.at < PAUSE_MS) return undefined;
      const present = groups.get(group);
      const window = present && now() - present.at < PAUSE_MS ? present : { at: now(), count: 0 };
      groups.set(group, window);
      if (window.count >= GROUP_MAX) return undefined;
      window.count += 1;
      const { count } = known;
      told.set(name, { at: now(), count: 0 });
      return count;
    },
  };
}

export type RefusalCounts = ReturnType<typeof createRefusalCounts>;
