import { AppError } from '../errors';
import { newId } from '../ids';
import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { owner_of } from '../sealed';
import type { Secrets } from '../secrets';
import { type Db, many, maybe, one, owns } from '../sql';

// Keys of providers that lie sealed here: those that organizations bring for their own calls, and
// those that the platform's targets name. What their price factors do: migration 0098.

/** A key of a provider. The key itself is never shown again. */
export interface ProviderKey {
  id: string;
  /** Null: the platform's. */
  org_id: string | null;
  /** The provider in the price list; null for the platform's. */
  provider: string | null;
  /** How targets name one of the platform's. */
  name: string | null;
  /** Its last characters; empty if it is short. */
  hint: string;
  /** The same key has the same one. */
  fingerprint: string;
  /** Counts its values. */
  version: number;
  /** What prices are multiplied with where it serves, but for the price per request. */
  price_factor: number;
  /** `first`: the platform's key serves where this one is refused. */
  own_keys: 'only' | 'first';
  created_by: string;
  created_at: Date;
  rotated_at: Date | null;
  revoked_at: Date | null;
  last_used_at: Date | null;
}

/** How an own key is charged, and what follows where it is refused. */
export interface Terms {
  price_factor?: number | undefined;
  own_keys?: ProviderKey['own_keys'] | undefined;
}

/** Which key, of whom. `owner` undefined: of anybody. */
interface Named {
  id: string;
  owner: string | null | undefined;
}

const columns = `k.id, k.org_id, k.provider, k.name, k.hint, k.fingerprint, k.version, k.price_factor::float8 as price_factor, k.own_keys,
  k.created_by, k.created_at, k.rotated_at, k.revoked_at, k.last_used_at`;
const living = `k.id = :id and (:is_any or k.org_id is not distinct from :org_id) and k.revoked_at is null`;
const HINT_CHARACTERS = 4;
// A hint of a shorter key would tell too much of it.
const HINTED_FROM = 16;
const FINGERPRINT_CHARACTERS = 16;

/** The keys of an organization, or of the platform; revoked ones too. */
export function list(
  db: Db,
  org_id: string | null,
  request: ListRequest,
): Promise<Page<ProviderKey> | Part<ProviderKey>> {
  const listing = {
    name: 'provider keys',
    select: `select ${columns}`,
    from: `from provider_keys k where ${owns('k.org_id', org_id)}`,
    bindings: { org_id },
    id: 'k.id',
    created_at: 'k.created_at',
  };
  return listOf(db, listing, request);
}

/**
 * Keeps a key of an organization, sealed. Throws if its provider has no price here, if it has one
 * at this provider already, or if the factor is below its least.
 */
export async function create(
  trx: Db,
  secrets: Secrets,
  given: {
    org_id: string;
    provider: string;
    key: string;
    terms: Terms;
    by: string;
    is_bound: boolean;
  },
): Promise<ProviderKey> {
  const { org_id, provider, key, terms, by: created_by, is_bound } = given;
  await requireProvider(trx, provider);
  const least = await leastFactor(trx, org_id);
  const { price_factor = least, own_keys = 'only' } = terms;
  if (is_bound) requireFactor(price_factor, least);
  const row = { org_id, provider, name: null, price_factor, own_keys, created_by };
  return insert(trx, secrets, row, key);
}

/** Keeps a key of the platform, which targets name. */
export function createOfPlatform(
  trx: Db,
  secrets: Secrets,
  { name, key, by: created_by }: { name: string; key: string; by: string },
): Promise<ProviderKey> {
  const terms = { price_factor: 1, own_keys: 'only' };
  const row = { org_id: null, provider: null, name, ...terms, created_by };
  return insert(trx, secrets, row, key);
}

async function insert(
  trx: Db,
  secrets: Secrets,
  row: Record<string, string | number | null>,
  key: string,
): Promise<ProviderKey> {
  const id = newId('pkey');
  const made = await maybe<ProviderKey>(
    trx,
    `insert into provider_keys as k (id, org_id, provider, name, credentials, hint, fingerprint, price_factor, own_keys, created_by)
     values (:id, :org_id, :provider, :name, :credentials, :hint, :fingerprint, :price_factor, :own_keys, :created_by)
     on conflict do nothing returning ${columns}`,
    { id, ...row, ...(await sealed(secrets, id, key)) },
  );
  if (made !== undefined) return made;
  const what = row.name === null ? `at the provider "${row.provider}"` : `called "${row.name}"`;
  throw new AppError(
    'already_exists',
    `There is a key ${what} already. Rotate it: POST /v1/provider-keys/{id}/rotate.`,
    { param: row.name === null ? 'provider' : 'name' },
  );
}

/** Puts another value in the place of a key's; the old one is gone. */
export async function rotate(
  trx: Db,
  secrets: Secrets,
  { id, owner }: Named,
  key: string,
): Promise<ProviderKey> {
  const given = await sealed(secrets, id, key);
  const rotated = await one<ProviderKey & { was: string }>(
    trx,
    `update provider_keys k set credentials = :credentials, hint = :hint, fingerprint = :fingerprint, version = k.version + 1,
       rotated_at = clock_timestamp()
     from (select o.id, o.fingerprint from provider_keys o where o.id = :id for update) as o
     where o.id = k.id and ${living} returning ${columns}, o.fingerprint as was`,
    { ...ofOwner({ id, owner }), ...given },
    'No provider key',
  );
  const { was, ...row } = rotated;
  if (was !== row.fingerprint) return row;
  throw new AppError('invalid_field', 'This is the key that is kept already. Send another one.', {
    param: 'key',
  });
}

