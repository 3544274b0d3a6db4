-- How wallets are topped up: the payment providers of the platform, which of them is active, and each organization's rules.

create table payment_providers (
  name text primary key check (name in ('payment_provider_a', 'payment_provider_b')),
  -- False stops new sessions only: those that are open go on, and webhooks are taken.
  enabled boolean not null,
  supported_currencies text[] not null,
  base_url text not null,
  -- Ciphertext by name, each bound to this row and its name (domain/secrets.ts).
  credentials jsonb not null default '{}',
  webhook_secret text,
  -- The webhook secret that was replaced: good until then, since the provider may sign with either meanwhile.
  previous_webhook_secret text,
  previous_webhook_secret_until timestamptz,
  updated_at timestamptz not null default clock_timestamp(),
  check ((previous_webhook_secret is null) = (previous_webhook_secret_until is null))
);

-- The platform's choice: at most one row, none before the first choice.
create table payment_config (
  is_only boolean primary key default true check (is_only),
  active_provider text references payment_providers,
  updated_at timestamptz not null default clock_timestamp()
);

-- An organization without a row has the defaults of domain/payment-settings.ts.
create table payment_settings (
  org_id text primary key references organizations,
  allowed_topup_amounts_nanos bigint[] not null,
  min_topup_amount_nanos bigint not null check (min_topup_amount_nanos > 0),
  max_topup_amount_nanos bigint not null,
  topup_target_scopes text[] not null
    check (cardinality(topup_target_scopes) > 0 and topup_target_scopes <@ '{user,team,organization}'),
  -- Where a buyer may be sent back to: exact origins.
  return_origins text[] not null,
  updated_at timestamptz not null default clock_timestamp(),
  check (min_topup_amount_nanos <= max_topup_amount_nanos)
);
