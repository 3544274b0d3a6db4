import { z } from 'zod';
import type { OpenProviderKey, ProviderKey } from '../../domain/gateways/provider-keys';
import type { FrozenKey } from '../../domain/ledger/calls';
import type { Wire } from '../../runtime/wire';
import type { Members } from '../http/fields';
import { id, time } from './shared';

const own_keys = z
  .enum(['only', 'first'])
  .describe('Where the key is refused. only: the call fails. first: the platform serves.');

export const providerKey = z.strictObject({
  id,
  org_id: id.nullable().describe("Null: the platform's."),
  provider: z.string().nullable().describe("Null for the platform's."),
  name: z.string().nullable().describe("How targets name one of the platform's."),
  hint: z.string().describe('The last characters of the key; empty if it is short.'),
  fingerprint: z.string().describe('The same key has the same one.'),
  version: z.int().describe('Counts its values.'),
  price_factor: z.number().describe('What prices are multiplied with, but for per_request.'),
  own_keys,
  created_by: id,
  created_at: time,
  rotated_at: time.nullable(),
  revoked_at: time.nullable(),
  last_used_at: time.nullable().describe('When a gateway asked for it last.'),
} satisfies Members<Wire<ProviderKey>>);

/** What a gateway gets. */
export const openProviderKey = z.strictObject({
  provider_key: z
    .strictObject({
      provider_key_id: id,
      version: z.int(),
      key: z.string().describe('The key itself: in memory only, for 60 seconds at most.'),
      own_keys,
    } satisfies Members<OpenProviderKey>)
    .nullable()
    .describe('Null: there is none.'),
});

/** An own key as a reservation froze it. */
export const frozenKey = z.strictObject({
  provider: id,
  provider_key_id: id,
  version: z.int(),
  price_factor: z.string().describe('What the prices of its provider were multiplied with.'),
  own_keys,
} satisfies Members<FrozenKey>);
