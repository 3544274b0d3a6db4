-- Keys of providers that organizations bring, and those that the platform keeps here. A call that is served by one is charged by
-- the factor of that key, which is frozen with its prices.

create table provider_keys (
  id text primary key default new_id('pkey'),
  -- Null: the platform's own, which targets name.
  org_id text references organizations,
  -- The provider in the price list whose targets it opens; null for the platform's.
  provider text,
  -- The platform's: how the auth of a target names it.
  name text,
  -- {"key"}: ciphertext that is bound to this row (domain/secrets.ts); {} once it is revoked.
  credentials jsonb not null,
  -- Its last characters.
  hint text not null,
  -- The same key has the same one; it tells nothing of the key to who has not SVC_SECRETS_KEY.
  fingerprint text not null,
  -- Counts its values: a rotation makes the next one.
  version integer not null default 1,
  -- What it multiplies a price with, but for the price per request.
  price_factor numeric not null default 1
    check (price_factor between 0 and 100 and scale(price_factor) <= 6),
  -- `first`: the platform's key serves where this one is refused.
  own_keys text not null default 'only' check (own_keys in ('only', 'first')),
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  rotated_at timestamptz,
  revoked_at timestamptz,
  -- When a gateway asked for it last.
  last_used_at timestamptz,
  check ((org_id is null) = (provider is null)),
  check ((org_id is null) = (name is not null))
);
-- One key serves an organization at a provider.
create unique index provider_keys_living on provider_keys (org_id, provider) where revoked_at is null;
create unique index provider_keys_named on provider_keys (name) where revoked_at is null;
create index provider_keys_organization on provider_keys (org_id, id);
create trigger provider_keys_record
after insert or delete or update of credentials, version, price_factor, own_keys, revoked_at on provider_keys
for each row execute function record_change('provider_key', 'id');

alter table organizations
  -- The least price_factor of its own keys: what the platform takes for calls that others serve.
  add column own_key_factor_min numeric not null default 1
    check (own_key_factor_min between 0 and 100 and scale(own_key_factor_min) <= 6);
