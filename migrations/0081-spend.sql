-- What calls cost, added up in the background: settlements are folded by the gap-free seq of their wallets, and what is not folded
-- yet is added when somebody reads. So figures are exact at once, and no call waits for them.

-- The rollup of an organization in one time zone. Another zone, or a rebuild, makes another beside it, which takes its place once it
-- has folded as much.
create table spend_editions (
  edition bigint generated always as identity primary key,
  org_id text not null references organizations,
  time_zone text not null,
  -- making -> current -> dropped: what was folded into it is deleted.
  state text not null check (state in ('making', 'current', 'dropped')),
  created_at timestamptz not null default clock_timestamp()
);
create unique index spend_editions_current on spend_editions (org_id) where state = 'current';
create unique index spend_editions_making on spend_editions (org_id) where state = 'making';

-- How far a wallet's ledger is folded. Apart from the wallet's row, which every call updates.
create table spend_cursors (
  wallet_id text not null,
  edition bigint not null,
  folded_seq bigint not null,
  constraint spend_cursors_pkey primary key (wallet_id, edition)
);
create index spend_cursors_edition on spend_cursors (edition);

-- Whatever a call has none of is empty here. The last 35 days.
create table spend_hours (
  edition bigint not null,
  hour timestamptz not null,
  key_id text not null,
  user_id text not null,
  team_id text not null,
  agent_id text not null,
  family text not null,
  provider text not null,
  model text not null,
  cost_nanos numeric not null,
  requests bigint not null,
  prompt_tokens numeric not null,
  completion_tokens numeric not null,
  cached_tokens numeric not null,
  constraint spend_hours_pkey primary key (edition, hour, key_id, user_id, team_id, agent_id, family, provider, model)
);

-- By day of the edition's time zone, for ever.
create table spend_days (
  edition bigint not null,
  day date not null,
  key_id text not null,
  user_id text not null,
  team_id text not null,
  agent_id text not null,
  family text not null,
  provider text not null,
  model text not null,
  cost_nanos numeric not null,
  requests bigint not null,
  prompt_tokens numeric not null,
  completion_tokens numeric not null,
  cached_tokens numeric not null,
  constraint spend_days_pkey primary key (edition, day, key_id, user_id, team_id, agent_id, family, provider, model)
);

-- The tags of a day that are counted by name, at most 1,000; calls under further ones count as `other`.
create table spend_tags (
  edition bigint not null,
  day date not null,
  tag text not null,
  constraint spend_tags_pkey primary key (edition, day, tag)
);

-- A call counts under each of its tags.
create table spend_tag_days (
  edition bigint not null,
  day date not null,
  tag text not null,
  key_id text not null,
  user_id text not null,
  team_id text not null,
  agent_id text not null,
  family text not null,
  provider text not null,
  model text not null,
  cost_nanos numeric not null,
  requests bigint not null,
  prompt_tokens numeric not null,
  completion_tokens numeric not null,
  cached_tokens numeric not null,
  constraint spend_tag_days_pkey primary key (edition, day, tag, key_id, user_id, team_id, agent_id, family, provider, model)
);

-- Finds the entries of a period without a b-tree that every entry would have to enter.
create index wallet_transactions_created on wallet_transactions using brin (created_at) with (autosummarize = on);

-- Finds the sessions of a period.
create index reservations_closed_sessions on reservations (org_id, closed_at) where session_id is not null and closed_at is not null;