/** Changes how an own key is charged, or what follows where it is refused; later calls count so. */
export async function change(
  trx: Db,
  { id, owner }: Named,
  { price_factor, own_keys }: Terms,
  is_bound: boolean,
): Promise<ProviderKey> {
  const before = await one<Pick<ProviderKey, 'org_id' | 'price_factor'>>(
    trx,
    `select k.org_id, k.price_factor::float from provider_keys k where ${living} and k.org_id is not null for update`,
    ofOwner({ id, owner }),
    'No own key',
  );
  // One that was agreed on before the least rose may stay.
  if (is_bound && price_factor !== undefined && price_factor !== Number(before.price_factor))
    requireFactor(price_factor, await leastFactor(trx, before.org_id as string));
  return one<ProviderKey>(
    trx,
    `update provider_keys k set price_factor = coalesce(:price_factor, k.price_factor), own_keys = coalesce(:own_keys, k.own_keys)
     where ${living} and k.org_id is not null returning ${columns}`,
    {
      ...ofOwner({ id, owner }),
      price_factor: price_factor ?? null,
      own_keys: own_keys ?? null,
    },
    'No own key',
  );
}

/** Ends a key and forgets its value; the calls that it serves now go on. */
export function revoke(trx: Db, named: Named): Promise<ProviderKey> {
  return one<ProviderKey>(
    trx,
    `update provider_keys k set revoked_at = clock_timestamp(), credentials = '{}' where ${living} returning ${columns}`,
    ofOwner(named),
    'No provider key',
  );
}

/** A key as a gateway gets it: one at a time, to be kept in memory for a minute at most. */
export interface OpenProviderKey {
  provider_key_id: string;
  version: number;
  key: string;
  own_keys: ProviderKey['own_keys'];
}

/** Whose key: that of an organization at a provider, or that of the platform with a name. */
export type Wanted = { org_id: string; provider: string } | { name: string };

/** A living key with its value, for the gateway key `by`; undefined if there is none. */
export async function openFor(
  db: Db,
  secrets: Secrets,
  wanted: Wanted,
  by: string,
): Promise<OpenProviderKey | undefined> {
  const of_whom =
    'name' in wanted
      ? 'k.org_id is null and k.name = :name'
      : 'k.org_id = :org_id and k.provider = :provider';
  const found = await maybe<Omit<OpenProviderKey, 'key'> & { credentials: { key: string } }>(
    db,
    `select k.id as provider_key_id, k.version, k.own_keys, k.credentials from provider_keys k
     where ${of_whom} and k.revoked_at is null`,
    wanted,
  );
  if (found === undefined) return undefined;
  const { credentials, ...row } = found;
  const key = await secrets.open(credentials.key, owner_of.provider_key(row.provider_key_id));
  await noteUse(db, row.provider_key_id, by);
  return { ...row, key };
}

/** Notes that a gateway has asked; an event of each key tells of it once an hour. */
async function noteUse(db: Db, id: string, by: string): Promise<void> {
  await many(
    db,
    `with was as (select k.id, k.last_used_at from provider_keys k where k.id = :id for update),
     used as (
       update provider_keys k set last_used_at = clock_timestamp() from was where k.id = was.id
       returning k.id, k.org_id, k.provider, k.name, k.version,
         coalesce(was.last_used_at < clock_timestamp() - interval '1 hour', true) as is_told
     )
     select append_event(coalesce(u.org_id, 'platform'), 'provider_key.used', jsonb_build_object('provider_key_id', u.id,
       'provider', u.provider, 'name', u.name, 'version', u.version, 'used_by', :by::text))
     from used u where u.is_told`,
    { id, by },
  );
}

async function sealed(secrets: Secrets, id: string, key: string) {
  const fingerprint = await secrets.sign('provider_key', key);
  return {
    credentials: JSON.stringify({ key: await secrets.seal(key, owner_of.provider_key(id)) }),
    hint: key.length < HINTED_FROM ? '' : key.slice(-HINT_CHARACTERS),
    fingerprint: fingerprint.slice(0, FINGERPRINT_CHARACTERS),
  };
}

function ofOwner({ id, owner }: Named) {
  return { id, org_id: owner ?? null, is_any: owner === undefined };
}

async function requireProvider(db: Db, provider: string): Promise<void> {
  const rows = await many<{ provider: string }>(
    db,
    'select distinct p.provider from model_prices p where p.retired_at is null order by p.provider',
  );
  const names = rows.map((row) => row.provider);
  if (names.includes(provider)) return;
  throw new AppError(
    'invalid_field',
    names.length === 0
      ? 'No provider has a price here yet.'
      : `No model of this provider has a price here. There are ${names.slice(0, NAMED_MAX).join(', ')}.`,
    { param: 'provider' },
  );
}

const NAMED_MAX = 40;

async function leastFactor(db: Db, org_id: string): Promise<number> {
  const { least } = await one<{ least: number }>(
    db,
    'select o.own_key_factor_min::float8 as least from organizations o where o.id = :org_id',
    { org_id },
    'No organization',
  );
  return least;
}

function requireFactor(price_factor: number, least: number): void {
  if (price_factor >= least) return;
  throw new AppError(
    'invalid_field',
    `The least factor of this organization's own keys is ${least}. A platform admin sets it: own_key_factor_min of PUT /v1/admin/organizations/{id}/wallet-settings.`,
    { param: 'price_factor' },
  );
}
