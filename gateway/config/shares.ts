import { z } from 'zod';
import { fairShare } from '../../domain/shares';
import { proofsOf } from './identity';

type Identity = Parameters<typeof proofsOf>[0];

/** How many of a gateway's places one organization may take; see `shareOf`. */
export const orgShare = z.int().min(0).max(100_000).optional();

interface Places {
  /** How many there are, and how many other organizations hold. */
  all: number;
  held_by_others: number;
}

/**
 * The places that one organization may take. If the configuration does not say, that is half of
 * those that the others leave; only one organization calls where proofs name no other.
 */
export function shareOf(
  { all, held_by_others }: Places,
  given: number | undefined,
  identity: Identity,
): number {
  if (given !== undefined) return given;
  return proofsOf(identity).includes('gateway_key') ? fairShare(all, held_by_others) : all;
}
