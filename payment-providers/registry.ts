import type { ProviderName } from '../domain/payments/currencies';
import { createProviderA } from './a';
import { createProviderB } from './b';
import type { PaymentProvider, ProviderAccess } from './provider';

const makers: Record<ProviderName, (access: ProviderAccess, call_ms?: number) => PaymentProvider> =
  {
    payment_provider_a: createProviderA,
    payment_provider_b: createProviderB,
  };

type ProviderFor = (name: ProviderName, access: ProviderAccess) => PaymentProvider;

/**
 * Adapters by provider. One serves, with its connections and its token, until the access changes. A
 * call may take 10 s, or `call_ms`.
 */
export function createProviders(call_ms?: number): ProviderFor {
  const present = new Map<ProviderName, { access: string; provider: PaymentProvider }>();
  return (name, access) => {
    const wanted = JSON.stringify(access);
    const known = present.get(name);
    if (known?.access === wanted) return known.provider;
    const provider = makers[name](access, call_ms);
    present.set(name, { access: wanted, provider });
    return provider;
  };
}
