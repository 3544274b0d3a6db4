import { createKeptBytes } from './kept-bytes';

/** How the client wants its call to be paid. */
export interface Payment {
  /** How long the call may wait for money. */
  hold_ms: number;
  /** The cost ticket that the client brings. */
  ticket_id: string | undefined;
}

/** The owner of a held call, and the bounds of how many are held. */
export interface Place {
  owner: string;
  org_id: string;
  held_max: number;
  /** How many the organization may have while others have so many. */
  orgShare: (held_by_others: number) => number;
  held_per_key_max: number;
  /** What of its request is kept while it waits, and how much of all that wait may be. */
  bytes: number;
  bytes_max: number;
  /** How many bytes the organization may have while others have so many. */
  orgBytes: (held_by_others: number) => number;
  /** Aborted when the client has gone. */
  gone: AbortSignal;
}

/** The calls that wait for money, or for room in a limit, within bounds. */
export interface HeldCalls {
  /**
   * Takes a place and runs the wait; undefined if there is no place. The signal says that the wait
   * is over.
   */
  hold<T>(
    call: object,
    place: Place,
    wait: (over: AbortSignal) => Promise<T>,
  ): Promise<T> | undefined;
  /** Ends the wait of one call, and lets it begin none. */
  end(call: object): void;
  /** Ends every wait: each call is answered with its ticket. */
  endAll(): void;
  /** How many wait. */
  count(): number;
}

export function createHeldCalls(): HeldCalls {
  const waits = new Map<object, AbortController>();
  const ended = new WeakSet<object>();
  const byOwner = new Map<string, number>();
  const byOrg = new Map<string, number>();
  const kept = createKeptBytes();
  return {
    hold(call, place, wait) {
      const { owner, org_id, gone, bytes, bytes_max, orgBytes } = place;
      const keeper = { owner, org_id, bytes_max, orgShare: orgBytes };
      const of_org = byOrg.get(org_id) ?? 0;
      if (gone.aborted || ended.has(call) || waits.size >= place.held_max) return undefined;
      if (of_org >= place.orgShare(waits.size - of_org)) return undefined;
      if ((byOwner.get(owner) ?? 0) >= place.held_per_key_max) return undefined;
      if (kept.fullFor(keeper, 0, bytes) !== undefined) return undefined;
      const over = new AbortController();
      gone.addEventListener('abort', () => over.abort(), { once: true });
      waits.set(call, over);
      count(byOwner, owner, 1);
      count(byOrg, org_id, 1);
      kept.count(keeper, bytes);
      return wait(over.signal).finally(() => {
        waits.delete(call);
        count(byOwner, owner, -1);
        count(byOrg, org_id, -1);
        kept.count(keeper, -bytes);
      });
    },
    end(call) {
      ended.add(call);
      waits.get(call)?.abort();
    },
    endAll() {
      for (const over of waits.values()) over.abort();
    },
    count: () => waits.size,
  };
}

function count(counts: Map<string, number>, name: string, change: 1 | -1): void {
  const now = (counts.get(name) ?? 0) + change;
  if (now > 0) counts.set(name, now);
  else counts.delete(name);
}
