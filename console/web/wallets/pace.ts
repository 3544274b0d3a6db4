import { amountOf, nanosOf } from '../base/decimals';

type Payer = 'user' | 'team' | 'organization';

/** Whose calls are told of beside the wallet that pays: those that it may have paid for. */
export type Whose = { user_id: string } | Record<string, never>;

const DAY_MS = 86_400_000;

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

/** What a day costs, of a sum of so many days. */
export function perDay(spent: number, days: number): number {
  return amountOf(nanosOf(spent) / BigInt(days));
}

/**
 * When the wallet is empty if it pays for all of such days; undefined if it has nothing, if nothing
 * is spent, or beyond this century.
 */
export function emptyAt(left: number, per_day: number, now_ms: number): Date | undefined {
  if (left <= 0 || per_day <= 0) return undefined;
  const at = new Date(now_ms + (left / per_day) * DAY_MS);
  return at.getFullYear() < 2100 ? at : undefined;
}
