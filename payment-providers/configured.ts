import { accessOf, mayReach } from '../domain/payments/config';
import type { ProviderName } from '../domain/payments/currencies';
import { isUnreadableSecret, type Secrets } from '../domain/secrets';
import type { Db } from '../domain/sql';
import { type PaymentProvider, type ProviderOptions, ProviderTrouble } from './provider';
import { createProviders } from './registry';

export type ProviderOf = (name: ProviderName) => Promise<PaymentProvider>;

/**
 * The providers as the platform's config says now, at their own hosts and those of `hosts`. A
 * secret that cannot be read, or another host, is a ProviderTrouble: nothing is sent.
 */
export function createProviderOf(
  db: Db,
  secrets: Secrets,
  hosts: readonly string[],
  options: ProviderOptions = {},
): ProviderOf {
  const providerFor = createProviders(options);
  return async (name) => {
    const access = await accessOf(db, secrets, name).catch((error) => {
      if (!isUnreadableSecret(error)) throw error;
      throw new ProviderTrouble(`The credentials of ${name} cannot be read: ${error.message}`);
    });
    if (!mayReach(name, access.base_url, hosts))
      throw new ProviderTrouble(
        `Nothing is sent to ${access.base_url}: it is no host of ${name}, and not in PAYMENT_HOSTS.`,
      );
    return providerFor(name, access);
  };
}
