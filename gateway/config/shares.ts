import { z } from 'zod';

/** How many of a gateway's places one organization may take; see `shareOf`. */
export const orgShare = z.int().min(0).max(100_000).optional();

/**
 * The places that one organization may take. If the configuration does not say, that is half of
 * them, so that none is left without any; only one organization calls where proofs name no other.
 */
export function shareOf(
  places: number,
  given: number | undefined,
  { mode }: { mode: string },
): number {
  if (given !== undefined) return given;
  return mode === 'gateway_key' ? Math.ceil(places / 2) : places;
}
