import { roundedUp } from '../base/decimals';
import { isTakenAmiss, type Payment, states, takenAmiss } from './words';

interface Offer {
  min: number;
  max: number;
  /** The amounts that are offered, in their order. */
  offered: readonly number[];
  /** Of the currency's coins, after the point. */
  digits: number;
}

/**
 * The amount with which a top-up begins: what the address asks for, in whole coins and as much as
 * may be bought at least; else the first one that is offered. What is no number, or more than may
 * be bought at once, is not asked for.
 */
export function firstAmount(
  asked: string | undefined,
  { min, max, offered, digits }: Offer,
): number {
  const wanted = Number(asked);
  return wanted > 0 && wanted <= max
    ? roundedUp(Math.max(wanted, min), digits)
    : (offered[0] ?? min);
}

/** What a buyer who comes back from a checkout without its return page is told. */
export function leftWords(payment: Pick<Payment, 'status' | 'error_code' | 'refund_status'>): {
  title: string;
  text: string;
} {
  const { status } = payment;
  if (isTakenAmiss(payment)) return takenAmiss;
  const { means } = states[status];
  if (status === 'canceled') return { title: 'The checkout was left: nothing was paid.', text: '' };
  if (status === 'created')
    return { title: 'The checkout is still open', text: 'It can be paid until it expires.' };
  if (status === 'expired') return { title: 'The checkout has expired', text: means };
  if (status === 'failed') return { title: 'The payment did not go through', text: means };
  return { title: 'This checkout was paid', text: means };
}

interface Short {
  shortfall: number;
  wallets?: readonly { owner_type: string; shortfall: number }[];
}

/**
 * What a top-up of the organization must bring to a call that waits. The ticket's own shortfall is
 * that of the fullest wallet, which may be another one; a single wallet pays for a call.
 */
export function missingInBank({ shortfall, wallets = [] }: Short): number {
  return wallets.find(({ owner_type }) => owner_type === 'organization')?.shortfall ?? shortfall;
}

interface Waited {
  resolved_at: string | null;
}

/**
 * How many calls that waited went on since a payment was begun, in a sentence; empty: none did.
 * @param tickets those that are redeemed: the newest of them, if there are more
 */
export function wentOnWords(
  tickets: readonly Waited[],
  { since, is_own, has_more }: { since: string; is_own: boolean; has_more: boolean },
): string {
  const since_ms = Date.parse(since);
  const count = tickets.filter(
    ({ resolved_at }) => resolved_at !== null && Date.parse(resolved_at) >= since_ms,
  ).length;
  if (count === 0) return '';
  const least = has_more && count === tickets.length ? 'At least ' : '';
  const whose = is_own ? 'of your calls' : count === 1 ? 'call' : 'calls';
  return `${least}${count} ${whose} that waited went on.`;
}
