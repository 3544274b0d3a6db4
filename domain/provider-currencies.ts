import codes from 'currency-codes';
import { AppError } from './errors';
import { decimalText, NANOS_PER_UNIT } from './money';

/** The two payment providers, by the names of the specification. */
export type ProviderName = 'payment_provider_a' | 'payment_provider_b';

export const providerNames: readonly ProviderName[] = ['payment_provider_a', 'payment_provider_b'];

/** The currencies that a provider can take. */
export function currenciesOf(_provider: ProviderName): readonly string[] {
  return ['USD', 'EUR'];
}

/** The smallest step that can be paid, in nanos: one minor unit of the provider, or of the currency where none is active. */
export function stepNanos(_provider: ProviderName | undefined, currency: string): bigint {
  return NANOS_PER_UNIT / 10n ** BigInt(codes.code(currency)?.digits ?? 2);
}
void AppError;
void decimalText;
