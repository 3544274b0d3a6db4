/** The two payment providers, by the names of the specification. */
export type ProviderName = 'payment_provider_a' | 'payment_provider_b';

export const providerNames: readonly ProviderName[] = ['payment_provider_a', 'payment_provider_b'];
