import { AppError, tooMany } from '../../domain/errors';
import { fairShare } from '../../domain/shares';
import type { ArrivingRequest } from '../families/request';

const TIMES = { idle_ms: 30_000, whole_ms: 120_000 };
const RETRY_MS = 2_000;

type Arrival = ArrivingRequest['arrival'];

/** Whose body arrives, and the bytes of bodies that may be arriving at one time. */
export interface Sender {
  /** A key, or a person. */
  owner: string;
  org_id: string;
  /** Of the whole gateway. */
  bytes_max: number;
  /** How many the organization may have while others have so many. */
  orgShare: (held_by_others: number) => number;
}

/** The bodies that arrive at this gateway. */
export interface Arrivals {
  begin(sender: Sender): Arrival;
}

/**
 * Counts the bytes of bodies that have begun to arrive and are not whole. An organization has half
 * of what others leave, and one key half of what its organization's others leave, so that nobody
 * fills this process with bodies that never end. A body that has no other beside it is always
 * taken: how large it may be is bounded by itself.
 */
export function createArrivals(times = TIMES): Arrivals {
  let all = 0;
  const by_org = new Map<string, number>();
  const by_owner = new Map<string, number>();

  function check(sender: Sender, own: number, bytes: number): void {
    const { owner, org_id, bytes_max, orgShare } = sender;
    const of_org = by_org.get(org_id) ?? 0;
    const of_owner = by_owner.get(owner) ?? 0;
    if (of_owner > own) {
      const share = fairShare(orgShare(all - of_org), of_org - of_owner);
      if (of_owner + bytes > share) throw full('key', share);
    }
    if (of_org > own) {
      const share = orgShare(all - of_org);
      if (of_org + bytes > share) throw full('organization', share);
    }
    if (all > own && all + bytes > bytes_max)
      throw new AppError('overloaded', 'Too much is being sent to this gateway. Send it again.', {
        retry_after: RETRY_MS / 1_000,
      });
  }

  return {
    begin(sender) {
      const { owner, org_id } = sender;
      let own = 0;
      const count = (bytes: number): void => {
        own += bytes;
        all += bytes;
        add(by_org, org_id, bytes);
        add(by_owner, owner, bytes);
      };
      return {
        ...times,
        take(bytes) {
          check(sender, own, bytes);
          count(bytes);
        },
        end: () => count(-own),
      };
    },
  };
}

function add(counts: Map<string, number>, name: string, change: number): void {
  const now = (counts.get(name) ?? 0) + change;
  if (now > 0) counts.set(name, now);
  else counts.delete(name);
}

function full(whose: string, limit: number): AppError {
  return tooMany(
    'rate_limit_exceeded',
    `Bodies of this ${whose} that are being sent have ${limit} bytes here, which is as many as may be. Send fewer at one time.`,
    { limit, resets_at: new Date(Date.now() + RETRY_MS) },
  );
}
