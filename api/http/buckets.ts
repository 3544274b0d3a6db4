import { tooMany } from '../../domain/errors';

/** A bucket holds the requests of so many seconds, which may come at once. */
const BURST_S = 10;
const BUCKETS_MAX = 10_000;

interface Bucket {
  left: number;
  at: number;
}

/**
 * A token bucket for each key and each person of a JWT: so many requests a minute of this process,
 * and those of ten seconds at once. None if the number is 0.
 */
export function createBuckets(per_minute: number) {
  const buckets = new Map<string, Bucket>();
  const per_ms = per_minute / 60_000;
  const size = Math.max(1, per_ms * BURST_S * 1_000);

  const levelOf = ({ left, at }: Bucket, now: number) => Math.min(size, left + (now - at) * per_ms);

  /** Full buckets are as good as none. */
  function dropFull(now: number): void {
    for (const [name, bucket] of buckets) if (levelOf(bucket, now) >= size) buckets.delete(name);
  }

  return {
    /** Takes a token, or throws the refusal (429). */
    take(name: string): void {
      if (per_minute === 0) return;
      const now = performance.now();
      const known = buckets.get(name);
      if (known === undefined && buckets.size >= BUCKETS_MAX) dropFull(now);
      const left = known ? levelOf(known, now) : size;
      if (left < 1) {
        const resets_at = new Date(Date.now() + (1 - left) / per_ms);
        throw tooMany(
          'rate_limit_exceeded',
          `This key or person may make ${per_minute} requests a minute here, ${Math.floor(size)} of them at once. Repeat the request after Retry-After.`,
          { limit: per_minute, resets_at },
        );
      }
      buckets.set(name, { left: left - 1, at: now });
    },
  };
}
