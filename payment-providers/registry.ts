import type { ProviderName } from '../domain/payments/currencies';
import { createProviderA } from './a';
import { createProviderB } from './b';
import type { PaymentProvider, ProviderAccess, ProviderOptions } from './provider';

const makers: Record<
  ProviderName,
  (access: ProviderAccess, options: ProviderOptions) => PaymentProvider
> = {
  payment_provider_a: createProviderA,
  payment_provider_b: createProviderB,
};

type ProviderFor = (name: ProviderName, access: ProviderAccess) => PaymentProvider;

/**
 * Adapters by provider. One serves, with its connections and its token, until the access changes.
 */
export function createProviders(options: ProviderOptions = {}): ProviderFor {
  const present = new Map<ProviderName, { access: string; provider: PaymentProvider }>();
  return (name, access) => {
    const wanted = JSON.stringify(access);
    const known = present.get(name);
    if (known?.access === wanted) return known.provider;
    const provider = makers[name](access, options);
    present.set(name, { access: wanted, provider });
    return provider;
  };
}
