import { AppError, tooMany } from '../../domain/errors';
import type { ArrivingRequest } from '../families/request';
import { createKeptBytes, type Full, type Keeper } from './kept-bytes';

const TIMES = { idle_ms: 30_000, whole_ms: 120_000 };
const RETRY_MS = 2_000;

type Arrival = ArrivingRequest['arrival'];

/** The bodies that arrive at this gateway. */
export interface Arrivals {
  begin(sender: Keeper): Arrival;
}

/**
 * Counts the bytes of bodies that have begun to arrive and are not whole, within the shares of
 * `KeptBytes`, so that nobody fills this process with bodies that never end.
 */
export function createArrivals(times = TIMES): Arrivals {
  const kept = createKeptBytes();
  return {
    begin(sender) {
      let own = 0;
      const count = (bytes: number): void => {
        own += bytes;
        kept.count(sender, bytes);
      };
      return {
        ...times,
        take(bytes) {
          const full = kept.fullFor(sender, own, bytes);
          if (full !== undefined) throw refusalOf(full);
          count(bytes);
        },
        end: () => count(-own),
      };
    },
  };
}

function refusalOf({ whose, limit }: Full): AppError {
  if (whose === 'gateway')
    return new AppError('overloaded', 'Too much is being sent to this gateway. Send it again.', {
      retry_after: RETRY_MS / 1_000,
    });
  return tooMany(
    'rate_limit_exceeded',
    `Bodies of this ${whose} that are being sent have ${limit} bytes here, which is as many as may be. Send fewer at one time.`,
    { limit, resets_at: new Date(Date.now() + RETRY_MS) },
  );
}
