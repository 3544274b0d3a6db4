import { accessOf } from '../domain/payments/config';
import type { ProviderName } from '../domain/payments/currencies';
import type { Secrets } from '../domain/secrets';
import { type Db, isTransient, isUnreachable } from '../domain/sql';
import { type PaymentProvider, ProviderTrouble } from './provider';
import { providerFor } from './registry';

export type ProviderOf = (name: ProviderName) => Promise<PaymentProvider>;

/** The providers as the platform's config says now. */
export function openProviders(db: Db, secrets: Secrets): ProviderOf {
  return async (name) => {
    const access = await accessOf(db, secrets, name).catch((error) => {
      if (isUnreachable(error) || isTransient(error)) throw error;
      throw new ProviderTrouble(
        `The credentials of ${name} cannot be read: ${(error as Error).message}`,
      );
    });
    return providerFor(name, access);
  };
}
