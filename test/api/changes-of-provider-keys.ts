import { randomUUID } from 'node:crypto';
import type { Db } from '../../domain/sql';
import type { Tenant } from '../support/api';
import { makeOwnKey, makePrice } from '../support/ledger';
import type { Change } from './changes-of-keys';

/** The changes of providers' keys. */
export function changesOfProviderKeys(db: Db, tenant: Tenant): Record<string, Change> {
  const value = () => `sk-${randomUUID()}`;
  const newProvider = async () => {
    const provider = `provider ${randomUUID()}`;
    await makePrice(db, { provider });
    return provider;
  };
  const newKey = async () => makeOwnKey(db, tenant.org_id, { provider: await newProvider() });
  return {
    'post /v1/provider-keys': {
      body: async () => ({ provider: await newProvider(), key: value() }),
      actions: ['provider_key.created'],
    },
    'put /v1/provider-keys/:id': {
      of: newKey,
      body: { own_keys: 'first' },
      actions: ['provider_key.changed'],
    },
    'post /v1/provider-keys/:id/rotate': {
      of: newKey,
      body: async () => ({ key: value() }),
      actions: ['provider_key.changed'],
    },
    'delete /v1/provider-keys/:id': { of: newKey, actions: ['provider_key.ended'] },
  };
}
