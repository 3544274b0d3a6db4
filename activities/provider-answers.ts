import {
  isProviderRefusal,
  isProviderTrouble,
  type ProviderRefusal,
  ProviderTrouble,
} from '../payment-providers/provider';

/** The provider does not know the order, which may be our own mistake. */
export class UnknownThere extends ProviderTrouble {
  constructor() {
    super(
      'The provider does not know this checkout. Were its credentials changed to another account?',
    );
  }
}

/** A no to the request itself, not to its key. */
export function isDefinite(error: unknown): error is ProviderRefusal {
  return isProviderRefusal(error) && error.code !== 'key_used' && error.code !== 'in_progress';
}

/**
 * Why a provider's answer is not known, in words for the session. Any other error is not the
 * provider's, and is thrown.
 */
export function troubleOf(error: unknown): string {
  if (isProviderTrouble(error) || isProviderRefusal(error)) return error.message;
  throw error;
}
