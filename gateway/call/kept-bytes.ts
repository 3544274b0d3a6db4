import { fairShare } from '../../domain/shares';

/** Who has bytes of requests in this process, and how many there may be at one time. */
export interface Keeper {
  /** A key, or a person. */
  owner: string;
  org_id: string;
  /** Of the whole gateway. */
  bytes_max: number;
  /** How many the organization may have while others have so many. */
  orgShare: (held_by_others: number) => number;
}

/** Whose bytes are as many as may be, and how many those are. */
export interface Full {
  whose: 'key' | 'organization' | 'gateway';
  limit: number;
}

/**
 * Counts bytes of requests. An organization has half of what others leave, and one key half of what
 * its organization's others leave, so that nobody fills this process. What has no other beside it
 * is always taken: how large it may be is bounded by itself.
 */
export interface KeptBytes {
  /** Why there is no room for so many more beside the ones that the same request has already. */
  fullFor(keeper: Keeper, own: number, bytes: number): Full | undefined;
  /** Counts bytes that come, or those that go as a negative number. */
  count(keeper: Keeper, bytes: number): void;
}

export function createKeptBytes(): KeptBytes {
  let all = 0;
  const by_org = new Map<string, number>();
  const by_owner = new Map<string, number>();
  return {
    fullFor({ owner, org_id, bytes_max, orgShare }, own, bytes) {
      const of_org = by_org.get(org_id) ?? 0;
      const of_owner = by_owner.get(owner) ?? 0;
      if (of_owner > own) {
        const limit = fairShare(orgShare(all - of_org), of_org - of_owner);
        if (of_owner + bytes > limit) return { whose: 'key', limit };
      }
      if (of_org > own) {
        const limit = orgShare(all - of_org);
        if (of_org + bytes > limit) return { whose: 'organization', limit };
      }
      if (all <= own || all + bytes <= bytes_max) return undefined;
      return { whose: 'gateway', limit: bytes_max };
    },
    count({ owner, org_id }, bytes) {
      all += bytes;
      add(by_org, org_id, bytes);
      add(by_owner, owner, bytes);
    },
  };
}

function add(counts: Map<string, number>, name: string, change: number): void {
  const now = (counts.get(name) ?? 0) + change;
  if (now > 0) counts.set(name, now);
  else counts.delete(name);
}
