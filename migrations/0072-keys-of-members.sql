-- A key may have limits of its own, and members may make keys for themselves within what their organization allows.

alter table tokens
  -- Limits of this key at each gateway; a null one is as the gateway's configuration says of every key.
  add column rpm integer check (rpm > 0),
  add column tpm integer check (tpm > 0),
  add column max_parallel_requests integer check (max_parallel_requests > 0);

create trigger tokens_limit after update of rpm, tpm, max_parallel_requests on tokens
for each row execute function record_change('key', 'id');

create table member_key_settings (
  org_id text primary key references organizations,
  enabled boolean not null default false,
  -- So many living keys of their own making may a person have.
  max_keys integer not null default 5 check (max_keys between 1 and 1000),
  -- A key may spend so much; null: it needs no budget.
  max_budget_nanos bigint check (max_budget_nanos > 0),
  -- The models that such keys may call; null: every one.
  allowed_models text[],
  -- A key ends so many days after it was made; null: it may live on.
  max_days integer check (max_days between 1 and 3650),
  updated_at timestamptz not null default clock_timestamp()
);

create trigger member_key_settings_record after insert or update or delete on member_key_settings
for each row execute function record_change('member_key_settings', 'org_id');

-- What a wallet gave to another and took back: no entry of a call is in it.
create index wallet_transactions_transfer on wallet_transactions (wallet_id, transfer_id) where transfer_id is not null;
