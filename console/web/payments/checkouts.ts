import type { Answer } from '../api/client';
import { read, write } from '../base/storage';

type Made = Answer<'POST /api/payments/create-checkout'>;
type Kept = Pick<Made, 'payment_session_id' | 'provider' | 'checkout_state'> & {
  /** Stands in the address to which a buyer comes back who has left it. */
  mark?: string;
};

const NAME = 'svc-checkouts';
const KEPT_MAX = 20;

/**
 * Keeps what confirms a checkout when its buyer comes back. Without it, in another browser or with
 * storage forbidden, the payment is credited all the same: the provider tells the API.
 */
export function rememberCheckout(
  { payment_session_id, provider, checkout_state }: Made,
  mark?: string,
): void {
  const one = { payment_session_id, provider, checkout_state, ...(mark ? { mark } : {}) };
  const all = [one, ...kept()];
  write(NAME, JSON.stringify(all.slice(0, KEPT_MAX)));
}

/** What confirms a checkout that was begun in this browser. */
export function checkoutOf(session_id: string): Kept | undefined {
  return kept().find(({ payment_session_id }) => payment_session_id === session_id);
}

/** The checkout that was begun in this browser under a mark. */
export function markedCheckout(mark: string): string | undefined {
  return kept().find((one) => one.mark === mark)?.payment_session_id;
}

/** The newest checkout that was begun in this browser. */
export function lastCheckout(): string | undefined {
  return kept()[0]?.payment_session_id;
}

function kept(): Kept[] {
  try {
    const found = JSON.parse(read(NAME) ?? '[]');
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}
