import { accessOf } from '../domain/payments/config';
import type { ProviderName } from '../domain/payments/currencies';
import { isUnreadableSecret, type Secrets } from '../domain/secrets';
import type { Db } from '../domain/sql';
import { type PaymentProvider, ProviderTrouble } from './provider';
import { createProviders } from './registry';

export type ProviderOf = (name: ProviderName) => Promise<PaymentProvider>;

/**
 * The providers as the platform's config says now. A secret that cannot be read is a
 * ProviderTrouble.
 */
export function createProviderOf(db: Db, secrets: Secrets): ProviderOf {
  const providerFor = createProviders();
  return async (name) => {
    const access = await accessOf(db, secrets, name).catch((error) => {
      if (!isUnreadableSecret(error)) throw error;
      throw new ProviderTrouble(`The credentials of ${name} cannot be read: ${error.message}`);
    });
    return providerFor(name, access);
  };
}
