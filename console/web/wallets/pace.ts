import { amountOf, nanosOf } from '../base/decimals';

type Payer = 'user' | 'team' | 'organization';

/** Whose calls are told of beside the wallet that pays: those that it may have paid for. */
export type Whose = { user_id: string } | Record<string, never>;

// Less than that says nothing of a pace.
const HOUR_MS = 3_600_000;

/**
 * Whose spending bounds what the paying wallet loses in a day: the person's for their own wallet,
 * everybody's for the organization's. Undefined where the viewer is not shown that spending, so
 * that nothing is compared with it.
 */
export function whoseSpending(
  payer: Payer,
  viewer: { user_id: string | null; sees_all: boolean },
): Whose | undefined {
  if (payer === 'organization') return viewer.sees_all ? {} : undefined;
  if (payer === 'user' && viewer.user_id !== null) return { user_id: viewer.user_id };
  return undefined;
}

/** What one day of some has cost, by the sums of each; a day without calls is in none. */
export function spentOn(day: string, buckets: readonly { local: string; cost: number }[]): number {
  return buckets.find(({ local }) => local === day)?.cost ?? 0;
}

/** What a day costs, of a sum of so many days. */
export function perDay(spent: number, days: number): number {
  return amountOf(nanosOf(spent) / BigInt(days));
}

/**
 * When the wallet is empty if it goes on paying as it did since `since_ms`; undefined if it has
 * nothing, if nothing was spent, or beyond this century.
 */
export function emptyAt(
  left: number,
  spent: number,
  { since_ms, now_ms }: { since_ms: number; now_ms: number },
): Date | undefined {
  if (left <= 0 || spent <= 0) return undefined;
  const elapsed_ms = Math.max(now_ms - since_ms, HOUR_MS);
  const at = new Date(now_ms + (left / spent) * elapsed_ms);
  return at.getFullYear() < 2100 ? at : undefined;
}
