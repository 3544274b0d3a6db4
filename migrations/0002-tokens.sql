-- Access and gateway keys. A key keeps its id when it is rotated; its secrets come and go.

create table tokens (
  id text primary key default new_id('key'),
  -- Null for platform keys: platform:admin and control_plane belong to no organization.
  org_id text references organizations,
  token_type text not null check (token_type in ('access', 'gateway')),
  name text not null,
  scopes text[] not null default '{}',
  user_id text references users,
  team_id text references teams,
  agent_id text references agents,
  -- Null allows every model, an empty list none.
  allowed_models text[],
  max_budget_nanos bigint,
  spent_nanos bigint not null default 0,
  held_nanos bigint not null default 0,
  created_by text,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
) with (fillfactor = 50);
create unique index tokens_name on tokens (org_id, name) nulls not distinct where revoked_at is null;
create index tokens_org on tokens (org_id, created_at desc);

create table token_secrets (
  id text primary key default new_id('sec'),
  token_id text not null references tokens,
  -- SHA-256 of the key as shown once, and its first 12 characters for people to recognise it by.
  hash text not null unique,
  prefix text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Set when a rotation replaces this secret: it works until then.
  expires_at timestamptz
);
create index token_secrets_token on token_secrets (token_id);
