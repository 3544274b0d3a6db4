-- The schema as it stands after the last migration, to be read. No start applies it, and nobody edits
-- it: `npm run schema` writes it from the migrations, and a test says when it is stale.

set check_function_bodies = off;

----------------------------------------------------------------------------------------------------
-- Organizations, people, teams and agents
----------------------------------------------------------------------------------------------------

-- Who there is: organizations with their wallet settings, people, teams and agents. Archived, never
-- deleted.

-- A time-ordered id: prefix, 12 hex digits of milliseconds, 20 hex digits of which 74 bits are
-- random. One expression without a `from`, so that PostgreSQL inlines it: three are made per priced
-- request.
create function new_id(p_prefix text) returns text language sql as $$
  select p_prefix || '_' || lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
    || substr(replace(gen_random_uuid()::text, '-', ''), 13)
$$;

-- What a row is found by: its organization, its words (runs of letters and digits, in lower case),
-- and further marks, such as the models of a key. One index holds all of them, so that a search
-- reads what it finds and nothing of other organizations. Indexes are made without a search path:
-- it calls nothing of ours.
create function search_words(p_org_id text, p_texts text[], p_marks text[])
returns tsvector language sql immutable as $$
  select array_to_tsvector(array['o ' || coalesce(p_org_id, '')]
    || array(select distinct 'w ' || left(w.word, 100)
      from regexp_split_to_table(lower(array_to_string(p_texts, ' ')), '[^[:alnum:]]+') as w (word) where w.word <> '')
    || array(select distinct 'm ' || m.mark from unnest(p_marks) as m (mark) where m.mark is not null))
$$;

-- A key without a list may call every model, as one whose list is a star. Keys are also found by
-- their kind.
create function token_marks(p_token_type text, p_allowed_models text[])
returns text[] language sql immutable as $$
  select array['type ' || p_token_type] || case p_token_type when 'gateway'
    then array(select 'model ' || m from unnest(coalesce(p_allowed_models, '{*}')) as m) else '{}' end
$$;

create table organizations (
  id text primary key default new_id('org'),
  name text not null,
  currency text not null default 'USD',
  reserve_buffer_pct numeric not null default 0
    check (reserve_buffer_pct >= 0 and reserve_buffer_pct <= 1000),
  low_balance_threshold_nanos bigint not null default 0,
  reservation_ttl_seconds integer not null default 900
    check (reservation_ttl_seconds >= 1 and reservation_ttl_seconds <= 86400),
  ticket_ttl_seconds integer not null default 86400
    check (ticket_ttl_seconds >= 1 and ticket_ttl_seconds <= 2592000),
  default_max_completion_tokens integer not null default 4096
    check (default_max_completion_tokens > 0),
  manual_credit text not null default 'allowed'
    check (manual_credit in ('allowed', 'platform_only')),
  wallet_user_topup_enabled boolean not null default true,
  -- When the reservationLifetimes workflow looks at this organization's holds next; null where none
  -- runs.
  lifetimes_next_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  -- Its keys are refused from then on; its money stays as it is.
  suspended_at timestamptz,
  suspended_for text,
  -- The reporting zone: windows of budgets begin by its calendar. A change counts from the next
  -- window.
  time_zone text not null default 'UTC',
  -- The least price_factor of its own keys: what the platform takes for calls that others serve.
  own_key_factor_min numeric not null default 1
    check (own_key_factor_min >= 0 and own_key_factor_min <= 100 and scale(own_key_factor_min) <=
    6),
  -- What it pays of each price; 0 is free of charge.
  price_factor numeric not null default 1
    check (price_factor >= 0 and price_factor <= 10 and scale(price_factor) <= 6)
);
create index organizations_by_name on organizations (lower(name), id);
create index organizations_words on organizations using gin (search_words('', array[name],
  '{}'::text[])) with (fastupdate=off);

create table users (
  id text primary key default new_id('user'),
  name text not null,
  email text,
  -- `iss` and `sub` of the JWT that stands for this person.
  issuer text,
  subject text,
  created_at timestamptz not null default clock_timestamp(),
  constraint users_issuer_subject_key unique (issuer, subject)
);

create table memberships (
  org_id text not null references organizations,
  user_id text not null references users,
  role text not null check (role in ('owner', 'admin', 'billing_admin', 'member')),
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  -- The identity provider whose groups gave the role; null: people did.
  granted_by text,
  -- Name and e-mail of the person, so that a list of members is ordered and searched without a look
  -- at every person.
  name text not null,
  email text,
  constraint memberships_pkey primary key (org_id, user_id)
);
-- Members of an organization by their e-mail address: it is looked for whenever a person with one
-- is taken in or renamed, under the organization's lock.
create index memberships_by_email on memberships (org_id, lower(email))
where archived_at is null;
create index memberships_by_name on memberships (org_id, lower(name), user_id)
where archived_at is null;
create index memberships_created on memberships (org_id, created_at, user_id)
where archived_at is null;
-- What the groups of an identity provider gave is found by the provider, however many people its
-- organization has.
create index memberships_granted on memberships (granted_by, user_id)
where granted_by is not null;
create index memberships_user on memberships (user_id) where archived_at is null;
create index memberships_words on memberships using gin (search_words(org_id, array[name, email],
  array['role ' || role])) with (fastupdate=off)
where archived_at is null;

create table teams (
  id text primary key default new_id('team'),
  org_id text not null references organizations,
  name text not null,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz
);
create index teams_by_name on teams (org_id, lower(name), id);
create unique index teams_name on teams (org_id, name) where archived_at is null;
create index teams_org on teams (org_id, id);
create index teams_words on teams using gin (search_words(org_id, array[name], '{}'::text[])) with
  (fastupdate=off);

create table team_members (
  team_id text not null references teams,
  user_id text not null references users,
  created_at timestamptz not null default clock_timestamp(),
  -- The identity provider whose groups took the person in; null: people did.
  granted_by text,
  -- An admin spends the team's money on its members. Given by org:members.
  role text not null default 'member' check (role in ('member', 'admin')),
  constraint team_members_pkey primary key (team_id, user_id)
);
-- Which teams somebody leads is asked for whatever they do without a permission of their own.
create index team_members_admin on team_members (user_id) where role = 'admin';
create index team_members_created on team_members (team_id, created_at, user_id);
create index team_members_granted on team_members (granted_by, user_id)
where granted_by is not null;
create index team_members_user on team_members (user_id);

create table agents (
  id text primary key default new_id('agent'),
  org_id text not null references organizations,
  name text not null,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz
);
create index agents_by_name on agents (org_id, lower(name), id);
create unique index agents_name on agents (org_id, name) where archived_at is null;
create index agents_org on agents (org_id, id);
create index agents_words on agents using gin (search_words(org_id, array[name], '{}'::text[])) with
  (fastupdate=off);

create table member_key_settings (
  org_id text primary key references organizations,
  enabled boolean not null default false,
  -- So many living keys of their own making may a person have.
  max_keys integer not null default 5 check (max_keys >= 1 and max_keys <= 1000),
  -- A key may spend so much; null: it needs no budget.
  max_budget_nanos bigint check (max_budget_nanos > 0),
  -- The models that such keys may call; null: every one.
  allowed_models text[],
  -- A key ends so many days after it was made; null: it may live on.
  max_days integer check (max_days >= 1 and max_days <= 3650),
  updated_at timestamptz not null default clock_timestamp(),
  -- The window that max_budget is for; null: the life of the key.
  budget_window text check (budget_window in ('hour', 'day', 'week', 'month'))
);

-- Places in teams that people took away: no group gives one back, until people give it, or the
-- person is taken in anew.
create table team_removals (
  team_id text not null references teams,
  user_id text not null references users,
  removed_at timestamptz not null default clock_timestamp(),
  constraint team_removals_pkey primary key (team_id, user_id)
);

create function quoted_lexeme(p_text text) returns text language sql immutable as $$
  select '''' || replace(replace(p_text, '\', '\\'), '''', '''''') || ''''
$$;

-- The question for it: every word of `p_q` begins a word of the row, and the row bears one of
-- `p_marks`. Null asks for neither.
create function search_for(p_org_id text, p_q text, p_marks text[])
returns tsquery language sql immutable as $$
  select string_agg(c.part, ' & ')::tsquery
  from (
    select quoted_lexeme(l.lexeme) || case when l.lexeme like 'w %' then ':*' else '' end as part
    from unnest(tsvector_to_array(search_words(p_org_id, array[p_q], '{}'))) as l (lexeme)
    union all
    -- No row begins with no word.
    select quoted_lexeme('w') where p_q is not null and cardinality(tsvector_to_array(search_words('', array[p_q], '{}'))) = 1
    union all
    select '(' || string_agg(quoted_lexeme('m ' || m.mark), ' | ') || ')' from unnest(p_marks) as m (mark) having count(*) > 0
  ) as c
$$;

-- The same question asked of one row, without an index: for lists of which much is found, where
-- reading in the list's order ends sooner than finding all. Its cost and its yield are told to the
-- planner as those of a filter that most rows pass.
create function has_words(p_texts text[], p_q text)
returns boolean language plpgsql immutable cost 1 as $$
declare
  v_text text := lower(array_to_string(p_texts, ' '));
  v_words text[] := array_remove(regexp_split_to_array(lower(p_q), '[^[:alnum:]]+'), '');
  v_word text;
begin
  foreach v_word in array v_words loop
    if v_text !~ ('(^|[^[:alnum:]])' || left(v_word, 100)) then
      return false;
    end if;
  end loop;
  -- No row begins with no word.
  return cardinality(v_words) > 0;
end $$;

-- A person who is just being renamed is waited for.
create function name_membership() returns trigger language plpgsql as $$
begin
  select u.name, u.email into new.name, new.email from users u where u.id = new.user_id for share;
  return new;
end $$;

create trigger memberships_name before insert on memberships
for each row
execute function name_membership();

create function rename_memberships() returns trigger language plpgsql as $$
begin
  update memberships m set name = new.name, email = new.email where m.user_id = new.id;
  return null;
end $$;

create trigger users_rename after update of name, email on users
for each row when (new.name is distinct from old.name or new.email is distinct from old.email)
execute function rename_memberships();

-- Archives an organization: its keys and sessions end, its invitations are void, and it is
-- suspended, so that no call is held for it. Answers what stands in the way, in words; then nothing
-- has changed. Invariant: no money is left behind, and none is under way.
create function archive_organization(p_org_id text) returns text[] language plpgsql as $$
declare
  v_open text[];
begin
  perform lock_organization(p_org_id);
  select array_agg(n.words order by n.place) into v_open
  from (values
    (1, 'open holds', exists (select 1 from reservations r where r.org_id = p_org_id and r.status = 'open')),
    (2, 'open cost tickets', exists (select 1 from cost_tickets t where t.org_id = p_org_id and t.status in ('open', 'approved'))),
    (3, 'payments under way', exists (select 1 from payment_sessions s where s.org_id = p_org_id
      and (s.status in ('created', 'capturing', 'captured', 'confirming', 'confirmed')
        or (s.status = 'failed' and s.error_code = 'amount_mismatch' and s.resolution is null)
        or s.disputes @> '[{"status": "open"}]' or s.refunds @> '[{"status": "pending"}]'
        or exists (select 1 from payment_refunds f where f.payment_session_id = s.id and f.status = 'pending')))),
    (4, 'money or debts in wallets', exists (select 1 from wallets w where w.org_id = p_org_id
      and (w.balance_nanos <> 0 or w.reserved_nanos <> 0))),
    (5, 'charges beyond their bound that nobody has decided', exists (select 1 from settlement_excess x
      where x.org_id = p_org_id and x.status = 'open'))
  ) as n (place, words, is_there) where n.is_there;
  if v_open is not null then
    return v_open;
  end if;
  update organizations set suspended_at = now(), suspended_for = 'archived' where id = p_org_id and suspended_at is null;
  update organizations set archived_at = now() where id = p_org_id and archived_at is null;
  update tokens set revoked_at = clock_timestamp() where org_id = p_org_id and revoked_at is null;
  update one_time_codes set expires_at = clock_timestamp()
  where org_id = p_org_id and used_at is null and expires_at > clock_timestamp();
  return '{}';
end $$;

-- Takes back the end of an organization, and the suspension that came with it; its keys stay
-- revoked.
create function unarchive_organization(p_org_id text) returns void language plpgsql as $$
begin
  perform lock_organization(p_org_id);
  update organizations set suspended_at = null, suspended_for = null where id = p_org_id and suspended_at = archived_at;
  update organizations set archived_at = null where id = p_org_id and archived_at is not null;
end $$;

----------------------------------------------------------------------------------------------------
-- Identity providers and what their subjects are bound to
----------------------------------------------------------------------------------------------------

-- Identity providers, and whom their tokens stand for. A person is known by issuer and subject, and
-- by nothing else: not by e-mail, and not by our ids unless the issuer is read so.

create table identity_issuers (
  id text primary key default new_id('iss'),
  -- The organization whose people it signs in; null: it may sign in the people of all.
  org_id text references organizations,
  name text not null,
  -- `iss` of its tokens, and the `aud` of its id tokens, which is our client there.
  issuer text not null,
  client_id text not null,
  jwks_url text not null,
  authorization_url text,
  token_url text,
  -- The client's secret, sealed; null for a client that proves itself by PKCE alone.
  credentials text,
  -- How `sub` is read: as the id of a user here, or by what it was bound to.
  subject text not null default 'bound' check (subject in ('user_id', 'bound')),
  -- People with a verified e-mail address of these domains become members when they first sign in.
  email_domains text[] not null default '{}',
  groups_claim text,
  -- [{group, team_id, team_role, role}]: what the members of a group are given.
  group_grants jsonb not null default '[]',
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz
);
create unique index identity_issuers_client on identity_issuers (issuer, client_id)
where archived_at is null;

-- An admin of one organization can bind a subject to a person in that organization only: elsewhere
-- it stands for nobody.
create table identities (
  id text not null default new_id('idn') unique,
  issuer_id text not null references identity_issuers,
  org_id text not null references organizations,
  subject text not null,
  user_id text not null references users,
  -- Who invited, and the credential that they did it with; null if the person was made when they
  -- first signed in.
  created_by text,
  created_with text,
  created_at timestamptz not null default clock_timestamp(),
  constraint identities_pkey primary key (issuer_id, subject, org_id)
);
-- A session that bound a subject is kept, so that what it bound falls with whoever opened the
-- session: the subjects of each session that is over are looked up by it.
create index identities_created_with on identities (created_with) where created_with is not null;
create index identities_user on identities (org_id, user_id);

-- Values that a person shows once: a sign-in that an operator's terminal made, or an invitation to
-- bind a subject to a member.
create table one_time_codes (
  -- SHA-256 of the code.
  hash text primary key,
  purpose text not null check (purpose in ('session', 'invitation')),
  org_id text not null references organizations,
  user_id text not null references users,
  -- Who made it, with which key and rights: an invitation holds as long as these do.
  created_by text,
  created_with text,
  scopes text[] not null default '{}',
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  used_at timestamptz
);
create index one_time_codes_end on one_time_codes (expires_at);

-- Id tokens that somebody has signed in by: each is good once.
create table used_id_tokens (
  -- SHA-256 of what its issuer signed.
  hash text primary key,
  used_at timestamptz not null default clock_timestamp()
);
create index used_id_tokens_used on used_id_tokens (used_at);

create table sign_in_tries (
  address text primary key,
  tries timestamptz[] not null default '{}'::timestamptz[],
  last_at timestamptz not null default clock_timestamp()
);
create index sign_in_tries_last on sign_in_tries (last_at);

-- Subjects that once stood for somebody and were unbound: they come back by an invitation alone,
-- and never as a new person.
create table unbound_subjects (
  issuer_id text not null references identity_issuers,
  subject text not null,
  unbound_at timestamptz not null default clock_timestamp(),
  constraint unbound_subjects_pkey primary key (issuer_id, subject)
);

-- Counts a try to sign in from an address. Null if it may go on; else when the next one may, once
-- so many came within a minute.
create function try_sign_in(p_address text, p_most integer)
returns timestamptz language plpgsql as $$
declare
  v_tries timestamptz[];
  v_now timestamptz;
begin
  delete from sign_in_tries where address in (
    select q.address from sign_in_tries q where q.last_at < clock_timestamp() - interval '1 minute' and q.address <> p_address
    limit 10 for update skip locked);
  insert into sign_in_tries as q (address) values (p_address)
  on conflict (address) do update set last_at = q.last_at returning q.tries into v_tries;
  v_now := clock_timestamp();
  v_tries := array(select t from unnest(v_tries) as t where t > v_now - interval '1 minute' order by t);
  if cardinality(v_tries) >= p_most then
    return v_tries[cardinality(v_tries) - p_most + 1] + interval '1 minute';
  end if;
  update sign_in_tries q set tries = v_tries || v_now, last_at = v_now where q.address = p_address;
  return null;
end $$;

create function note_unbound() returns trigger language plpgsql as $$
begin
  insert into unbound_subjects (issuer_id, subject) values (old.issuer_id, old.subject) on conflict do nothing;
  return null;
end $$;

create trigger identities_unbound after delete on identities
for each row
execute function note_unbound();

----------------------------------------------------------------------------------------------------
-- Keys
----------------------------------------------------------------------------------------------------

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
  last_used_at timestamptz,
  -- The access key with which it was made; null if a person made it by a JWT, or before this was
  -- kept.
  made_with text,
  -- A session ends an hour after its last use, and with what it was made with.
  purpose text not null default 'key' check (purpose in ('key', 'session')),
  -- The value of the access key that a session was made with (made_with): it ends with both.
  session_secret_id text,
  -- The identity provider that a session comes from.
  issuer_id text references identity_issuers,
  -- The subject that a session comes from, if it was bound.
  identity_id text,
  -- Who bound that subject to the person: whoever signs in by it may be them. It stays when the
  -- subject is unbound.
  bound_by text,
  -- The credential with which it was bound.
  bound_with text,
  -- Limits of this key at each gateway; a null one is as the gateway's configuration says of every
  -- key.
  rpm integer check (rpm > 0),
  tpm integer check (tpm > 0),
  max_parallel_requests integer check (max_parallel_requests > 0),
  -- Gateways add the cost to the usage of answers, unless a call says otherwise.
  include_cost boolean not null default false
) with (fillfactor = 50);
create index tokens_agent on tokens (org_id, agent_id, id) where agent_id is not null;
create index tokens_bound_by on tokens (org_id, bound_by) where bound_by is not null;
create index tokens_bound_with on tokens (bound_with) where bound_with is not null;
create index tokens_by_end on tokens (org_id, coalesce(expires_at, 'infinity'::timestamptz), id);
create index tokens_by_id on tokens (org_id, id);
create index tokens_by_name on tokens (org_id, lower(name), id);
create index tokens_created_by on tokens (org_id, created_by);
create index tokens_ends on tokens (org_id, coalesce(expires_at, 'infinity'::timestamptz), id)
where revoked_at is null;
create index tokens_living on tokens (org_id, id) where revoked_at is null;
-- Who made a key is found by that alone: from statistics of the moment before an organization, or
-- the platform, made many keys, PostgreSQL took any index that begins with org_id for as good as
-- the one that has the maker, and read them all.
create index tokens_made_by on tokens (created_by);
create index tokens_made_with on tokens (made_with) where made_with is not null;
create unique index tokens_name on tokens (org_id, name) nulls not distinct
where revoked_at is null;
-- Keys are found by their names, living ones first and then the newest: under the organization's
-- lock whenever a key is shown, changed or revoked. The unique index of names has living ones
-- alone, so that all keys of all organizations were read.
create index tokens_named on tokens (org_id, name, (revoked_at is null), id)
where purpose = 'key';
create index tokens_org on tokens (org_id, created_at desc);
create index tokens_sessions on tokens (org_id, user_id) where purpose = 'session';
create index tokens_sessions_of_issuer on tokens (issuer_id)
where purpose = 'session' and revoked_at is null;
create index tokens_team on tokens (org_id, team_id, id) where team_id is not null;
create index tokens_user on tokens (org_id, user_id, id) where user_id is not null;
create index tokens_words on tokens using gin (search_words(org_id, array[name],
  token_marks(token_type, allowed_models))) with (fastupdate=off);

create table token_secrets (
  id text primary key default new_id('sec'),
  token_id text not null references tokens,
  -- SHA-256 of the key as shown once, and its first 12 characters for people to recognise it by.
  hash text not null unique,
  prefix text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Set when a rotation replaces this secret: it works until then.
  expires_at timestamptz,
  -- The person, or the key that stands for nobody, to whom the value was shown; null before this
  -- was kept.
  issued_to text,
  -- The access key with which it was drawn.
  issued_with text
);
create index token_secrets_issued_to on token_secrets (issued_to) where issued_to is not null;
create index token_secrets_issued_with on token_secrets (issued_with)
where issued_with is not null;
create index token_secrets_token on token_secrets (token_id);

-- The person behind the maker of a key: whom a key stands for, or who made the key that stands for
-- nobody; an id that is no key's is its own.
create function maker_of(p_id text) returns text language sql stable as $$
  select coalesce((select coalesce(k.user_id, u.id) from tokens k left join users u on u.id = k.created_by where k.id = p_id), p_id)
$$;

create function name_maker() returns trigger language plpgsql as $$
begin
  new.made_with := coalesce(new.made_with, (select k.id from tokens k where k.id = new.created_by));
  new.created_by := maker_of(new.created_by);
  return new;
end $$;

-- Whoever makes a key: a chain of keys that stand for nobody ends at a person.
create trigger tokens_maker before insert on tokens for each row execute function name_maker();

-- Notes to whom a value is shown: whoever acts in this transaction.
create function name_holder() returns trigger language plpgsql as $$
begin
  new.issued_to := maker_of(acting());
  new.issued_with := nullif(current_setting('svc.key_id', true), '');
  return new;
end $$;

create trigger token_secrets_holder before insert on token_secrets
for each row
execute function name_holder();

-- The keys of an organization that a person, or the holder of a key, may hold, but for those that
-- only stand for the person.
create function keys_held_by(p_org_id text, p_by text)
returns setof text language sql stable as $$
  with recursive held (id) as (
    select t.id from tokens t where t.org_id is not distinct from p_org_id and (t.created_by = p_by or t.made_with = p_by)
    union
    select t.id from token_secrets s join tokens t on t.id = s.token_id and t.org_id is not distinct from p_org_id
    where (s.issued_to = p_by or s.issued_with = p_by) and coalesce(s.expires_at > clock_timestamp(), true)
    union
    select x.id from held h cross join lateral (
      select t.id from tokens t where t.made_with = h.id
      union all
      select s.token_id from token_secrets s where s.issued_with = h.id and coalesce(s.expires_at > clock_timestamp(), true)
    ) as x
  )
  select t.id from held h join tokens t on t.id = h.id and t.org_id is not distinct from p_org_id
$$;

-- True for every key, and for a session that was used within the hour and whose key, if it came
-- from one, still works.
create function session_lives(t tokens) returns boolean language sql stable as $$
  select t.purpose = 'key' or (
    coalesce(t.last_used_at, t.created_at) > clock_timestamp() - interval '1 hour'
    and (t.made_with is null or exists (select 1 from tokens k where k.id = t.made_with and k.revoked_at is null
      and coalesce(k.expires_at > clock_timestamp(), true)))
    and (t.session_secret_id is null or exists (select 1 from token_secrets s where s.id = t.session_secret_id
      and coalesce(s.expires_at > clock_timestamp(), true))))
$$;

-- By whom a key, a session or a subject came to be: people, and the credentials that they did it
-- with.
create function token_holders(p_id text, p_except text)
returns setof text language sql stable as $$
  select x.holder from tokens t cross join lateral (
    values (t.created_by), (t.made_with), (case when t.identity_id is distinct from p_except then t.bound_by end),
      (case when t.identity_id is distinct from p_except then t.bound_with end)
    union all
    select h.holder from token_secrets s cross join lateral (values (s.issued_to), (s.issued_with)) as h (holder)
    where s.token_id = t.id and coalesce(s.expires_at > clock_timestamp(), true)
  ) as x (holder) where t.id = p_id and x.holder is not null
$$;

-- Who may hold the access keys and sessions that stand for a person, or sign in as them by a
-- subject (but for p_except): for each of these, by its id, those that made, renewed or bound it,
-- and those that did so with what these have.
create function holders_for(p_org_id text, p_user_id text, p_except text)
returns table(id text, holder text) language sql stable as $$
  with recursive up (id, holder) as (
    select t.id, x.holder from tokens t cross join lateral token_holders(t.id, p_except) as x (holder)
    where t.org_id = p_org_id and t.user_id = p_user_id and t.token_type = 'access' and t.revoked_at is null
    union
    select i.id, x.holder from identities i cross join lateral (values (i.created_by), (i.created_with)) as x (holder)
    where i.org_id = p_org_id and i.user_id = p_user_id and i.id is distinct from p_except and x.holder is not null
    union
    select u.id, x.holder from up u
    cross join lateral (select t.id from tokens t where t.id = u.holder and t.org_id = p_org_id offset 0) as k
    cross join lateral token_holders(k.id, p_except) as x (holder)
  )
  select u.id, u.holder from up u
$$;

create function keys_held_by_2(p_org_id text, p_by text, p_except text default null)
returns setof text language sql stable as $$
  with recursive held (id) as (
    select t.id from tokens t where t.created_by = p_by and t.org_id is not distinct from p_org_id
    union
    select t.id from tokens t where t.made_with = p_by and t.org_id is not distinct from p_org_id
    union
    select t.id from tokens t where t.org_id = p_org_id and t.bound_by = p_by and t.identity_id is distinct from p_except
    union
    select t.id from tokens t where t.org_id = p_org_id and t.bound_with = p_by and t.identity_id is distinct from p_except
    union
    select s.token_id from token_secrets s
    where (s.issued_to = p_by or s.issued_with = p_by) and coalesce(s.expires_at > clock_timestamp(), true)
      and exists (select 1 from tokens t where t.id = s.token_id and t.org_id is not distinct from p_org_id offset 0)
    union
    select x.id from held h cross join lateral (
      select t.id from tokens t where t.made_with = h.id
      union all
      select t.id from tokens t where t.bound_with = h.id and t.identity_id is distinct from p_except
      union all
      select s.token_id from token_secrets s where s.issued_with = h.id and coalesce(s.expires_at > clock_timestamp(), true)
    ) as x
  )
  select h.id from held h
  where exists (select 1 from tokens t where t.id = h.id and t.org_id is not distinct from p_org_id offset 0)
$$;

----------------------------------------------------------------------------------------------------
-- Events and messages to workflows
----------------------------------------------------------------------------------------------------

-- What happened (events), what should reach a workflow (outbox), and what was answered before
-- (idempotency keys).

-- Partitioned by day. `created_at` is read from the time-ordered id, so that the pair is unique
-- where the id is.
create table events (
  id text not null,
  created_at timestamptz not null,
  org_id text not null,
  type text not null,
  action text,
  agent_id text,
  request_id text,
  trace_label text,
  payload jsonb not null,
  -- Readers stay below the oldest open transaction, so that nothing committed late is skipped.
  transaction_id xid8 not null default pg_current_xact_id(),
  constraint events_pkey primary key (id, created_at)
) partition by range (created_at);
create index events_label on events (org_id, trace_label, id) where trace_label is not null;
-- Whoever looks for anything else walks these alone. The condition stands in the reader's query,
-- word for word.
create index events_notable on events (org_id, id)
where type <> 'request.completed' and type <> 'rate_limit.checked';
create index events_org on events (org_id, id);
create index events_request on events (request_id) where request_id is not null;
create index events_visible on events (org_id, transaction_id, id);

-- A missing partition never stops money.
create table events_default partition of events default;

-- Messages to workflows, written with the money that causes them and sent after the commit.
create table outbox (
  id bigint generated always as identity primary key,
  org_id text not null,
  workflow text not null,
  workflow_id text not null,
  signal text,
  input jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  next_at timestamptz not null default clock_timestamp(),
  attempts integer not null default 0,
  last_error text,
  -- After 20 tries a row is parked: kept and shown, no longer sent.
  parked_at timestamptz
);
create index outbox_due on outbox (next_at) where parked_at is null;
create index outbox_workflow on outbox (workflow_id);

create table idempotency_keys (
  org_id text,
  principal text not null,
  route text not null,
  key text not null,
  body_sha256 text not null,
  status integer,
  answer jsonb,
  created_at timestamptz not null default clock_timestamp(),
  constraint idempotency_keys_org_id_principal_route_key_key unique nulls not distinct (org_id,
    principal, route, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);

create function id_time(p_id text) returns timestamptz language sql immutable as $$
  select to_timestamp(('x' || substr(split_part(p_id, '_', 2), 1, 12))::bit(48)::bigint / 1000.0)
$$;

-- A time as the wire has it: ISO 8601 in UTC, to the millisecond.
create function iso_time(p_time timestamptz) returns text language sql stable as $$
  select to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Writes one message and tells the dispatchers, who hear it when the transaction commits.
create function send_to_workflow(p_org_id text, p_workflow text, p_workflow_id text, p_signal text,
  p_input jsonb)
returns void language sql as $$
  insert into outbox (org_id, workflow, workflow_id, signal, input)
  values (p_org_id, p_workflow, p_workflow_id, p_signal, p_input);
  select pg_notify('outbox', '');
$$;

-- The day's partition, made beside the table and then attached: creating it as a partition would
-- lock all events. What the default partition holds of that day moves into it first. False where it
-- was there already.
create function add_event_partition(p_day date)
returns boolean language plpgsql
set lock_timeout = '200ms' as $$
declare
  v_name text := 'events_' || to_char(p_day, 'YYYYMMDD');
  v_from timestamptz := p_day::timestamp at time zone 'UTC';
  v_to timestamptz := (p_day + 1)::timestamp at time zone 'UTC';
begin
  if to_regclass(v_name) is not null then
    return false;
  end if;
  execute format('create table %I (like events including all)', v_name);
  execute format('with moved as (delete from events_default where created_at >= %L and created_at < %L returning *)
    insert into %I select * from moved', v_from, v_to, v_name);
  execute format('alter table events attach partition %I for values from (%L) to (%L)', v_name, v_from, v_to);
  return true;
end $$;

-- Takes the partition of a day that is past its time out of the table and drops it.
create function drop_event_partition(p_name text)
returns void language plpgsql
set lock_timeout = '200ms' as $$
begin
  execute format('alter table events detach partition %I', p_name);
  execute format('drop table %I', p_name);
end $$;

-- One row of a look for events. A last row that is not wanted says how far a look came that has
-- read as much as it may.
create type scanned_event as (
  event events,
  is_wanted boolean
);

-- The events of some kinds that became visible between two places, in that order: of `p_scan` rows
-- at most `p_limit`. Readers of a table that nobody has analysed yet would sort all of it, so plans
-- that sort are off; rows are read as they are needed.
create function events_after(p_org_id text, p_transaction_id xid8, p_id text, p_until xid8,
  p_until_id text, p_since timestamptz, p_types text[], p_scan integer, p_limit integer)
returns setof scanned_event language plpgsql stable
set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off as $$
declare
  e events;
  v_scanned integer := 0;
  v_wanted integer := 0;
begin
  for e in
    select * from events q
    where q.org_id = p_org_id and (q.transaction_id, q.id) > (p_transaction_id, p_id)
      and (q.transaction_id, q.id) <= (p_until, p_until_id) and q.created_at >= p_since
    order by q.transaction_id, q.id limit p_scan
  loop
    v_scanned := v_scanned + 1;
    if e.type = any(p_types) then
      v_wanted := v_wanted + 1;
      return next (e, true)::scanned_event;
      exit when v_wanted = p_limit;
    end if;
  end loop;
  if v_scanned = p_scan and v_wanted < p_limit then
    return next (e, false)::scanned_event;
  end if;
end $$;

-- The events before a cursor, newest first: of `p_scan` rows those that are wanted, `p_limit` at
-- most. Each way has an index in its order. `p_request_id` is the call's id or its client's label.
create function events_before(p_org_id text, p_cursor text, p_since timestamptz,
  p_until timestamptz, p_types text[], p_action text, p_agent_id text, p_request_id text,
  p_scan integer, p_limit integer)
returns setof scanned_event language plpgsql stable
set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off as $$
declare
  v_within constant text := 'q.org_id = $1 and q.id < $2 and q.created_at >= $3 and q.created_at < $4
    and q.transaction_id < pg_snapshot_xmin(pg_current_snapshot())';
  v_in_order constant text := ' order by q.id desc limit $6';
  v_source text;
  e events;
  v_scanned integer := 0;
  v_wanted integer := 0;
begin
  v_source := case
    when p_request_id is not null then
      -- A call has few events; read by themselves, as any other index looks cheaper to a planner that has no statistics.
      'with of_call as materialized (select * from events where request_id = $5)
      select * from (select * from of_call as q where ' || v_within || ' union all (select q.* from events q where ' || v_within
      || ' and q.trace_label = $5 and q.request_id is distinct from $5' || v_in_order || ')) as q' || v_in_order
    when p_types && array['request.completed', 'rate_limit.checked'] then
      'select * from events q where $5 is null and ' || v_within || v_in_order
    else 'select * from events q where q.type <> ''request.completed'' and q.type <> ''rate_limit.checked'' and $5 is null and '
      || v_within || v_in_order
  end;
  -- Above every id.
  for e in execute v_source using p_org_id, coalesce(p_cursor, 'evu'), coalesce(p_since, '-infinity'),
    coalesce(p_until, 'infinity'), p_request_id, p_scan
  loop
    v_scanned := v_scanned + 1;
    if e.type = any(p_types) and (p_action is null or e.action = p_action) and (p_agent_id is null or e.agent_id = p_agent_id) then
      v_wanted := v_wanted + 1;
      return next (e, true)::scanned_event;
      exit when v_wanted = p_limit;
    end if;
  end loop;
  if v_scanned = p_scan and v_wanted < p_limit then
    return next (e, false)::scanned_event;
  end if;
end $$;

-- What the caller of a lane says of a call: {traceparent, identity_proof_method, trace_label}, each
-- if it is known. It stands in the setting svc.traces, for its transaction alone, under the
-- request_id of a reserve or redeem, or the name of the hold that a settle gives.
create function trace_of(p_name text) returns jsonb language sql stable as $$
  select nullif(current_setting('svc.traces', true), '')::jsonb -> p_name
$$;

-- The members of an event that say whose call caused it. A caller without a proof has no identity.
create function caller(p_trace jsonb, p_user_id text, p_key_id text, p_team_id text)
returns jsonb language sql immutable as $$
  select jsonb_strip_nulls(jsonb_build_object('trace_label', p_trace -> 'trace_label',
      'identity_proof_method', p_trace -> 'identity_proof_method'))
    || case when p_trace ->> 'identity_proof_method' = 'header_soft' or num_nonnulls(p_user_id, p_key_id) = 0 then '{}'
      else jsonb_build_object('identity_context',
        jsonb_build_object('user_id', p_user_id, 'key_id', p_key_id, 'team_id', p_team_id)) end
$$;

-- The label of a call has a column of its own.
create function append_event(p_org_id text, p_type text, p_payload jsonb)
returns void language sql as $$
  insert into events (id, created_at, org_id, type, agent_id, request_id, trace_label, payload)
  select e.id, id_time(e.id), p_org_id, p_type, p_payload ->> 'agent_id', p_payload ->> 'request_id', p_payload ->> 'trace_label',
    p_payload - 'trace_label'
  from (select new_id('evt') as id) as e
$$;

----------------------------------------------------------------------------------------------------
-- Wallets and the ledger
----------------------------------------------------------------------------------------------------

-- The ledger. For every wallet, always: sum(amount) = balance, previous balance_after + amount =
-- balance_after, seq without gaps, reserved = sum of open holds. `balance` is what can be spent
-- now: a hold has already left it.

create table wallets (
  id text primary key default new_id('wal'),
  org_id text not null references organizations,
  owner_type text not null,
  owner_team_id text references teams,
  owner_user_id text references users,
  currency text not null,
  balance_nanos bigint not null default 0,
  reserved_nanos bigint not null default 0 check (reserved_nanos >= 0),
  seq bigint not null default 0,
  low_balance_threshold_nanos bigint,
  created_at timestamptz not null default clock_timestamp(),
  -- The part of the balance that waiting calls have first. It may outlast them: whoever is short
  -- for it reads it anew.
  kept_nanos bigint not null default 0 check (kept_nanos >= 0),
  -- Holds count too, so that giving one back always fits.
  constraint wallets_bound check (balance_nanos >= '-9000000000000000000'::bigint and
    (balance_nanos::numeric + reserved_nanos::numeric) <= '9000000000000000000'::bigint::numeric)
) with (fillfactor = 50);
create index wallets_by_id on wallets (org_id, id);
create unique index wallets_organization on wallets (org_id) where owner_type = 'organization';
create unique index wallets_team on wallets (org_id, owner_team_id) where owner_type = 'team';
create unique index wallets_user on wallets (org_id, owner_user_id) where owner_type = 'user';

-- No foreign keys here and on reservations: each would lock and re-read a row per entry; the audit
-- proves them instead.
create table wallet_transactions (
  id text primary key,
  wallet_id text not null,
  org_id text not null,
  seq bigint not null,
  type text not null
    check (type in ('credit', 'reservation', 'settlement', 'allocation_in', 'allocation_out',
    'payment_credit', 'payment_refund')),
  amount_nanos bigint not null,
  balance_after_nanos bigint not null,
  provider text,
  model text,
  reservation_id text,
  -- hold, close (settlement or expiry), late (settled after expiry).
  phase text check (phase in ('hold', 'close', 'late', 'excess')),
  actual_cost_nanos bigint,
  transfer_id text,
  payment_session_id text,
  description text,
  created_at timestamptz not null,
  -- The person, or the key that stands for nobody, who made the entry by hand; null for calls,
  -- clocks and providers.
  actor text
);
-- Finds the entries of a period without a b-tree that every entry would have to enter.
create index wallet_transactions_created on wallet_transactions using brin (created_at) with
  (autosummarize='on');
create unique index wallet_transactions_phase on wallet_transactions (reservation_id, phase)
where reservation_id is not null;
create unique index wallet_transactions_seq on wallet_transactions (wallet_id, seq);
-- Finds the other side of a transfer: no entry of a call is in it.
create index wallet_transactions_sides on wallet_transactions (transfer_id)
where transfer_id is not null;
-- What a wallet gave to another and took back: no entry of a call is in it.
create index wallet_transactions_transfer on wallet_transactions (wallet_id, transfer_id)
where transfer_id is not null;

-- Per wallet of a person that a team takes from: how far its entries are counted, what they come to
-- with holds, and what is left of each gift, `[{giver, nanos}]`, the oldest first.
create table gift_folds (
  wallet_id text primary key references wallets,
  folded_seq bigint not null default 0,
  total_nanos numeric not null default 0,
  lots jsonb not null default '[]'
);

-- The one lock: every money function first takes the organization's wallet row. It orders wallets,
-- keys' budgets, caps, tickets and sessions of the organization, so that no two of its functions
-- can deadlock.
create function lock_organization(p_org_id text) returns organizations language plpgsql as $$
declare
  v_org organizations;
begin
  perform 1 from wallets where org_id = p_org_id and owner_type = 'organization' for no key update;
  -- Read after the lock, so that settings and lifetimes_next_at are the newest.
  select * into v_org from organizations where id = p_org_id;
  return v_org;
end $$;

-- A wallet of a known owner is made on first use with balance 0. Null where the owner is not of
-- this organization.
create function ensure_wallet(p_org_id text, p_owner_type text, p_owner_id text)
returns wallets language plpgsql as $$
declare
  v_wallet wallets;
begin
  insert into wallets (org_id, owner_type, owner_team_id, owner_user_id, currency)
  select o.id, p_owner_type,
    case p_owner_type when 'team' then p_owner_id end,
    case p_owner_type when 'user' then p_owner_id end, o.currency
  from organizations o
  where o.id = p_org_id and case p_owner_type
    when 'organization' then true
    when 'team' then exists (select 1 from teams t where t.id = p_owner_id and t.org_id = p_org_id)
    else exists (select 1 from memberships m where m.org_id = p_org_id and m.user_id = p_owner_id) end
  on conflict do nothing;
  select * into v_wallet from wallets w
  where w.org_id = p_org_id and w.owner_type = p_owner_type and case p_owner_type
    when 'organization' then true
    when 'team' then w.owner_team_id = p_owner_id
    else w.owner_user_id = p_owner_id end;
  return v_wallet;
end $$;

create type ledger_entry as (
  wallet_id text,
  type text,
  amount_nanos bigint,
  -- What the entry adds to or takes from the wallet's open holds.
  reserved_nanos bigint,
  reservation_id text,
  phase text,
  provider text,
  model text,
  actual_cost_nanos bigint,
  transfer_id text,
  payment_session_id text,
  description text
);

-- Adds money to one wallet. Invariant: one entry, whose amount is what the balance grew by.
create function credit(p_org_id text, p_wallet_id text, p_amount_nanos bigint, p_description text)
returns wallet_transactions language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_entry wallet_transactions;
begin
  perform lock_organization(p_org_id);
  select * into v_entry from post_entries(p_org_id, array[(p_wallet_id, 'credit', p_amount_nanos, 0, null, null, null,
    null, null, null, null, p_description)::ledger_entry]);
  return v_entry;
end $$;

-- Who acts in this transaction, as the API, a verdict or a terminal says it; null if none does.
create function acting() returns text language sql stable as $$
  select nullif(current_setting('svc.actor', true), '')
$$;

create function refuse_owner() returns trigger language plpgsql as $$
begin
  raise exception 'A wallet is of an organization, a team or a user, and names that one.' using errcode = 'check_violation';
end $$;

-- A wallet names the owner that its type says, and no other.
create trigger wallets_owner before insert or update of owner_type, owner_team_id, owner_user_id on
  wallets
for each row when (case new.owner_type when 'organization' then num_nonnulls(new.owner_team_id,
  new.owner_user_id) = 0 when 'team' then new.owner_team_id is not null and new.owner_user_id is
  null when 'user' then new.owner_user_id is not null and new.owner_team_id is null else false end
  is not true)
execute function refuse_owner();

-- Moves money between two wallets of one organization. Invariant: the two entries of a transfer sum
-- to zero. No row if the giving wallet does not cover the amount. What a rule moves for a call
-- leaves no audit event.
create function transfer(p_org_id text, p_from text, p_to text, p_amount_nanos bigint, p_note text)
returns setof wallet_transactions language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_transfer text := new_id('xfer');
  v_entries wallet_transactions[];
begin
  perform lock_organization(p_org_id);
  if (select w.balance_nanos from wallets w where w.id = p_from) < p_amount_nanos then
    return;
  end if;
  v_entries := array(select e from post_entries(p_org_id, array[
    (p_from, 'allocation_out', -p_amount_nanos, 0, null, null, null, null, null, v_transfer, null, p_note)::ledger_entry,
    (p_to, 'allocation_in', p_amount_nanos, 0, null, null, null, null, null, v_transfer, null, p_note)::ledger_entry]) as e);
  if coalesce(acting(), '') not like 'rule\_%' then
    perform record_transfer(v_entries[1], v_entries[2]);
  end if;
  return query select * from unnest(v_entries);
end $$;

-- The place that changes a balance, with reserve_alone and settle_alone, which do so for one entry.
-- Under the organization's lock it appends entries in the given order, moves each wallet once, and
-- writes one wallet.balance_low if balance + reserved crosses the threshold downwards, with the
-- call that did it. An entry that closes a call is nobody's, also if a person's step finds a hold
-- overdue.
create function post_entries(p_org_id text, p_entries ledger_entry[])
returns setof wallet_transactions language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_low record;
begin
  return query
    insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
      reservation_id, phase, actual_cost_nanos, transfer_id, payment_session_id, description, created_at, actor)
    select new_id('txn'), w.id, p_org_id, w.seq + row_number() over so_far, e.type, e.amount_nanos,
      (w.balance_nanos + sum(e.amount_nanos) over so_far)::bigint, e.provider, e.model, e.reservation_id, e.phase,
      e.actual_cost_nanos, e.transfer_id, e.payment_session_id, e.description, v_now,
      case when e.phase is null or e.phase not in ('close', 'late') then acting() end
    from unnest(p_entries) with ordinality as e (wallet_id, type, amount_nanos, reserved_nanos, reservation_id, phase,
      provider, model, actual_cost_nanos, transfer_id, payment_session_id, description, n)
    cross join lateral (select * from wallets q where q.id = e.wallet_id limit 1) as w
    window so_far as (partition by e.wallet_id order by e.n)
    order by e.n
    returning *;

  for v_low in
    with moves as (
      select e.wallet_id, sum(e.amount_nanos) as amount_nanos, sum(e.reserved_nanos) as reserved_nanos,
        count(*) as entries
      from unnest(p_entries) as e
      group by e.wallet_id
    ), moved as (
      update wallets w
      set balance_nanos = w.balance_nanos + m.amount_nanos,
        reserved_nanos = w.reserved_nanos + m.reserved_nanos,
        seq = w.seq + m.entries
      from moves m
      where w.id = m.wallet_id
      returning w.id, w.owner_type, w.currency, w.balance_nanos, w.reserved_nanos,
        w.balance_nanos::numeric + w.reserved_nanos as after_nanos,
        w.balance_nanos::numeric + w.reserved_nanos - m.amount_nanos - m.reserved_nanos as before_nanos,
        w.low_balance_threshold_nanos
    )
    select m.*, coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos) as threshold_nanos
    from moved m join organizations o on o.id = p_org_id
    where m.before_nanos >= coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
      and m.after_nanos < coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
  loop
    perform append_event(p_org_id, 'wallet.balance_low', jsonb_build_object('wallet_id', v_low.id,
        'owner_type', v_low.owner_type, 'currency', v_low.currency, 'balance_nanos', v_low.balance_nanos::text,
        'reserved_nanos', v_low.reserved_nanos::text, 'threshold_nanos', v_low.threshold_nanos::text)
      || lowering_call(p_entries, v_low.id, v_low.before_nanos::bigint, v_low.threshold_nanos));
  end loop;
end $$;

-- Tells of money that somebody put into a wallet or moved between two. `user_id` and `team_id` are
-- the owners of the wallets that it changed: by them a person without a permission follows their
-- own. What a rule moves for a call is told by the ticket's events.
create function tell_move() returns trigger language plpgsql as $$
declare
  v_to wallets;
  v_from wallets;
  v_floors constant text[] := '{user,team,organization}';
begin
  select * into v_to from wallets q where q.id = new.wallet_id;
  if new.type = 'allocation_in' then
    select q.* into v_from from wallet_transactions t join wallets q on q.id = t.wallet_id
    where t.transfer_id = new.transfer_id and t.type = 'allocation_out';
  end if;
  perform append_event(new.org_id, case
      when v_from.id is null then 'wallet.credited'
      when array_position(v_floors, v_to.owner_type) > array_position(v_floors, v_from.owner_type) then 'wallet.reclaimed'
      else 'wallet.allocated' end,
    jsonb_strip_nulls(jsonb_build_object('wallet_id', v_to.id, 'owner_type', v_to.owner_type, 'from_wallet_id', v_from.id,
      'from_owner_type', v_from.owner_type, 'user_id', coalesce(v_to.owner_user_id, v_from.owner_user_id),
      'team_id', coalesce(v_to.owner_team_id, v_from.owner_team_id), 'amount_nanos', new.amount_nanos::text,
      'currency', v_to.currency, 'transaction_id', new.id, 'transfer_id', new.transfer_id, 'actor', new.actor)));
  return null;
end $$;

create trigger wallet_transactions_tell after insert on wallet_transactions
for each row when ((new.type in ('credit', 'allocation_in')) and new.actor is not null and new.actor
  !~~ 'rule\_%')
execute function tell_move();

----------------------------------------------------------------------------------------------------
-- Imports of prices
----------------------------------------------------------------------------------------------------

-- Prices say where they come from. A plan that was made from catalogs of prices is taken over as
-- one import, which can be undone.

create table price_imports (
  id text primary key default new_id('pimp'),
  created_at timestamptz not null,
  actor text not null,
  -- [{catalog, version, sha256, dated}]: what the plan was made from.
  sources jsonb not null,
  plan_sha256 text not null,
  -- By provider: what its amounts were multiplied with.
  factors jsonb not null,
  -- `provider/model`: the rows that somebody said yes to by name, and those that cost nothing.
  taken jsonb not null,
  free jsonb not null,
  undone_at timestamptz,
  undone_by text
);

----------------------------------------------------------------------------------------------------
-- Prices
----------------------------------------------------------------------------------------------------

-- What models cost, in USD, and what a USD is in other currencies.

create table model_prices (
  -- One version of one price. Versions are never changed, so that a reservation can be settled at
  -- the one it froze.
  version_id text primary key default new_id('pver'),
  -- The price that people edit; all its versions share this id.
  id text not null,
  provider text not null,
  -- May end in `*`; the longest match wins, an exact name before every pattern.
  model text not null,
  input_per_1m numeric not null,
  output_per_1m numeric not null,
  cached_input_per_1m numeric,
  cache_write_per_1m numeric,
  cache_write_1h_per_1m numeric,
  audio_input_per_1m numeric,
  audio_output_per_1m numeric,
  per_minute numeric,
  per_1m_characters numeric,
  per_request numeric,
  per_tool_call numeric,
  max_output_tokens integer,
  reasoning boolean not null default false,
  -- [{above_prompt_tokens, input_per_1m, output_per_1m}]; the highest one passed applies to the
  -- whole request.
  tiers jsonb,
  free boolean not null default false,
  effective_from timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- Set on every version when the price is deleted or replaced by a newer version that is already
  -- in force.
  retired_at timestamptz,
  image_input_per_1m numeric,
  image_output_per_1m numeric,
  video_input_per_1m numeric,
  video_output_per_1m numeric,
  per_web_search numeric,
  per_file_search numeric,
  per_container numeric,
  per_page numeric,
  -- The least charge of a request that is charged at all.
  minimum numeric,
  -- The least length of sound that is billed.
  minimum_seconds numeric,
  -- {name: price list}; a list has amounts and may have tiers of its own, a number is a factor.
  service_tiers jsonb,
  -- {name: price list}, likewise.
  regions jsonb,
  -- `hand`: a person wrote it, and no import touches it unless told to.
  source text not null default 'hand' check (source in ('hand', 'import')),
  import_id text references price_imports,
  -- The catalog of an imported price, with its version and day.
  catalog text,
  -- Whose price an import took, and what it multiplied it with; the next import goes on with both.
  seller text,
  price_factor numeric,
  -- The version that was in force when an import took its place: what undo brings back; null if
  -- none was.
  replaced_version_id text,
  -- The import that ended this version before it began.
  retired_by_import_id text references price_imports,
  -- What a catalog knows of the model beside its price: context_length, modalities,
  -- deprecation_date and others.
  metadata jsonb
);
create index model_prices_id on model_prices (id);
create index model_prices_import on model_prices (import_id) where import_id is not null;
create index model_prices_lookup on model_prices (provider, model, effective_from desc)
where retired_at is null;
create index model_prices_retired on model_prices (retired_at) where retired_at is not null;
create index model_prices_start on model_prices (effective_from);

create table exchange_rates (
  currency text primary key,
  -- Units of the currency for 1 USD.
  rate numeric not null check (rate > 0),
  updated_at timestamptz not null
);

-- The price in force now for a model: its own, else the longest pattern that matches. Null row
-- where unpriced.
create function price_for(p_provider text, p_model text)
returns model_prices language plpgsql stable as $$
declare
  v_price model_prices;
begin
  select * into v_price from model_prices p
  where p.provider = p_provider and p.model = p_model and p.retired_at is null and p.effective_from <= now()
  order by p.effective_from desc limit 1;
  if v_price.version_id is null then
    select * into v_price from model_prices p
    where p.provider = p_provider and p.retired_at is null and p.effective_from <= now()
      and right(p.model, 1) = '*' and starts_with(p_model, left(p.model, -1))
    order by length(p.model) desc, p.effective_from desc limit 1;
  end if;
  return v_price;
end $$;

create type usage_counts as (
  -- All input, cached, cache-write and audio tokens included; likewise reasoning and audio inside
  -- completion.
  prompt_tokens numeric,
  completion_tokens numeric,
  cached_tokens numeric,
  cache_write_tokens numeric,
  cache_write_1h_tokens numeric,
  reasoning_tokens numeric,
  audio_input_tokens numeric,
  audio_output_tokens numeric,
  characters numeric,
  seconds numeric,
  tool_calls numeric,
  image_input_tokens numeric,
  image_output_tokens numeric,
  video_input_tokens numeric,
  video_output_tokens numeric,
  web_searches numeric,
  file_searches numeric,
  containers numeric,
  pages numeric,
  service_tier text,
  region text
);

-- Units of a currency for 1 USD; null where the admin has set none.
create function rate_of(p_currency text) returns numeric language sql stable as $$
  select case p_currency when 'USD' then 1 else (select x.rate from exchange_rates x where x.currency = p_currency) end
$$;

-- True if a usage counts anything; its names of a tier and a region are no counts.
create function has_use(p_usage jsonb) returns boolean language sql immutable as $$
  select exists (select 1 from jsonb_each(p_usage) as u
    where case jsonb_typeof(u.value) when 'number' then u.value::numeric > 0 end)
$$;

-- One amount under a price list: the list's own figure, if it has one, else the amount moved from
-- `p_from` to `p_to`. `p_was` is the figure in the price that the list was written against, so that
-- two lists on one price take effect together.
create function moved_amount(p_amount numeric, p_named numeric, p_was numeric, p_to numeric,
  p_from numeric)
returns numeric language sql immutable as $$
  select case
    when p_named is null and p_from > 0 then p_amount * p_to / p_from
    when p_named is null then p_amount
    when p_amount <> p_was and p_was > 0 then p_amount * p_named / p_was
    else p_named end
$$;

-- A price under one of its lists, which was written against `p_base`. A factor is for what the
-- model reads and writes: tokens, characters, minutes and pages. Of a list, input kinds that it
-- does not name move as its input does, output kinds as its output.
create function price_under(p model_prices, p_base model_prices, p_list jsonb)
returns model_prices language plpgsql immutable as $$
declare
  v model_prices := p;
  l model_prices;
  -- Input kinds move from `v_in_from` to `v_in`, output kinds likewise.
  v_in numeric := case jsonb_typeof(p_list) when 'number' then p_list::numeric end;
  v_out numeric := v_in;
  v_in_from numeric := 1;
  v_out_from numeric := 1;
begin
  if p_list is null then
    return p;
  end if;
  if v_in is null then
    l := jsonb_populate_record(null::model_prices, p_list);
    v := jsonb_populate_record(p, p_list);
    v_in := coalesce(l.input_per_1m, p_base.input_per_1m);
    v_in_from := p_base.input_per_1m;
    v_out := coalesce(l.output_per_1m, p_base.output_per_1m);
    v_out_from := p_base.output_per_1m;
  else
    v.per_1m_characters := p.per_1m_characters * v_in;
    v.per_minute := p.per_minute * v_in;
    v.per_page := p.per_page * v_in;
  end if;
  v.input_per_1m := moved_amount(p.input_per_1m, l.input_per_1m, p_base.input_per_1m, v_in, v_in_from);
  v.cached_input_per_1m := moved_amount(p.cached_input_per_1m, l.cached_input_per_1m, p_base.cached_input_per_1m, v_in, v_in_from);
  v.cache_write_per_1m := moved_amount(p.cache_write_per_1m, l.cache_write_per_1m, p_base.cache_write_per_1m, v_in, v_in_from);
  v.cache_write_1h_per_1m := moved_amount(p.cache_write_1h_per_1m, l.cache_write_1h_per_1m, p_base.cache_write_1h_per_1m,
    v_in, v_in_from);
  v.audio_input_per_1m := moved_amount(p.audio_input_per_1m, l.audio_input_per_1m, p_base.audio_input_per_1m, v_in, v_in_from);
  v.image_input_per_1m := moved_amount(p.image_input_per_1m, l.image_input_per_1m, p_base.image_input_per_1m, v_in, v_in_from);
  v.video_input_per_1m := moved_amount(p.video_input_per_1m, l.video_input_per_1m, p_base.video_input_per_1m, v_in, v_in_from);
  v.output_per_1m := moved_amount(p.output_per_1m, l.output_per_1m, p_base.output_per_1m, v_out, v_out_from);
  v.audio_output_per_1m := moved_amount(p.audio_output_per_1m, l.audio_output_per_1m, p_base.audio_output_per_1m,
    v_out, v_out_from);
  v.image_output_per_1m := moved_amount(p.image_output_per_1m, l.image_output_per_1m, p_base.image_output_per_1m,
    v_out, v_out_from);
  v.video_output_per_1m := moved_amount(p.video_output_per_1m, l.video_output_per_1m, p_base.video_output_per_1m,
    v_out, v_out_from);
  return v;
end $$;

-- The amounts of a price that are in force for one usage: under the tier of service and the region
-- that the answer named, and under the highest tier that its prompt has passed. A name that the
-- price does not know changes nothing.
create function price_at(p model_prices, u usage_counts)
returns model_prices language plpgsql immutable as $$
declare
  v model_prices := p;
  v_base model_prices := p;
  v_list jsonb := p.service_tiers -> u.service_tier;
  v_tiers jsonb := coalesce(v_list -> 'tiers', p.tiers);
begin
  if v_list is not null then
    v := price_under(p, p, v_list);
    if v_list -> 'tiers' is not null then
      v_base := v;
    end if;
  end if;
  if v_tiers is not null then
    select t.value into v_list from jsonb_array_elements(v_tiers) as t
    where (t.value ->> 'above_prompt_tokens')::numeric < u.prompt_tokens
    order by (t.value ->> 'above_prompt_tokens')::numeric desc limit 1;
    if found then
      v := price_under(v, v_base, v_list);
    end if;
  end if;
  if p.regions is not null then
    v := price_under(v, p, p.regions -> u.region);
  end if;
  return v;
end $$;

-- What the lines of billed_figures are for, in their order.
create function billed_names() returns text[] language sql immutable as $$
  select array['input', 'cached_input', 'cache_write', 'cache_write_1h', 'audio_input', 'image_input', 'video_input', 'output',
    'audio_output', 'image_output', 'video_output', 'characters', 'seconds', 'pages', 'request', 'web_search', 'file_search',
    'container', 'tool_call']
$$;

-- All that a price bills of a usage, at the amounts of price_at. Three figures a line: a count, the
-- price, and how many it is for. A missing sub-price is its parent's. This is the one place that
-- knows which count meets which amount; a flat array, since each reserve and settle reads it.
create function billed_figures(p model_prices, u usage_counts)
returns numeric[] language sql immutable as $$
  select array[
    u.prompt_tokens - coalesce(u.cached_tokens, 0) - coalesce(u.cache_write_tokens, 0)
      - coalesce(u.cache_write_1h_tokens, 0) - coalesce(u.audio_input_tokens, 0) - coalesce(u.image_input_tokens, 0)
      - coalesce(u.video_input_tokens, 0), p.input_per_1m, 1000000,
    u.cached_tokens, coalesce(p.cached_input_per_1m, p.input_per_1m), 1000000,
    u.cache_write_tokens, coalesce(p.cache_write_per_1m, p.input_per_1m), 1000000,
    u.cache_write_1h_tokens, coalesce(p.cache_write_1h_per_1m, p.cache_write_per_1m, p.input_per_1m), 1000000,
    u.audio_input_tokens, coalesce(p.audio_input_per_1m, p.input_per_1m), 1000000,
    u.image_input_tokens, coalesce(p.image_input_per_1m, p.input_per_1m), 1000000,
    u.video_input_tokens, coalesce(p.video_input_per_1m, p.input_per_1m), 1000000,
    u.completion_tokens - coalesce(u.audio_output_tokens, 0) - coalesce(u.image_output_tokens, 0)
      - coalesce(u.video_output_tokens, 0), p.output_per_1m, 1000000,
    u.audio_output_tokens, coalesce(p.audio_output_per_1m, p.output_per_1m), 1000000,
    u.image_output_tokens, coalesce(p.image_output_per_1m, p.output_per_1m), 1000000,
    u.video_output_tokens, coalesce(p.video_output_per_1m, p.output_per_1m), 1000000,
    u.characters, p.per_1m_characters, 1000000,
    case when u.seconds > 0 then greatest(u.seconds, p.minimum_seconds) end, p.per_minute, 60,
    u.pages, p.per_page, 1,
    1, p.per_request, 1,
    u.web_searches, coalesce(p.per_web_search, p.per_tool_call), 1,
    u.file_searches, coalesce(p.per_file_search, p.per_tool_call), 1,
    u.containers, coalesce(p.per_container, p.per_tool_call), 1,
    u.tool_calls, p.per_tool_call, 1]
$$;

-- The exact nanos of a USD of one line; null if it bills nothing.
create function billed_nanos(p_count numeric, p_price numeric, p_per numeric)
returns numeric language sql immutable as $$
  select p_count * p_price * 1000000000 / p_per
$$;

-- The one function that turns usage into money: exact nanos of a USD, unrounded; the sum of the
-- lines, and the minimum at least.
create function usage_cost(p model_prices, u usage_counts)
returns numeric language plpgsql immutable as $$
declare
  v_figures numeric[];
  v_nanos numeric := 0;
begin
  if p.free then
    return 0;
  end if;
  if p.tiers is not null or p.service_tiers is not null or p.regions is not null then
    p := price_at(p, u);
  end if;
  v_figures := billed_figures(p, u);
  for n in 1 .. array_length(v_figures, 1) by 3 loop
    if v_figures[n] <> 0 and v_figures[n + 1] <> 0 then
      v_nanos := v_nanos + billed_nanos(v_figures[n], v_figures[n + 1], v_figures[n + 2]);
    end if;
  end loop;
  return greatest(v_nanos, p.minimum * 1000000000);
end $$;

-- One line as it is shown: a price for one, and exact amounts in USD.
create type price_line as (
  what text,
  quantity numeric,
  unit_price numeric,
  amount numeric
);

create function price_lines(p model_prices, u usage_counts)
returns setof price_line language plpgsql immutable as $$
declare
  v model_prices;
  v_figures numeric[];
  v_names text[] := billed_names();
  v_nanos numeric;
  v_sum numeric := 0;
begin
  if p.free then
    return;
  end if;
  v := price_at(p, u);
  v_figures := billed_figures(v, u);
  for n in 1 .. array_length(v_figures, 1) by 3 loop
    if v_figures[n] <> 0 and v_figures[n + 1] <> 0 then
      v_nanos := billed_nanos(v_figures[n], v_figures[n + 1], v_figures[n + 2]);
      v_sum := v_sum + v_nanos;
      return next (v_names[(n + 2) / 3], v_figures[n], trim_scale(v_figures[n + 1] / v_figures[n + 2]),
        trim_scale(v_nanos * 0.000000001))::price_line;
    end if;
  end loop;
  v_nanos := v.minimum * 1000000000 - v_sum;
  if v_nanos > 0 then
    v_nanos := trim_scale(v_nanos * 0.000000001);
    return next ('minimum', 1, v_nanos, v_nanos)::price_line;
  end if;
end $$;

----------------------------------------------------------------------------------------------------
-- Keys of providers
----------------------------------------------------------------------------------------------------

-- Keys of providers that organizations bring, and those that the platform keeps here. A call that
-- is served by one is charged by the factor of that key, which is frozen with its prices.

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
    check (price_factor >= 0 and price_factor <= 100 and scale(price_factor) <= 6),
  -- `first`: the platform's key serves where this one is refused.
  own_keys text not null default 'only' check (own_keys in ('only', 'first')),
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  rotated_at timestamptz,
  revoked_at timestamptz,
  -- When a gateway asked for it last.
  last_used_at timestamptz,
  constraint provider_keys_check check ((org_id is null) = (provider is null)),
  constraint provider_keys_check1 check ((org_id is null) = (name is not null))
);
-- One key serves an organization at a provider.
create unique index provider_keys_living on provider_keys (org_id, provider)
where revoked_at is null;
create unique index provider_keys_named on provider_keys (name) where revoked_at is null;
create index provider_keys_organization on provider_keys (org_id, id);

----------------------------------------------------------------------------------------------------
-- Reservations
----------------------------------------------------------------------------------------------------

-- Reserve, settle, extend, expire: the two-phase cycle of every priced request, and the ticket that
-- a refusal opens.

create table reservations (
  id text primary key,
  org_id text not null,
  request_id text not null,
  -- open -> settled | released | expired; expired -> late. `canceled` is a tombstone: a request_id
  -- that may never hold.
  status text not null
    check (status in ('open', 'settled', 'released', 'expired', 'late', 'canceled')),
  -- SHA-256 of the reserve body, so that a repeat with another body is noticed.
  body_sha256 text,
  request_body_hash text,
  wallet_id text,
  wallet_owner_type text,
  key_id text,
  user_id text,
  team_id text,
  agent_id text,
  session_id text,
  family text,
  provider text,
  model text,
  -- The frozen price: versions are never changed. Fallbacks: [{provider, model, price_version_id}].
  price_version_id text,
  fallbacks jsonb,
  exchange_rate numeric,
  currency text,
  estimated_nanos bigint,
  held_nanos bigint,
  actual_cost_nanos bigint,
  usage jsonb,
  usage_source text,
  outcome text,
  life_seconds integer,
  created_at timestamptz not null,
  expires_at timestamptz,
  closed_at timestamptz,
  -- What the request ran on, where it is settled: the model of the reserve or one of its fallbacks.
  settled_provider text,
  settled_model text,
  max_completion_tokens bigint,
  cost_ticket_id text,
  -- True if a budget counts it while it is open; null otherwise.
  is_budgeted boolean,
  -- At most 5, from x-svc-tags.
  tags text[],
  -- The own keys that may serve it, with what they were then: [{provider, provider_key_id, version,
  -- price_factor, own_keys}].
  own_keys jsonb,
  -- The one that did; null: the platform's key.
  provider_key_id text,
  -- What its organization paid of each price when it was held; null: 1.
  price_factor numeric,
  -- What the provider said that the call cost it, in USD; null: it said nothing. Compared, and
  -- charged to nobody.
  provider_cost_usd numeric,
  constraint reservations_check check (status = 'canceled' or num_nulls(wallet_id, price_version_id,
    held_nanos, expires_at) = 0)
) with (fillfactor = 80);
create index reservations_agent on reservations (agent_id, created_at)
where agent_id is not null;
-- Finds the sessions of a period.
create index reservations_closed_sessions on reservations (org_id, closed_at)
where session_id is not null and closed_at is not null;
create index reservations_due on reservations (org_id, expires_at) where status = 'open';
create unique index reservations_request on reservations (org_id, request_id);
create index reservations_session on reservations (org_id, session_id)
where session_id is not null;
create index reservations_ticket on reservations (cost_ticket_id)
where cost_ticket_id is not null;
-- The calls of a period whose providers said their cost.
create index reservations_told on reservations (closed_at) where provider_cost_usd is not null;

-- What settles told beyond their bound. It is charged or dropped once, by a person.
create table settlement_excess (
  id text primary key default new_id('excess'),
  org_id text not null references organizations,
  reservation_id text not null unique,
  status text not null default 'open' check (status in ('open', 'charged', 'dropped')),
  wallet_id text not null,
  currency text not null,
  -- What was charged, and what was not; at most what an amount may be.
  charged_nanos bigint not null,
  excess_nanos bigint not null check (excess_nanos > 0),
  created_at timestamptz not null,
  decided_at timestamptz,
  decided_by text,
  note text,
  -- The entry that charged it.
  transaction_id text
);
create index settlement_excess_open on settlement_excess (created_at) where status = 'open';

-- One answer of reserve or settle; `code` is null where it went well. Refusals are rows, so that
-- neighbours go on.
create type lane_answer as (
  op text,
  n integer,
  code text,
  param text,
  reservation_id text,
  status text,
  wallet_id text,
  wallet_owner_type text,
  currency text,
  estimated_cost_nanos bigint,
  reserved_amount_nanos bigint,
  actual_cost_nanos bigint,
  released_amount_nanos bigint,
  balance_after_nanos bigint,
  transaction_id text,
  expires_at timestamptz,
  cost_ticket jsonb
);

-- What reservationLifetimes does each time it wakes: expires what is overdue and returns the
-- milliseconds to the next deadline. Null ends the workflow: nothing is open, and the next hold
-- wakes it again.
create function sweep_holds(p_org_id text)
returns double precision language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_next timestamptz;
begin
  perform lock_organization(p_org_id);
  perform expire_holds(p_org_id);
  select min(r.expires_at) into v_next from reservations r where r.org_id = p_org_id and r.status = 'open';
  update organizations o set lifetimes_next_at = v_next
  where o.id = p_org_id and o.lifetimes_next_at is distinct from v_next;
  return case when v_next is not null then greatest(ceil(extract(epoch from v_next - clock_timestamp()) * 1000), 1) end;
end $$;

create type settle_item as (
  reservation_id text,
  request_id text,
  outcome text,
  provider text,
  model text,
  usage jsonb,
  usage_source text,
  provider_key_id text,
  provider_cost_usd numeric
);

-- One settle item with what was decided of it; `code` is null where the reservation is to be closed
-- now.
create type settlement as (
  n integer,
  code text,
  reservation reservations,
  request_id text,
  status text,
  cost_nanos numeric,
  provider text,
  model text,
  outcome text,
  usage jsonb,
  usage_source text,
  excess_nanos numeric,
  is_unpriced boolean,
  provider_key_id text,
  provider_cost_usd numeric
);

-- The ledger entries that close reservations: the hold comes back and the cost goes, or after
-- expiry the cost alone.
create function closing_entries(p_closing settlement[])
returns ledger_entry[] language sql immutable as $$
  select array_agg(((s.reservation).wallet_id, 'settlement',
    case s.status when 'late' then -s.cost_nanos else (s.reservation).held_nanos - s.cost_nanos end,
    case s.status when 'late' then 0 else -(s.reservation).held_nanos end,
    (s.reservation).id, case s.status when 'late' then 'late' else 'close' end, s.provider, s.model, s.cost_nanos,
    null, null, case s.status when 'late' then 'settled after expiry' end)::ledger_entry order by s.n)
  from unnest(p_closing) as s
$$;

create type reserve_item as (
  request_id text,
  request_body_hash text,
  provider text,
  model text,
  estimated_prompt_tokens numeric,
  max_completion_tokens numeric,
  characters numeric,
  seconds numeric,
  fallbacks jsonb,
  user_id text,
  team_id text,
  agent_id text,
  key_id text,
  secret_id text,
  session_id text,
  family text,
  session_max_actions numeric,
  session_max_cost_usd numeric,
  service_tier text,
  region text,
  web_searches numeric,
  file_searches numeric,
  containers numeric,
  pages numeric,
  image_output_tokens numeric,
  tags text[],
  own_keys boolean,
  choices numeric,
  audio_input_tokens numeric,
  audio_output_tokens numeric,
  cache_life text
);

-- What a reserve may cost at most by today's prices: the dearest of the model and its fallbacks,
-- each price frozen.
create type quote as (
  code text,
  param text,
  usd_nanos numeric,
  price_version_id text,
  fallbacks jsonb,
  own_keys jsonb,
  price_factor numeric
);

-- True where the session's earlier reserves, those of this batch included, leave no room for one
-- more of this size.
create function session_is_full(p_org_id text, i reserve_item, p_usd_nanos numeric,
  p_made reservations[])
returns boolean language sql stable as $$
  select count(*) + 1 > i.session_max_actions
    or coalesce(sum(coalesce(r.actual_cost_nanos, r.held_nanos) / r.exchange_rate), 0) + p_usd_nanos
      > i.session_max_cost_usd * 1000000000
  from (
    select q.actual_cost_nanos, q.held_nanos, q.exchange_rate from reservations q
    where q.org_id = p_org_id and q.session_id = i.session_id and q.status <> 'canceled'
    union all
    select m.actual_cost_nanos, m.held_nanos, m.exchange_rate from unnest(p_made) as m where m.session_id = i.session_id
  ) as r
$$;

-- The answer of a repeated reserve: the same hold for the same body; a tombstone or another body is
-- refused.
create function repeated_hold(a lane_answer, r reservations, p_body_sha256 text,
  p_balance_nanos bigint)
returns lane_answer language plpgsql immutable as $$
begin
  a.code := case when r.status = 'canceled' then 'request_canceled'
    when r.body_sha256 is distinct from p_body_sha256 then 'idempotency_key_reused' end;
  if a.code is null then
    a.reservation_id := r.id;
    a.wallet_id := r.wallet_id;
    a.wallet_owner_type := r.wallet_owner_type;
    a.currency := r.currency;
    a.estimated_cost_nanos := r.estimated_nanos;
    a.reserved_amount_nanos := r.held_nanos;
    a.balance_after_nanos := p_balance_nanos;
    a.expires_at := r.expires_at;
  end if;
  return a;
end $$;

-- The answer to one item of a batch: the row that every item has, and the members that only holds
-- have.
create type lane_row as (
  answer lane_answer,
  -- The completion that is paid for by the hold.
  max_completion_tokens bigint,
  -- Constraints with mode `warn` that this hold exceeds: [{id, constraint_type, interval,
  -- max_value, resets_at}]; of a refusal by a cap the one that refuses, with current_value, needed
  -- and currency.
  warnings jsonb,
  -- When the window of the constraint that refused ends.
  resets_at timestamptz,
  own_keys jsonb
);

-- Whether an agent's constraints let one more hold pass. `left_after` is what the batch has counted
-- by then, by constraint.
create type cap_verdict as (
  refused_id text,
  resets_at timestamptz,
  warnings jsonb,
  left_after jsonb,
  -- The constraint that refuses, as a warning, with what its window has counted (current_value) and
  -- what the hold adds (needed).
  refused jsonb
);

-- The completion that a hold without a cap of its own pays for, of each choice: the longest of the
-- models that it may run on.
create function completion_cap(q quote, p_default_max_completion integer)
returns bigint language sql stable as $$
  select max(least(p.max_output_tokens, p_default_max_completion)) from model_prices p
  where p.version_id = q.price_version_id
    or p.version_id in (select f ->> 'price_version_id' from jsonb_array_elements(q.fallbacks) as f)
$$;

-- A wallet of the cascade (user, team, organization) with its balance when the batch began.
create type cascade_wallet as (
  id text,
  owner_type text,
  balance_nanos bigint,
  kept_nanos bigint
);

-- One item of a reserve with everything that the tables know about it under the lock.
create type reserve_fact as (
  n integer,
  body reserve_item,
  -- The reservation that has this request_id already, and the balance after its hold.
  earlier reservations,
  earlier_balance_nanos bigint,
  body_sha256 text,
  -- If it is set, this wallet alone may pay; if it is empty, none may.
  forced_wallet_id text,
  cost_ticket_id text,
  -- The first member of the body whose id does not belong to the organization.
  unknown_member text,
  key_invalid boolean,
  key_room_nanos bigint,
  has_caps boolean,
  user_wallet cascade_wallet,
  team_wallet cascade_wallet,
  org_wallet cascade_wallet,
  is_outsider boolean
);

-- Turns a cost in nanos of a USD into the amount to hold: in the organization's currency, buffer
-- included, rounded up.
create function amount_to_hold(p_usd_nanos numeric, p_rate numeric, p_buffer_pct numeric)
returns numeric language sql immutable as $$
  select ceil(ceil(p_usd_nanos * p_rate) * (1 + p_buffer_pct / 100))
$$;

-- Makes the ledger entries of new holds, in the order of the holds.
create function hold_entries(p_holds reservations[])
returns ledger_entry[] language sql immutable as $$
  select array_agg((h.wallet_id, 'reservation', -h.held_nanos, h.held_nanos, h.id, 'hold', h.provider, h.model,
    null, null, null, null)::ledger_entry order by h.ordinality)
  from unnest(p_holds) with ordinality as h
$$;

-- True if a price knows what a tier costs. Every price knows the names of the ordinary one; absent
-- is ordinary too.
create function knows_tier(p model_prices, p_service_tier text)
returns boolean language sql immutable as $$
  select coalesce(p_service_tier in ('auto', 'default', 'standard', 'standard_only', 'on_demand')
    or p.free or p.service_tiers -> p_service_tier is not null, true)
$$;

-- True if a price knows what a region costs, likewise.
create function knows_region(p model_prices, p_region text)
returns boolean language sql immutable as $$
  select coalesce(p_region in ('global', 'default', 'not_available') or p.free or p.regions -> p_region is not null, true)
$$;

-- Prices a reserve: what it costs at most by today's prices, the dearest of the model and its
-- fallbacks, each price frozen. A tier or region that none of them prices is refused; one that some
-- do not price is charged at their base.
create function quote_reserve(i reserve_item, p_default_max_completion integer)
returns quote language plpgsql stable as $$
declare
  v_quote quote;
  v_candidate record;
  v_price model_prices;
  v_knows_tier boolean := false;
  v_knows_region boolean := false;
begin
  for v_candidate in
    select i.provider as provider, i.model as model, 0 as n
    union all
    select f.value ->> 'provider', f.value ->> 'model', f.n::integer
    from jsonb_array_elements(i.fallbacks) with ordinality as f (value, n)
    order by n
  loop
    v_price := price_for(v_candidate.provider, v_candidate.model);
    if v_price.version_id is null then
      v_quote.code := 'model_not_priced';
      v_quote.param := case v_candidate.n when 0 then 'model' else 'fallbacks' end;
      return v_quote;
    end if;
    v_knows_tier := v_knows_tier or knows_tier(v_price, i.service_tier);
    v_knows_region := v_knows_region or knows_region(v_price, i.region);
    v_quote.usd_nanos := greatest(v_quote.usd_nanos,
      dearest_cost(v_price, expected_usage(i, v_price, p_default_max_completion)));
    if v_candidate.n = 0 then
      v_quote.price_version_id := v_price.version_id;
    else
      v_quote.fallbacks := coalesce(v_quote.fallbacks, '[]') || jsonb_build_object('provider', v_candidate.provider,
        'model', v_candidate.model, 'price_version_id', v_price.version_id);
    end if;
  end loop;
  if not v_knows_tier then
    v_quote.code := 'service_tier_not_priced';
    v_quote.param := 'service_tier';
  elsif not v_knows_region then
    v_quote.code := 'region_not_priced';
    v_quote.param := 'region';
  end if;
  return v_quote;
end $$;

-- The most that a settle charges: a hundred holds, or 10 units of the currency.
create function settlement_bound(r reservations) returns numeric language sql immutable as $$
  select greatest(r.held_nanos::numeric * 100, 10000000000)
$$;

-- The answer of a repeated settle: what the first one did, whatever a person has charged since.
create function settled_answer(p_n integer, r reservations)
returns lane_answer language sql stable as $$
  select ('settle', p_n, null, null, case when r.status <> 'canceled' then r.id end,
    case r.status when 'canceled' then 'released' else r.status end, r.wallet_id, r.wallet_owner_type, r.currency,
    r.estimated_nanos, r.held_nanos, coalesce(t.actual_cost_nanos, r.actual_cost_nanos, 0),
    case when r.status in ('settled', 'released') then greatest(r.held_nanos - r.actual_cost_nanos, 0) else 0 end,
    t.balance_after_nanos, t.id, r.expires_at, null)::lane_answer
  from (select 1) as always
  left join wallet_transactions t on t.reservation_id = r.id
    and t.phase = case r.status when 'late' then 'late' else 'close' end
$$;

-- The same of the call that has a hold. What its batch does not say is read from another event of
-- the call, else from its ticket: a hold keeps neither proof nor label, as nearly all end without
-- an event.
create function caller_of_hold(r reservations) returns jsonb language sql stable as $$
  select caller(coalesce(trace_of(r.id), trace_of(r.request_id),
      (select jsonb_build_object('trace_label', e.trace_label, 'identity_proof_method', e.payload -> 'identity_proof_method')
        from events e
        where e.request_id = r.request_id and e.org_id = r.org_id and e.trace_label is not null
          and e.created_at >= r.created_at - interval '1 day' and e.created_at < clock_timestamp() + interval '1 day'
        order by e.id limit 1),
      (select t.trace from cost_tickets t where t.id = r.cost_ticket_id)),
    r.user_id, r.key_id, r.team_id)
$$;

-- Puts aside what closed settlements cost beyond their bound, and tells of it and of tiers and
-- regions without a price.
create function note_settlements(p_org_id text, p_closing settlement[], p_now timestamptz)
returns void language plpgsql as $$
begin
  insert into settlement_excess (org_id, reservation_id, wallet_id, currency, charged_nanos, excess_nanos, created_at)
  select p_org_id, (s.reservation).id, (s.reservation).wallet_id, (s.reservation).currency, s.cost_nanos,
    least(s.excess_nanos, 9000000000000000000), p_now
  from unnest(p_closing) as s where s.excess_nanos > 0 order by s.n;
  perform append_event(p_org_id, 'settlement.bounded', jsonb_build_object('settlement_excess_id', x.id,
      'reservation_id', x.reservation_id, 'request_id', (s.reservation).request_id, 'agent_id', (s.reservation).agent_id,
      'wallet_id', x.wallet_id, 'held_nanos', (s.reservation).held_nanos::text, 'charged_nanos', x.charged_nanos::text,
      'excess_nanos', x.excess_nanos::text, 'currency', x.currency)
    || caller_of_hold(s.reservation))
  from unnest(p_closing) as s join settlement_excess x on x.reservation_id = (s.reservation).id where s.excess_nanos > 0;
  perform append_event(p_org_id, 'settlement.tier_unpriced', jsonb_build_object('reservation_id', (s.reservation).id,
      'request_id', (s.reservation).request_id, 'agent_id', (s.reservation).agent_id, 'provider', s.provider, 'model', s.model,
      'service_tier', s.usage ->> 'service_tier', 'region', s.usage ->> 'region')
    || caller_of_hold(s.reservation))
  from unnest(p_closing) as s where s.is_unpriced;
end $$;

-- The answer to one item of a batch: the columns of lane_row, flat.
create type item_answer as (
  op text,
  n integer,
  code text,
  param text,
  reservation_id text,
  status text,
  wallet_id text,
  wallet_owner_type text,
  currency text,
  estimated_cost_nanos bigint,
  reserved_amount_nanos bigint,
  actual_cost_nanos bigint,
  released_amount_nanos bigint,
  balance_after_nanos bigint,
  transaction_id text,
  expires_at timestamptz,
  cost_ticket jsonb,
  max_completion_tokens bigint,
  warnings jsonb,
  resets_at timestamptz,
  own_keys jsonb
);

-- True if a price has no lists: every tier, region and length of prompt costs the same.
create function is_flat(p model_prices) returns boolean language sql immutable as $$
  select p.tiers is null and p.service_tiers is null and p.regions is null
$$;

-- What usage_cost says of tokens alone at a flat price.
create function token_cost(p model_prices, p_prompt_tokens numeric, p_completion_tokens numeric)
returns numeric language sql immutable as $$
  select case when p.free then 0 else greatest(
    coalesce(billed_nanos(p_prompt_tokens, p.input_per_1m, 1000000), 0)
      + coalesce(billed_nanos(p_completion_tokens, p.output_per_1m, 1000000), 0)
      + coalesce(billed_nanos(1, p.per_request, 1), 0),
    p.minimum * 1000000000) end
$$;

-- Tells the body of a reserve from another: jsonb has one text for one content, whatever the order
-- of its keys. What may differ in a repeat is left out.
create function body_digest(p_item jsonb) returns text language sql stable as $$
  select encode(sha256(convert_to(jsonb_strip_nulls(p_item - '{request_id,secret_id,wallet_id,cost_ticket_id}'::text[])::text,
    'utf8')), 'hex')
$$;

-- Says why an item may hold nothing, however much money there is; null if money alone decides.
-- `p_room` is the rest of the key's budget and `p_made` are the holds of this batch so far. Caps on
-- agents are judged afterwards, by judge_caps.
create function reserve_refusal(p_org organizations, f reserve_fact, q quote, p_rate numeric,
  p_held_nanos numeric, p_room_nanos bigint, p_made reservations[])
returns text language sql stable as $$
  select case
    when p_org.id is null then 'unknown_org'
    when p_org.suspended_at is not null then 'organization_suspended'
    when f.unknown_member is not null then 'not_of_organization'
    when f.key_invalid then 'invalid_credential'
    when f.is_outsider then 'not_team_member'
    when q.code is not null then q.code
    when p_rate is null then 'exchange_rate_missing'
    when p_held_nanos > 9000000000000000000 then 'amount_too_large'
    when ((f.body).session_max_actions is not null or (f.body).session_max_cost_usd is not null)
      and session_is_full(p_org.id, f.body, q.usd_nanos, p_made) then 'session_limit_exceeded'
    when p_held_nanos > p_room_nanos then 'key_budget_exceeded' end
$$;

-- Writes a batch's holds with their entries, keys' holds and last use, and wakes the organization's
-- lifetimes workflow where none runs or the new deadline comes before the one it sleeps to.
create function write_holds(p_org organizations, p_holds reservations[], p_entries ledger_entry[],
  p_now timestamptz)
returns void language plpgsql as $$
declare
  v_next timestamptz := p_holds[1].expires_at;
begin
  insert into reservations select * from unnest(p_holds);
  if exists (select 1 from unnest(p_holds) as h where h.is_budgeted) then
    perform count_holds(p_org.id, p_holds);
  end if;
  perform from post_entries(p_org.id, p_entries);
  update tokens t set held_nanos = t.held_nanos + d.held_nanos,
    last_used_at = case when t.last_used_at > p_now - interval '1 minute' then t.last_used_at else p_now end
  from (select h.key_id, sum(h.held_nanos) as held_nanos from unnest(p_holds) as h where h.key_id is not null group by 1) as d
  where t.id = d.key_id;
  if p_org.lifetimes_next_at is null or v_next < p_org.lifetimes_next_at then
    update organizations o set lifetimes_next_at = v_next where o.id = p_org.id;
    perform send_to_workflow(p_org.id, 'reservationLifetimes', 'lifetimes-' || p_org.id, 'wake',
      jsonb_build_object('org_id', p_org.id));
  end if;
end $$;

-- What an own key makes of a price for one usage: the amounts in force, each times its factor but
-- for the price per request.
create function price_by_key(p model_prices, u usage_counts, p_factor numeric)
returns model_prices language plpgsql immutable as $$
declare
  v model_prices := price_at(p, u);
begin
  v.tiers := null;
  v.service_tiers := null;
  v.regions := null;
  v.input_per_1m := v.input_per_1m * p_factor;
  v.output_per_1m := v.output_per_1m * p_factor;
  v.cached_input_per_1m := v.cached_input_per_1m * p_factor;
  v.cache_write_per_1m := v.cache_write_per_1m * p_factor;
  v.cache_write_1h_per_1m := v.cache_write_1h_per_1m * p_factor;
  v.audio_input_per_1m := v.audio_input_per_1m * p_factor;
  v.audio_output_per_1m := v.audio_output_per_1m * p_factor;
  v.image_input_per_1m := v.image_input_per_1m * p_factor;
  v.image_output_per_1m := v.image_output_per_1m * p_factor;
  v.video_input_per_1m := v.video_input_per_1m * p_factor;
  v.video_output_per_1m := v.video_output_per_1m * p_factor;
  v.per_minute := v.per_minute * p_factor;
  v.per_1m_characters := v.per_1m_characters * p_factor;
  v.per_tool_call := v.per_tool_call * p_factor;
  v.per_web_search := v.per_web_search * p_factor;
  v.per_file_search := v.per_file_search * p_factor;
  v.per_container := v.per_container * p_factor;
  v.per_page := v.per_page * p_factor;
  v.minimum := v.minimum * p_factor;
  return v;
end $$;

-- What a usage costs at most by an own key, as dearest_cost says it of the platform's.
create function dearest_cost_by_key(p model_prices, u usage_counts, p_factor numeric)
returns numeric language plpgsql immutable as $$
declare
  v_nanos numeric := usage_cost(price_by_key(p, u, p_factor), u);
  v_tier text;
begin
  if p.service_tiers is null or u.service_tier is null then
    return v_nanos;
  end if;
  if u.service_tier in ('auto', 'default') then
    for v_tier in select jsonb_object_keys(p.service_tiers) loop
      u.service_tier := v_tier;
      v_nanos := greatest(v_nanos, usage_cost(price_by_key(p, u, p_factor), u));
    end loop;
    return v_nanos;
  end if;
  u.service_tier := null;
  return greatest(v_nanos, usage_cost(price_by_key(p, u, p_factor), u));
end $$;

-- The key that an organization has at a provider; a null row if it has none.
create function own_key_at(p_org_id text, p_provider text)
returns provider_keys language sql stable as $$
  select k from provider_keys k where k.org_id = p_org_id and k.provider = p_provider and k.revoked_at is null limit 1
$$;

-- What a frozen key multiplies with; null for the platform's.
create function frozen_factor(p_own_keys jsonb, p_provider text, p_provider_key_id text)
returns numeric language sql immutable as $$
  select (k.value ->> 'price_factor')::numeric from jsonb_array_elements(p_own_keys) as k
  where k.value ->> 'provider' = p_provider and k.value ->> 'provider_key_id' = p_provider_key_id limit 1
$$;

-- Prices a reserve: what it costs at most by today's prices, the dearest of the model and its
-- fallbacks, each price frozen. A tier or region that none of them prices is refused; one that some
-- do not price is charged at their base. Where the organization has an own key, its factor counts
-- in the place of the platform's price, or beside it if that key may serve too.
create function quote_reserve_2(p_org_id text, i reserve_item, p_default_max_completion integer)
returns quote language plpgsql stable as $$
declare
  v_quote quote;
  v_candidate record;
  v_price model_prices;
  v_usage usage_counts;
  v_key provider_keys;
  v_knows_tier boolean := false;
  v_knows_region boolean := false;
begin
  for v_candidate in
    select i.provider as provider, i.model as model, 0 as n
    union all
    select f.value ->> 'provider', f.value ->> 'model', f.n::integer
    from jsonb_array_elements(i.fallbacks) with ordinality as f (value, n)
    order by n
  loop
    v_price := price_for(v_candidate.provider, v_candidate.model);
    if v_price.version_id is null then
      v_quote.code := 'model_not_priced';
      v_quote.param := case v_candidate.n when 0 then 'model' else 'fallbacks' end;
      return v_quote;
    end if;
    v_knows_tier := v_knows_tier or knows_tier(v_price, i.service_tier);
    v_knows_region := v_knows_region or knows_region(v_price, i.region);
    v_usage := expected_usage(i, v_price, p_default_max_completion);
    v_key := case when i.own_keys then own_key_at(p_org_id, v_candidate.provider) end;
    if v_key.id is not null then
      v_quote.usd_nanos := greatest(v_quote.usd_nanos, dearest_cost_by_key(v_price, v_usage, v_key.price_factor));
      if not coalesce(v_quote.own_keys, '[]') @> jsonb_build_array(jsonb_build_object('provider_key_id', v_key.id)) then
        v_quote.own_keys := coalesce(v_quote.own_keys, '[]') || jsonb_build_object('provider', v_key.provider,
          'provider_key_id', v_key.id, 'version', v_key.version, 'price_factor', trim_scale(v_key.price_factor)::text,
          'own_keys', v_key.own_keys);
      end if;
    end if;
    if v_key.id is null or v_key.own_keys = 'first' then
      v_quote.usd_nanos := greatest(v_quote.usd_nanos, dearest_cost(v_price, v_usage));
    end if;
    if v_candidate.n = 0 then
      v_quote.price_version_id := v_price.version_id;
    else
      v_quote.fallbacks := coalesce(v_quote.fallbacks, '[]') || jsonb_build_object('provider', v_candidate.provider,
        'model', v_candidate.model, 'price_version_id', v_price.version_id);
    end if;
  end loop;
  if not v_knows_tier then
    v_quote.code := 'service_tier_not_priced';
    v_quote.param := 'service_tier';
  elsif not v_knows_region then
    v_quote.code := 'region_not_priced';
    v_quote.param := 'region';
  end if;
  return v_quote;
end $$;

-- Answers an item whose request_id holds already or may never hold. A call that was canceled stays
-- canceled.
create function repeated_reserve(f reserve_fact)
returns lane_row language plpgsql immutable as $$
declare
  a lane_answer;
  v_row lane_row;
begin
  a.op := 'reserve';
  a.n := f.n;
  a := repeated_hold(a, f.earlier, f.body_sha256, f.earlier_balance_nanos);
  if (f.earlier).status = 'released' and (f.earlier).outcome = 'canceled' then
    a.code := 'request_canceled';
  end if;
  v_row.answer := a;
  v_row.max_completion_tokens := (f.earlier).max_completion_tokens;
  v_row.own_keys := (f.earlier).own_keys;
  return v_row;
end $$;

-- Answers an item that holds: its reservation, and the balance that the hold leaves.
create function held_reserve(p_n integer, r reservations, p_balance_nanos bigint, p_warnings jsonb)
returns lane_row language sql immutable as $$
  select (('reserve', p_n, null, null, r.id, null, r.wallet_id, r.wallet_owner_type, r.currency, r.estimated_nanos,
    r.held_nanos, null, null, p_balance_nanos, null, r.expires_at, null)::lane_answer,
    r.max_completion_tokens, p_warnings, null, r.own_keys)::lane_row
$$;

-- Answers an item that no wallet covers: with the amounts that were asked for and its cost ticket;
-- or without one, naming the bound of open tickets that is met and when the first of them ends.
create function uncovered_reserve(p_n integer, p_currency text, p_estimated_nanos numeric,
  p_held_nanos numeric, p_cost_ticket jsonb)
returns lane_row language sql stable as $$
  select (('reserve', p_n, 'insufficient_balance', p_cost_ticket #>> '{exceeded,param}', null, null, null, null, p_currency,
    p_estimated_nanos, p_held_nanos, null, null, null, null, null,
    case when p_cost_ticket ? 'exceeded' then null else p_cost_ticket end)::lane_answer, null, null,
    (p_cost_ticket #>> '{exceeded,resets_at}')::timestamptz, null)::lane_row
$$;

-- Answers an item that is refused, and names the member of its body that is at fault. `p_resets_at`
-- ends the window of the cap that refused it.
create function refused_reserve(f reserve_fact, q quote, p_code text, p_resets_at timestamptz)
returns lane_row language sql immutable as $$
  select (('reserve', f.n, p_code,
    case p_code
      when 'unknown_org' then 'org_id'
      when 'not_of_organization' then f.unknown_member
      when 'not_team_member' then 'team_id'
      when 'amount_too_large' then 'estimated_prompt_tokens'
      else q.param end,
    null, null, null, null, null, null, null, null, null, null, null, null, null)::lane_answer,
    null, null, p_resets_at, null)::lane_row
$$;

-- One commit for what waits in one organization's lane: settlements first, they give money back;
-- then the calls that have waited for it; then new ones.
create function lane_3(p_org_id text, p_settlements jsonb, p_redeems jsonb, p_reserves jsonb)
returns setof lane_row language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
begin
  if jsonb_array_length(p_settlements) > 0 then
    return query select s::lane_answer, null::bigint, null::jsonb, null::timestamptz, null::jsonb
      from settle_3(p_org_id, p_settlements) as s;
  end if;
  if jsonb_array_length(p_redeems) > 0 then
    return query select * from redeem(p_org_id, p_redeems);
  end if;
  if jsonb_array_length(p_reserves) > 0 then
    return query select * from reserve_2(p_org_id, p_reserves);
  end if;
end $$;

-- One commit for what waits in one organization's lane: settlements first, they give money back;
-- then the calls that have waited for it; then new ones. What comes alone goes the short way, if it
-- is usual. `p_traces` is what is said of the calls, by the names that trace_of knows; the short
-- way tells nobody.
create function lane_4(p_org_id text, p_settlements jsonb, p_redeems jsonb, p_reserves jsonb,
  p_traces text)
returns setof item_answer language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_settlements integer := jsonb_array_length(p_settlements);
  v_redeems integer := jsonb_array_length(p_redeems);
  v_reserves integer := jsonb_array_length(p_reserves);
  a item_answer;
begin
  perform 1 from wallets w where w.org_id = p_org_id and w.owner_type = 'organization' for no key update;
  if v_settlements = 1 then
    a := settle_alone(p_org_id, p_settlements -> 0);
    if a.op is not null then
      return next a;
      v_settlements := 0;
    end if;
  end if;
  if v_settlements > 0 or v_redeems > 0 then
    perform set_config('svc.traces', p_traces, true);
    if v_settlements > 0 then
      return query select s.*, null::bigint, null::jsonb, null::timestamptz, null::jsonb
        from settle_3(p_org_id, p_settlements) as s;
    end if;
    if v_redeems > 0 then
      return query select (r.answer).*, r.max_completion_tokens, r.warnings, r.resets_at, r.own_keys
        from redeem(p_org_id, p_redeems) as r;
    end if;
  end if;
  if v_reserves = 1 then
    a := reserve_alone(p_org_id, p_reserves -> 0);
    if a.op is not null then
      return next a;
      return;
    end if;
  end if;
  if v_reserves > 0 then
    perform set_config('svc.traces', p_traces, true);
    return query select (r.answer).*, r.max_completion_tokens, r.warnings, r.resets_at, r.own_keys
      from reserve_2(p_org_id, p_reserves) as r;
  end if;
end $$;

-- Answers the items of a settle that close nothing: repeats, refusals, and cancellations of a
-- request_id that is unknown. Such a cancellation leaves a tombstone, so that this request_id never
-- holds, and no wait for money outlives it.
create function answer_unclosed(p_org_id text, p_items settlement[], p_now timestamptz)
returns setof lane_answer language plpgsql as $$
begin
  return query
    with tombstones as (
      insert into reservations (id, org_id, request_id, status, created_at, outcome)
      select new_id('res'), p_org_id, s.request_id, 'canceled', p_now, 'canceled'
      from unnest(p_items) as s where s.code = 'tombstone' returning *
    ), gone as (
      delete from ticket_waiters w using tombstones t where w.org_id = p_org_id and w.request_id = t.request_id
    )
    select a.* from unnest(p_items) as s
    join tombstones t on s.code = 'tombstone' and t.request_id = s.request_id
    cross join lateral settled_answer(s.n, t::reservations) as a;
  return query
    select a.* from unnest(p_items) as s cross join lateral settled_answer(s.n, s.reservation) as a
    where s.code = 'repeated';
  return query
    select 'settle', s.n, s.code,
      case s.code when 'price_not_frozen' then 'model' when 'provider_key_not_frozen' then 'provider_key_id' when 'not_found' then null
        else 'usage' end,
      (s.reservation).id, null::text, null::text, null::text, null::text, null::bigint, null::bigint, null::bigint,
      null::bigint, null::bigint, null::text, null::timestamptz, null::jsonb
    from unnest(p_items) as s where s.code not in ('tombstone', 'repeated');
end $$;

-- The own key in whose account a provider keeps what a request names; null: in that of the
-- platform.
create function key_of_keeper(p_org_id text, p_named jsonb, p_provider text)
returns text language sql stable as $$
  select s.provider_key_id from jsonb_to_recordset(p_named -> 'ids') as i (kind text, id text)
  join stored_ids s on s.org_id = p_org_id and s.kind = i.kind and s.id = i.id and s.provider = p_provider
  order by s.provider_key_id nulls last limit 1
$$;

-- What a usage costs at most. If the provider chooses the tier, it is the dearest one that is
-- priced; one that is asked for may not be the one that serves, so it is the dearer of it and the
-- ordinary one.
create function dearest_cost(p model_prices, u usage_counts)
returns numeric language plpgsql immutable as $$
declare
  v_nanos numeric := usage_cost(p, u);
  v_tier text;
begin
  if p.service_tiers is null or u.service_tier is null then
    return v_nanos;
  end if;
  if u.service_tier in ('auto', 'default') then
    for v_tier in select jsonb_object_keys(p.service_tiers) loop
      u.service_tier := v_tier;
      v_nanos := greatest(v_nanos, usage_cost(p, u));
    end loop;
    return v_nanos;
  end if;
  u.service_tier := null;
  return greatest(v_nanos, usage_cost(p, u));
end $$;

-- The price list's amounts as a call is charged by them: times the factor of the own key that
-- serves it, but for the fee per request; else times that of its organization. Null is no own key,
-- and 1.
create function charged_price(p model_prices, u usage_counts, p_key_factor numeric,
  p_org_factor numeric)
returns model_prices language plpgsql immutable as $$
begin
  if p_key_factor is not null then
    return price_by_key(p, u, p_key_factor);
  end if;
  if p_org_factor is null or p_org_factor = 1 then
    return p;
  end if;
  p := price_by_key(p, u, p_org_factor);
  p.per_request := p.per_request * p_org_factor;
  return p;
end $$;

-- The factor that charged_price has for whoever serves a reservation at a provider; null: the
-- prices are the list's.
create function charged_factor(r reservations, p_provider text)
returns numeric language sql immutable as $$
  select case when r.provider_key_id is null then r.price_factor
    else frozen_factor(r.own_keys, p_provider, r.provider_key_id) end
$$;

-- What a usage costs at most. If the provider chooses the tier, it is the dearest one that is
-- priced; one that is asked for may not be the one that serves, so it is the dearer of it and the
-- ordinary one.
create function dearest_charge(p model_prices, u usage_counts, p_key_factor numeric,
  p_org_factor numeric)
returns numeric language plpgsql immutable as $$
declare
  v_nanos numeric := usage_cost(charged_price(p, u, p_key_factor, p_org_factor), u);
  v_tier text;
begin
  if p.service_tiers is null or u.service_tier is null then
    return v_nanos;
  end if;
  if u.service_tier in ('auto', 'default') then
    for v_tier in select jsonb_object_keys(p.service_tiers) loop
      u.service_tier := v_tier;
      v_nanos := greatest(v_nanos, usage_cost(charged_price(p, u, p_key_factor, p_org_factor), u));
    end loop;
    return v_nanos;
  end if;
  u.service_tier := null;
  return greatest(v_nanos, usage_cost(charged_price(p, u, p_key_factor, p_org_factor), u));
end $$;

-- Prices a reserve: what it costs at most by today's prices, the dearest of the model and its
-- fallbacks, each price frozen. A tier or region that none of them prices is refused; one that some
-- do not price is charged at their base. Where the organization has an own key, its factor counts
-- in the place of the platform's price, or beside it if that key may serve too.
create function quote_reserve_3(p_org organizations, i reserve_item)
returns quote language plpgsql stable as $$
declare
  v_quote quote;
  v_candidate record;
  v_price model_prices;
  v_usage usage_counts;
  v_key provider_keys;
  v_knows_tier boolean := false;
  v_knows_region boolean := false;
begin
  v_quote.price_factor := nullif(p_org.price_factor, 1);
  for v_candidate in
    select i.provider as provider, i.model as model, 0 as n
    union all
    select f.value ->> 'provider', f.value ->> 'model', f.n::integer
    from jsonb_array_elements(i.fallbacks) with ordinality as f (value, n)
    order by n
  loop
    v_price := price_for(v_candidate.provider, v_candidate.model);
    if v_price.version_id is null then
      v_quote.code := 'model_not_priced';
      v_quote.param := case v_candidate.n when 0 then 'model' else 'fallbacks' end;
      return v_quote;
    end if;
    v_knows_tier := v_knows_tier or knows_tier(v_price, i.service_tier);
    v_knows_region := v_knows_region or knows_region(v_price, i.region);
    v_usage := expected_usage(i, v_price, p_org.default_max_completion_tokens);
    v_key := case when i.own_keys then own_key_at(p_org.id, v_candidate.provider) end;
    if v_key.id is not null then
      v_quote.usd_nanos := greatest(v_quote.usd_nanos, dearest_charge(v_price, v_usage, v_key.price_factor, null));
      if not coalesce(v_quote.own_keys, '[]') @> jsonb_build_array(jsonb_build_object('provider_key_id', v_key.id)) then
        v_quote.own_keys := coalesce(v_quote.own_keys, '[]') || jsonb_build_object('provider', v_key.provider,
          'provider_key_id', v_key.id, 'version', v_key.version, 'price_factor', trim_scale(v_key.price_factor)::text,
          'own_keys', v_key.own_keys);
      end if;
    end if;
    if v_key.id is null or v_key.own_keys = 'first' then
      v_quote.usd_nanos := greatest(v_quote.usd_nanos, dearest_charge(v_price, v_usage, null, p_org.price_factor));
    end if;
    if v_candidate.n = 0 then
      v_quote.price_version_id := v_price.version_id;
    else
      v_quote.fallbacks := coalesce(v_quote.fallbacks, '[]') || jsonb_build_object('provider', v_candidate.provider,
        'model', v_candidate.model, 'price_version_id', v_price.version_id);
    end if;
  end loop;
  if not v_knows_tier then
    v_quote.code := 'service_tier_not_priced';
    v_quote.param := 'service_tier';
  elsif not v_knows_region then
    v_quote.code := 'region_not_priced';
    v_quote.param := 'region';
  end if;
  return v_quote;
end $$;

-- The hold of a reserve before its wallet is known.
create function new_hold(i reserve_item, p_org organizations, q quote, p_now timestamptz)
returns reservations language plpgsql as $$
declare
  r reservations;
begin
  r.id := new_id('res');
  r.org_id := p_org.id;
  r.status := 'open';
  r.request_id := i.request_id;
  r.request_body_hash := i.request_body_hash;
  r.key_id := i.key_id;
  r.user_id := i.user_id;
  r.team_id := i.team_id;
  r.agent_id := i.agent_id;
  r.session_id := i.session_id;
  r.family := i.family;
  r.tags := i.tags;
  r.provider := i.provider;
  r.model := i.model;
  r.price_version_id := q.price_version_id;
  r.fallbacks := q.fallbacks;
  r.own_keys := q.own_keys;
  r.price_factor := q.price_factor;
  r.currency := p_org.currency;
  r.life_seconds := p_org.reservation_ttl_seconds;
  r.created_at := p_now;
  r.expires_at := p_now + p_org.reservation_ttl_seconds * interval '1 second';
  return r;
end $$;

create function judge_settlements_3(p_org_id text, p_items jsonb)
returns settlement[] language sql stable as $$
  select array_agg((e.n::integer,
    case
      when r.id is null and i.outcome = 'canceled' and i.request_id is not null
        and exists (select 1 from organizations o where o.id = p_org_id) then 'tombstone'
      when r.id is null then 'not_found'
      when r.status not in ('open', 'expired') then 'repeated'
      when p.version_id is null then 'price_not_frozen'
      when i.provider_key_id is not null and own.factor is null then 'provider_key_not_frozen'
      when i.outcome = 'completed' and told.usd_nanos = 0 and not (p.price).free and coalesce(own.factor, r.price_factor) is distinct from 0
        then 'usage_not_priced'
      when cost.nanos > 9000000000000000000
        or w.balance_nanos + case r.status when 'open' then r.held_nanos else 0 end - cost.nanos < -9000000000000000000
        then 'amount_too_large'
    end,
    r.reservation, i.request_id,
    case
      when r.status = 'expired' then 'late'
      when i.outcome <> 'completed' and cost.nanos = 0 then 'released'
      else 'settled'
    end,
    cost.nanos, chosen.provider, chosen.model, i.outcome, i.usage, i.usage_source, told.nanos - cost.nanos,
    p.version_id is not null and not (knows_tier(p.price, i.usage ->> 'service_tier')
      and knows_region(p.price, i.usage ->> 'region')), i.provider_key_id,
    i.provider_cost_usd)::settlement order by e.n)
  from jsonb_array_elements(p_items) with ordinality as e (value, n)
  cross join lateral jsonb_populate_record(null::settle_item, e.value) as i
  left join lateral (select q.id from reservations q where q.org_id = p_org_id and q.request_id = i.request_id limit 1)
    as named on i.reservation_id is null
  left join lateral (select q as reservation, q.* from reservations q where q.id = coalesce(i.reservation_id, named.id) limit 1)
    as r on r.org_id = p_org_id
  left join lateral (select q.balance_nanos from wallets q where q.id = r.wallet_id limit 1) as w on true
  cross join lateral (select coalesce(i.provider, r.provider) as provider, coalesce(i.model, r.model) as model) as chosen
  left join lateral (select v as price, v.version_id from model_prices v where v.version_id = case
      when chosen.provider = r.provider and chosen.model = r.model then r.price_version_id
      else (select f ->> 'price_version_id' from jsonb_array_elements(r.fallbacks) as f
        where f ->> 'provider' = chosen.provider and f ->> 'model' = chosen.model limit 1) end limit 1) as p on true
  left join lateral (select frozen_factor(r.own_keys, chosen.provider, i.provider_key_id) as factor offset 0) as own
    on i.provider_key_id is not null
  cross join lateral (select case
    -- What failed or was canceled before any use costs nothing, not even the price per request.
    when i.outcome <> 'completed' and not has_use(i.usage) then 0
    else usage_cost(
      charged_price(p.price, jsonb_populate_record(null::usage_counts, i.usage), own.factor, r.price_factor),
      jsonb_populate_record(null::usage_counts, i.usage)) end as usd_nanos offset 0) as usd
  cross join lateral (select usd.usd_nanos, round(usd.usd_nanos * r.exchange_rate) as nanos offset 0) as told
  cross join lateral (select least(told.nanos, settlement_bound(r.reservation)) as nanos offset 0) as cost
$$;

-- Moves open holds to now + their life, at most 24 h after the reserve, or after its call took what
-- an approval held for it. Invariant: no money moves.
create function extend(p_org_id text, p_reservation_ids text[])
returns table(reservation_id text, status text, expires_at timestamptz) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz;
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  update reservations r
  set expires_at = greatest(r.expires_at,
    least(greatest(r.created_at, (select t.resolved_at from cost_tickets t
        where t.id = r.cost_ticket_id and t.reservation_id = r.id and t.status = 'redeemed')) + interval '24 hours',
      v_now + r.life_seconds * interval '1 second'))
  where r.org_id = p_org_id and r.status = 'open' and r.id = any (p_reservation_ids);
  return query
    select i.id, case when r.id is null or r.status = 'canceled' then 'unknown' when r.status = 'open' then 'extended'
      when r.status in ('expired', 'late') then 'expired' else 'settled' end, r.expires_at
    from unnest(p_reservation_ids) with ordinality as i (id, n)
    left join reservations r on r.id = i.id and r.org_id = p_org_id
    order by i.n;
end $$;

-- Makes the hold that a wallet pays for, at the frozen prices of the quote.
create function paid_hold(f reserve_fact, p_org organizations, q quote, p_rate numeric,
  p_held_nanos numeric, w cascade_wallet, p_now timestamptz)
returns reservations language plpgsql as $$
declare
  r reservations := new_hold(f.body, p_org, q, p_now);
begin
  r.body_sha256 := f.body_sha256;
  r.wallet_id := w.id;
  r.wallet_owner_type := w.owner_type;
  r.exchange_rate := p_rate;
  r.estimated_nanos := ceil(q.usd_nanos * p_rate);
  r.held_nanos := p_held_nanos;
  r.cost_ticket_id := f.cost_ticket_id;
  r.max_completion_tokens := coalesce((f.body).max_completion_tokens,
    completion_cap(q, p_org.default_max_completion_tokens) * coalesce((f.body).choices, 1));
  return r;
end $$;

-- Chooses the one wallet that pays for a hold: the first of user, team and organization that covers
-- it; null if none does. A hold of null is of a call that costs nothing: if no wallet covers zero,
-- the first that there is pays.
create function paying_wallet(f reserve_fact, p_held_nanos numeric, p_left jsonb)
returns cascade_wallet language sql immutable as $$
  select case
    when wallet_covers(f.user_wallet, f.forced_wallet_id, coalesce(p_held_nanos, 0), p_left) then f.user_wallet
    when wallet_covers(f.team_wallet, f.forced_wallet_id, coalesce(p_held_nanos, 0), p_left) then f.team_wallet
    when wallet_covers(f.org_wallet, f.forced_wallet_id, coalesce(p_held_nanos, 0), p_left) then f.org_wallet
    when p_held_nanos is not null then null
    when (f.user_wallet).id = coalesce(f.forced_wallet_id, (f.user_wallet).id) then f.user_wallet
    when (f.team_wallet).id = coalesce(f.forced_wallet_id, (f.team_wallet).id) then f.team_wallet
    when (f.org_wallet).id = coalesce(f.forced_wallet_id, (f.org_wallet).id) then f.org_wallet end
$$;

-- Holds the estimated cost of requests, in the given order. Invariant: one wallet pays for a hold,
-- the first of user, team and organization whose balance covers it; the sum of holds never exceeds
-- the money that was available; a request_id holds once; no cap on an agent is passed, and no
-- budget. Every decision is made on balances read under the lock, and all are written together at
-- the end. If an item has a `wallet_id`, that wallet alone may pay (none may if it is empty); a
-- `cost_ticket_id` is kept on the hold. Any other item leaves alone what is kept for calls that
-- wait. A call that costs nothing whatever it uses needs no money, and exceeds nothing.
create function reserve_2(p_org_id text, p_items jsonb)
returns setof lane_row language plpgsql as $$
declare
  v_org organizations;
  v_now timestamptz;
  v_rate numeric;
  f reserve_fact;
  q quote;
  w cascade_wallet;
  r reservations;
  v_held numeric;
  -- The same, but null if the call costs nothing whatever it uses: that needs no money and no room.
  v_need numeric;
  v_body reserve_item;
  v_room bigint;
  v_code text;
  v_caps cap_verdict;
  v_row lane_row;
  -- Balances of wallets, room of keys and counts of constraints as this batch leaves them, by id.
  v_left jsonb := '{}';
  v_made reservations[] := '{}';
  v_is_trimmed boolean := false;
  v_has_budgets boolean;
  v_has_rules boolean;
  v_budgets budget_verdict;
  -- The caller of the last item, and what may be held for it before a budget has something to say.
  v_caller text[];
  v_is_budgeted boolean;
  v_quiet_nanos numeric;
  v_taken_nanos numeric := 0;
  v_uncovered lane_row[] := '{}';
  v_unpaid reserve_item[] := '{}';
begin
  v_org := lock_organization(p_org_id);
  v_now := clock_timestamp();
  -- Overdue holds are given back before anything is refused for want of them.
  if exists (select 1 from reservations o where o.org_id = p_org_id and o.status = 'open' and o.expires_at <= v_now) then
    perform expire_holds(p_org_id);
  end if;
  v_rate := rate_of(v_org.currency);
  v_has_budgets := exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null);
  v_has_rules := exists (select 1 from approval_rules x where x.org_id = p_org_id and x.archived_at is null);

  for f in select * from reserve_facts(p_org_id, p_items, v_now) loop
    if (f.earlier).id is not null then
      return next repeated_reserve(f);
      continue;
    end if;

    q := quote_reserve_3(v_org, f.body);
    v_held := amount_to_hold(q.usd_nanos, v_rate, v_org.reserve_buffer_pct);
    v_room := coalesce((v_left ->> (f.body).key_id)::bigint, f.key_room_nanos);
    v_need := v_held;
    if v_held = 0 and costs_nothing(v_org, f.body) then
      v_need := null;
      v_body := f.body;
      v_body.session_max_cost_usd := null;
      f.body := v_body;
    end if;
    v_code := reserve_refusal(v_org, f, q, v_rate, v_held, case when v_need is not null then v_room end, v_made);
    v_caps := null;
    if v_code is null and f.has_caps then
      v_caps := judge_caps(f.body, v_need, v_now, v_left);
      v_code := case when v_caps.refused_id is not null then 'usage_constraint_exceeded' end;
    end if;
    v_budgets := null;
    if v_code is null and v_has_budgets then
      if v_caller is distinct from array[(f.body).key_id, (f.body).user_id, (f.body).team_id] then
        v_caller := array[(f.body).key_id, (f.body).user_id, (f.body).team_id];
        select * into v_is_budgeted, v_quiet_nanos from quiet_room(p_org_id, v_caller, v_now);
      end if;
      -- Nothing happens to a budget that has room for all of this batch and the item.
      if v_is_budgeted and v_taken_nanos + v_held >= v_quiet_nanos then
        v_budgets := judge_budgets(p_org_id, f.body, v_need, v_now, v_made);
        v_code := v_budgets.code;
      end if;
    end if;
    if v_code is not null then
      v_row := refused_reserve(f, q, v_code, v_caps.resets_at);
      if v_budgets.refused is not null then
        v_row.warnings := jsonb_build_array(v_budgets.refused || jsonb_build_object('currency', v_org.currency));
      end if;
      if v_caps.refused is not null then
        v_row.warnings := jsonb_build_array(v_caps.refused || jsonb_build_object('currency', v_org.currency));
      end if;
      return next v_row;
      continue;
    end if;

    w := case when v_budgets.is_short then null else paying_wallet(f, v_need, v_left) end;
    -- Nothing is refused for the sake of calls that have gone.
    if w.id is null and not coalesce(v_budgets.is_short, false) and f.forced_wallet_id is null
        and greatest((f.user_wallet).kept_nanos, (f.team_wallet).kept_nanos, (f.org_wallet).kept_nanos) > 0 then
      if not v_is_trimmed then
        perform trim_kept(p_org_id);
        v_is_trimmed := true;
      end if;
      f.user_wallet := with_kept(f.user_wallet);
      f.team_wallet := with_kept(f.team_wallet);
      f.org_wallet := with_kept(f.org_wallet);
      w := paying_wallet(f, v_need, v_left);
    end if;
    if w.id is null then
      v_row := uncovered_reserve(f.n, v_org.currency, ceil(q.usd_nanos * v_rate), v_held,
        open_ticket_2(v_org, f.body, v_held::bigint, case when f.forced_wallet_id is null then free_balances(f, v_left) else v_left end
          || coalesce(v_budgets.used, '{}')));
      if v_has_rules and f.forced_wallet_id is null and (v_row.answer).cost_ticket is not null then
        v_uncovered := array_append(v_uncovered, v_row);
        v_unpaid := array_append(v_unpaid, f.body);
      else
        return next v_row;
      end if;
      continue;
    end if;

    if f.forced_wallet_id is not null and w.kept_nanos > 0 then
      -- What lies beside the kept money pays for a younger call; the kept money stays the older's.
      update wallets x set kept_nanos = greatest(x.kept_nanos - v_held, 0) where x.id = w.id
        and coalesce((v_left ->> w.id)::bigint, w.balance_nanos) - x.kept_nanos < v_held;
    end if;
    w.balance_nanos := coalesce((v_left ->> w.id)::bigint, w.balance_nanos) - v_held;
    v_left := v_left || jsonb_build_object(w.id, w.balance_nanos::text);
    if v_room is not null then
      v_left := v_left || jsonb_build_object((f.body).key_id, (v_room - v_held)::text);
    end if;
    if f.has_caps then
      v_left := v_left || v_caps.left_after;
    end if;
    r := paid_hold(f, v_org, q, v_rate, v_held, w, v_now);
    if v_has_budgets and v_is_budgeted then
      r.is_budgeted := true;
    end if;
    v_taken_nanos := v_taken_nanos + v_held;
    v_made := array_append(v_made, r);
    return next held_reserve(f.n, r, w.balance_nanos, nullif(coalesce(v_caps.warnings, '[]') || coalesce(v_budgets.warnings, '[]'), '[]'));
  end loop;
  if cardinality(v_made) > 0 then
    perform write_holds(v_org, v_made, hold_entries(v_made), v_now);
  end if;
  -- Once the others are written: a rule that approves a ticket holds for its call.
  for n in 1 .. cardinality(v_uncovered) loop
    return next ruled_reserve(v_org, v_uncovered[n], v_unpaid[n]);
  end loop;
end $$;

-- Calls that wait for money wait for what they cost by an organization's new factor, buffer or
-- default, and are looked at again.
create function reprice_waiters() returns trigger language plpgsql as $$
begin
  perform reprice_waiters_of(new);
  perform notify_waiters(new.id);
  return null;
end $$;

create trigger organizations_reprice after update of price_factor, reserve_buffer_pct,
  default_max_completion_tokens on organizations
for each row when (new.price_factor is distinct from old.price_factor or new.reserve_buffer_pct is
  distinct from old.reserve_buffer_pct or new.default_max_completion_tokens is distinct from
  old.default_max_completion_tokens)
execute function reprice_waiters();

-- Decides about an excess, once: charges it to the wallet of its reservation, or drops it. Says why
-- it did nothing; null if it did. Invariant: the reservation costs what its entries say, and its
-- key and caps count it.
create function decide_excess(p_id text, p_action text, p_note text, p_by text)
returns text language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  x settlement_excess;
  r reservations;
  v_entry wallet_transactions;
begin
  select * into x from settlement_excess q where q.id = p_id;
  if x.id is null then
    return 'not_found';
  end if;
  perform lock_organization(x.org_id);
  select * into x from settlement_excess q where q.id = p_id;
  if x.status <> 'open' then
    return 'already_decided';
  end if;
  if p_action = 'charge' then
    select * into r from reservations q where q.id = x.reservation_id;
    if r.actual_cost_nanos::numeric + x.excess_nanos > 9000000000000000000 or exists (select 1 from wallets w
        where w.id = x.wallet_id and w.balance_nanos::numeric - x.excess_nanos < -9000000000000000000) then
      return 'amount_too_large';
    end if;
    select * into v_entry from post_entries(x.org_id, array[(x.wallet_id, 'settlement', -x.excess_nanos, 0, r.id, 'excess',
      r.settled_provider, r.settled_model, x.excess_nanos, null, null,
      coalesce(p_note, 'charged beyond the bound'))::ledger_entry]);
    update tokens t set spent_nanos = add_spent(t.spent_nanos, x.excess_nanos) where t.id = r.key_id;
    -- The status is set to itself, so that caps count the new cost.
    update reservations q set status = q.status, actual_cost_nanos = q.actual_cost_nanos + x.excess_nanos where q.id = r.id;
  end if;
  update settlement_excess q
  set status = case p_action when 'charge' then 'charged' else 'dropped' end, decided_at = clock_timestamp(),
    decided_by = p_by, note = p_note, transaction_id = v_entry.id
  where q.id = x.id;
  return null;
end $$;

-- The entries of a settle have one more column, which the zipped rows name.
create function settle_3(p_org_id text, p_items jsonb)
returns setof lane_answer language plpgsql as $$
declare
  v_now timestamptz;
  v_items settlement[];
  v_closing settlement[];
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  v_items := judge_settlements_3(p_org_id, p_items);
  v_closing := array(select s from unnest(v_items) as s where s.code is null);
  if cardinality(v_closing) < cardinality(v_items) then
    return query select * from answer_unclosed(p_org_id, v_items, v_now);
  end if;
  if cardinality(v_closing) = 0 then
    return;
  end if;

  update tokens t set held_nanos = t.held_nanos - d.held_nanos, spent_nanos = add_spent(t.spent_nanos, d.cost_nanos)
  from (select (s.reservation).key_id, sum(s.cost_nanos) as cost_nanos,
      coalesce(sum((s.reservation).held_nanos) filter (where s.status <> 'late'), 0) as held_nanos
    from unnest(v_closing) as s group by 1) as d
  where t.id = d.key_id;
  update reservations r
  set status = s.status, closed_at = v_now, actual_cost_nanos = s.cost_nanos, outcome = s.outcome, usage = s.usage,
    usage_source = s.usage_source, settled_provider = s.provider, settled_model = s.model,
    provider_key_id = s.provider_key_id, provider_cost_usd = s.provider_cost_usd
  from unnest(v_closing) as s where r.id = (s.reservation).id;
  if exists (select 1 from unnest(v_closing) as s where (s.reservation).is_budgeted or s.status = 'late') then
    perform count_closings(p_org_id, v_closing);
  end if;
  if exists (select 1 from unnest(v_closing) as s where s.excess_nanos > 0 or s.is_unpriced) then
    perform note_settlements(p_org_id, v_closing, v_now);
  end if;
  -- Entries come back in the order they were given, so the two lists are zipped, not joined.
  return query
    select 'settle', z.n, null::text, null::text, (z.reservation).id, z.status, (z.reservation).wallet_id,
      (z.reservation).wallet_owner_type, (z.reservation).currency, (z.reservation).estimated_nanos,
      (z.reservation).held_nanos, z.cost_nanos::bigint,
      case z.status when 'late' then 0 else greatest((z.reservation).held_nanos - z.cost_nanos, 0)::bigint end,
      z.balance_after_nanos, z.entry_id, (z.reservation).expires_at, null::jsonb
    from rows from (post_entries(p_org_id, closing_entries(v_closing)), unnest(v_closing)) as z (entry_id, wallet_id, org_id,
      seq, type, amount_nanos, balance_after_nanos, provider, model, reservation_id, phase, actual_cost_nanos, transfer_id,
      payment_session_id, description, created_at, actor, n, code, reservation, request_id, status, cost_nanos, chosen_provider,
      chosen_model, outcome, usage, usage_source);
end $$;

-- Settles one item likewise: settle_3 would close an open hold with it, at the model that was held
-- for, within its bound, and tell nobody. Null, and nothing is written, if that is not sure.
create function settle_alone(p_org_id text, p_item jsonb)
returns item_answer language plpgsql as $$
declare
  v_usage jsonb := p_item -> 'usage';
  v_now timestamptz := clock_timestamp();
  f record;
  v_cost_nanos bigint;
  v_entry_id text;
begin
  -- Tokens alone count, and of those no kind that has a price of its own.
  if (case when p_item ->> 'outcome' = 'completed' and jsonb_typeof(v_usage) = 'object'
      then jsonb_path_exists(v_usage - '{prompt_tokens,completion_tokens,reasoning_tokens}'::text[], '$.* ? (@ > 0)')
      else true end) then
    return null;
  end if;
  select r.id, r.key_id, r.wallet_id, r.wallet_owner_type, r.currency, r.estimated_nanos, r.held_nanos, r.expires_at, r.provider,
    r.model, r.is_budgeted, r.user_id, r.team_id, r.created_at, w.seq, w.balance_nanos, w.reserved_nanos, coalesce(w.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
      as threshold_nanos, p.free, settlement_bound(r) as bound_nanos,
    round(token_cost(p, (v_usage ->> 'prompt_tokens')::numeric, (v_usage ->> 'completion_tokens')::numeric)
      * coalesce(r.price_factor, 1) * r.exchange_rate) as cost_nanos,
    r.org_id = p_org_id and r.status = 'open' and r.cost_ticket_id is null
      and r.own_keys is null and p_item ->> 'provider_key_id' is null
      and coalesce(p_item ->> 'provider', r.provider) = r.provider and coalesce(p_item ->> 'model', r.model) = r.model
      and is_flat(p) and knows_tier(p, v_usage ->> 'service_tier') and knows_region(p, v_usage ->> 'region') as is_usual
  into f
  from reservations r
  cross join lateral (select * from wallets q where q.id = r.wallet_id limit 1) as w
  cross join lateral (select * from model_prices q where q.version_id = r.price_version_id limit 1) as p
  join organizations o on o.id = p_org_id
  where r.id = p_item ->> 'reservation_id';

  if not coalesce(f.is_usual and f.cost_nanos <= least(f.bound_nanos, 9000000000000000000), false)
      or (f.cost_nanos = 0 and not f.free)
      -- A budget may reach a threshold.
      or (f.is_budgeted and f.cost_nanos > f.held_nanos)
      or f.balance_nanos::numeric + f.held_nanos - f.cost_nanos < -9000000000000000000
      or (f.balance_nanos + f.reserved_nanos >= f.threshold_nanos
        and f.balance_nanos + f.reserved_nanos - f.cost_nanos < f.threshold_nanos) then
    return null;
  end if;
  v_cost_nanos := f.cost_nanos;
  v_entry_id := new_id('txn');
  if f.key_id is not null then
    update tokens k set held_nanos = k.held_nanos - f.held_nanos, spent_nanos = add_spent(k.spent_nanos, v_cost_nanos) where k.id = f.key_id;
  end if;
  update reservations r set status = 'settled', closed_at = v_now, actual_cost_nanos = v_cost_nanos, outcome = 'completed',
    usage = v_usage, usage_source = p_item ->> 'usage_source', settled_provider = r.provider, settled_model = r.model,
    provider_cost_usd = (p_item ->> 'provider_cost_usd')::numeric
  where r.id = f.id;
  if f.is_budgeted then
    perform count_in_budgets(p_org_id, (f.id, f.key_id, f.user_id, f.team_id, f.created_at, -f.held_nanos, v_cost_nanos)::budget_move);
  end if;
  insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
    reservation_id, phase, actual_cost_nanos, created_at)
  values (v_entry_id, f.wallet_id, p_org_id, f.seq + 1, 'settlement', f.held_nanos - v_cost_nanos,
    f.balance_nanos + f.held_nanos - v_cost_nanos, f.provider, f.model, f.id, 'close', v_cost_nanos, v_now);
  update wallets w set balance_nanos = w.balance_nanos + f.held_nanos - v_cost_nanos,
    reserved_nanos = w.reserved_nanos - f.held_nanos, seq = w.seq + 1
  where w.id = f.wallet_id;
  return ('settle', 1, null, null, f.id, 'settled', f.wallet_id, f.wallet_owner_type, f.currency, f.estimated_nanos, f.held_nanos,
    v_cost_nanos, greatest(f.held_nanos - v_cost_nanos, 0), f.balance_nanos + f.held_nanos - v_cost_nanos, v_entry_id,
    f.expires_at, null, null, null, null, null)::item_answer;
end $$;

-- Reads for each item, in order, what the tables know about it.
create function reserve_facts(p_org_id text, p_items jsonb, p_now timestamptz)
returns setof reserve_fact language sql stable as $$
  select e.n::integer, i::reserve_item, r.earlier, h.balance_after_nanos,
    -- jsonb has one text for one content, whatever the order of its keys.
    encode(sha256(convert_to(jsonb_strip_nulls(e.value - '{request_id,secret_id,wallet_id,cost_ticket_id}'::text[])::text,
      'utf8')), 'hex'),
    e.value ->> 'wallet_id', e.value ->> 'cost_ticket_id',
    case
      when i.user_id is not null and m.user_id is null then 'user_id'
      when i.team_id is not null and t.id is null then 'team_id'
      when i.agent_id is not null and g.id is null then 'agent_id'
      when i.key_id is not null and k.id is null then 'key_id' end,
    k.revoked_at <= p_now or k.expires_at <= p_now or s.expires_at <= p_now or (i.secret_id is not null and s.id is null),
    case when k.max_budget_nanos is not null then greatest(k.max_budget_nanos::numeric - k.spent_nanos - k.held_nanos, -1) end::bigint,
    i.agent_id is not null and exists (select 1 from usage_constraints q where q.agent_id = i.agent_id
      and q.archived_at is null),
    (uw.id, 'user', uw.balance_nanos, uw.kept_nanos)::cascade_wallet,
    (tw.id, 'team', tw.balance_nanos, tw.kept_nanos)::cascade_wallet,
    (ow.id, 'organization', ow.balance_nanos, ow.kept_nanos)::cascade_wallet,
    i.user_id is not null and i.team_id is not null and tm.user_id is null
  from jsonb_array_elements(p_items) with ordinality as e (value, n)
  cross join lateral jsonb_populate_record(null::reserve_item, e.value) as i
  left join lateral (select q as earlier, q.id from reservations q where q.org_id = p_org_id
    and q.request_id = i.request_id limit 1) as r on true
  left join lateral (select * from wallet_transactions q where q.reservation_id = r.id and q.phase = 'hold' limit 1) as h on true
  left join lateral (select * from memberships q where q.org_id = p_org_id and q.user_id = i.user_id limit 1)
    as m on m.archived_at is null
  left join lateral (select * from teams q where q.id = i.team_id limit 1) as t on t.org_id = p_org_id and t.archived_at is null
  left join lateral (select q.user_id from team_members q where q.team_id = i.team_id and q.user_id = i.user_id limit 1)
    as tm on true
  left join lateral (select * from agents q where q.id = i.agent_id limit 1) as g on g.org_id = p_org_id and g.archived_at is null
  left join lateral (select * from tokens q where q.id = i.key_id limit 1) as k on k.org_id = p_org_id
  left join lateral (select * from token_secrets q where q.id = i.secret_id limit 1) as s on s.token_id = k.id
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'user'
    and q.owner_user_id = i.user_id limit 1) as uw on true
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'team'
    and q.owner_team_id = i.team_id limit 1) as tw on true
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'organization' limit 1) as ow on true
  order by e.n
$$;

-- True if a wallet pays an amount; `p_left` holds balances that the batch has changed already. Only
-- a call whose turn it is names the wallet, and takes what is kept.
create function wallet_covers(w cascade_wallet, p_forced_wallet_id text, p_held_nanos numeric,
  p_left jsonb)
returns boolean language sql immutable as $$
  select case
    when p_forced_wallet_id is null
      then coalesce((p_left ->> w.id)::numeric, w.balance_nanos) - coalesce(w.kept_nanos, 0) >= p_held_nanos
    else p_forced_wallet_id = w.id and coalesce((p_left ->> w.id)::numeric, w.balance_nanos) >= p_held_nanos end
$$;

-- The call whose entry took a wallet below its threshold, as members of an event; none if a
-- person's did. `p_before_nanos` is balance + reserved ahead of the entries.
create function lowering_call(p_entries ledger_entry[], p_wallet_id text, p_before_nanos bigint,
  p_threshold_nanos bigint)
returns jsonb language sql stable as $$
  select coalesce((
    select jsonb_build_object('reservation_id', r.id, 'request_id', asking_request(r), 'agent_id', r.agent_id) || caller_of_hold(r)
    from (
      select e.reservation_id, e.phase, e.n, sum(e.amount_nanos + e.reserved_nanos) over (order by e.n) as moved_nanos
      from unnest(p_entries) with ordinality as e (wallet_id, type, amount_nanos, reserved_nanos, reservation_id, phase,
        provider, model, actual_cost_nanos, transfer_id, payment_session_id, description, n)
      where e.wallet_id = p_wallet_id
    ) as c
    join reservations r on r.id = c.reservation_id and c.phase in ('close', 'late')
    where p_before_nanos + c.moved_nanos < p_threshold_nanos
    order by c.n limit 1
  ), '{}')
$$;

-- Expires every overdue hold of an organization, each once: a settlement of +held with cost 0, its
-- budgets' room back, and an event that says whether a call had the hold and its end was never
-- told; what an approval held for a call that never came is not that.
create function expire_holds(p_org_id text) returns integer language plpgsql as $$
declare
  v_now timestamptz;
  v_expired reservations[];
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  with expired as (
    update reservations r set status = 'expired', closed_at = v_now, actual_cost_nanos = 0
    where r.org_id = p_org_id and r.status = 'open' and r.expires_at <= v_now
    returning r.*
  )
  select array_agg(e::reservations order by e.expires_at, e.id) into v_expired from expired e;
  if v_expired is null then
    return 0;
  end if;
  perform from post_entries(p_org_id, (
    select array_agg((e.wallet_id, 'settlement', e.held_nanos, -e.held_nanos, e.id, 'close', e.provider, e.model, 0,
      null, null, 'hold expired')::ledger_entry order by e.expires_at, e.id)
    from unnest(v_expired) as e));
  update tokens t set held_nanos = t.held_nanos - d.held_nanos
  from (select e.key_id, sum(e.held_nanos) as held_nanos from unnest(v_expired) as e group by e.key_id) as d
  where t.id = d.key_id;
  if exists (select 1 from unnest(v_expired) as e where e.is_budgeted) then
    perform count_moves(p_org_id, (select array_agg((e.id, e.key_id, e.user_id, e.team_id, e.created_at, -e.held_nanos, 0)::budget_move)
      from unnest(v_expired) as e where e.is_budgeted));
  end if;
  perform append_event(p_org_id, 'reservation.expired', jsonb_build_object('reservation_id', e.id,
      'request_id', asking_request(e), 'agent_id', e.agent_id, 'wallet_id', e.wallet_id, 'held_nanos', e.held_nanos::text,
      'currency', e.currency, 'unsettled', not exists (select 1 from cost_tickets t where t.id = e.cost_ticket_id
        and t.request_id is distinct from e.request_id))
    || caller_of_hold(e))
  from unnest(v_expired) as e;
  return cardinality(v_expired);
end $$;

-- Judges the caps on an agent for one more hold. A hold of null is of a call that costs nothing,
-- which exceeds no cap on cost.
create function judge_caps(i reserve_item, p_held_nanos numeric, p_now timestamptz, p_left jsonb)
returns cap_verdict language plpgsql stable as $$
declare
  v cap_verdict;
  c record;
  v_unit numeric;
  v_needed numeric;
  v_after numeric;
  v_told jsonb;
begin
  v.left_after := '{}';
  for c in
    select distinct on (a.id) a.*
    from (select i.provider as provider, i.model as model
      union all select f ->> 'provider', f ->> 'model' from jsonb_array_elements(i.fallbacks) as f) as m
    cross join lateral constraints_at(i.agent_id, m.provider, m.model, p_now) as a
    order by a.id
  loop
    v_unit := case c.constraint_type when 'cost' then 1000000000 else 1 end;
    v_needed := case c.constraint_type when 'cost' then coalesce(p_held_nanos, 0) else 1 end;
    v_after := coalesce((p_left ->> c.id)::numeric, case c.constraint_type when 'cost' then c.cost_nanos else c.responses end)
      + v_needed;
    if v_after > c.max_value * v_unit then
      v_after := v_after - own_increments(i.request_id, c.id, p_now);
    end if;
    v.left_after := v.left_after || jsonb_build_object(c.id, v_after);
    continue when v_after <= c.max_value * v_unit or (c.constraint_type = 'cost' and p_held_nanos is null);
    v_told := jsonb_build_object('id', c.id, 'constraint_type', c.constraint_type, 'interval', c.interval,
      'max_value', c.max_value, 'resets_at', iso_time(c.resets_at));
    if c.enforcement_mode <> 'reject' then
      v.warnings := coalesce(v.warnings, '[]') || v_told;
    elsif v.refused_id is null or c.resets_at > v.resets_at then
      -- The window that ends last says when a repeat may pass.
      v.refused_id := c.id;
      v.resets_at := c.resets_at;
      v.refused := v_told || jsonb_build_object('current_value', trim_scale((v_after - v_needed) / v_unit),
        'needed', trim_scale(v_needed / v_unit));
    end if;
  end loop;
  return v;
end $$;

-- The usage that a reserve holds for at a price. Without a cap each choice is as long as the price
-- and the organization allow. Pictures stand in the completion, as those of a usage do. Where sound
-- is cheaper than text it may be text after all. All other input may be written to a cache that is
-- marked, where that costs more.
create function expected_usage(i reserve_item, p model_prices, p_default_max_completion integer)
returns usage_counts language plpgsql immutable as $$
declare
  u usage_counts;
begin
  u.prompt_tokens := i.estimated_prompt_tokens;
  u.completion_tokens := coalesce(i.max_completion_tokens,
      least(p.max_output_tokens, p_default_max_completion) * coalesce(i.choices, 1))
    + coalesce(i.image_output_tokens, 0);
  u.image_output_tokens := i.image_output_tokens;
  if i.audio_input_tokens > 0 and p.audio_input_per_1m > p.input_per_1m then
    u.audio_input_tokens := least(i.audio_input_tokens, u.prompt_tokens);
  end if;
  if i.cache_life = '1h' and coalesce(p.cache_write_1h_per_1m, p.cache_write_per_1m) > p.input_per_1m then
    u.cache_write_1h_tokens := u.prompt_tokens - coalesce(u.audio_input_tokens, 0);
  elsif i.cache_life is not null and p.cache_write_per_1m > p.input_per_1m then
    u.cache_write_tokens := u.prompt_tokens - coalesce(u.audio_input_tokens, 0);
  end if;
  if i.audio_output_tokens > 0 and p.audio_output_per_1m > p.output_per_1m then
    u.audio_output_tokens := least(i.audio_output_tokens, u.completion_tokens - coalesce(i.image_output_tokens, 0));
  end if;
  u.characters := i.characters;
  u.seconds := i.seconds;
  u.web_searches := i.web_searches;
  u.file_searches := i.file_searches;
  u.containers := i.containers;
  u.pages := i.pages;
  u.service_tier := i.service_tier;
  u.region := i.region;
  return u;
end $$;

-- Holds for one item, under the organization's lock, if it is a usual one: reserve_2 would answer
-- it with a hold and tell nobody. Null, and nothing is written, if that is not sure; then reserve_2
-- decides. Invariant: whatever this holds, reserve_2 would hold alike, row for row.
create function reserve_alone(p_org_id text, p_item jsonb)
returns item_answer language plpgsql as $$
declare
  i reserve_item := jsonb_populate_record(null::reserve_item, p_item);
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('res');
  v_is_usual boolean;
  v_currency text;
  v_price_version_id text;
  v_price_factor numeric;
  v_rate numeric;
  v_estimated_nanos numeric;
  v_held_nanos numeric;
  v_completion_tokens bigint;
  v_wallet_id text;
  v_owner_type text;
  v_life_seconds integer;
  v_expires_at timestamptz;
  v_sweep_at timestamptz;
  v_balance_nanos bigint;
  v_seq bigint;
  v_is_budgeted boolean;
  v_warnings jsonb;
begin
  if p_item ?| '{wallet_id,cost_ticket_id,fallbacks,service_tier,region,cache_life,session_max_actions,session_max_cost_usd}'
      or p_item ?| '{characters,seconds,web_searches,file_searches,containers,pages,image_output_tokens,audio_input_tokens,audio_output_tokens}' then
    return null;
  end if;
  -- What the tables know, and what it comes to. Each row is found by its key, however small its table was when this was planned.
  select coalesce(f.is_usual and f.held_nanos <= f.room_nanos, false), f.currency, f.version_id, f.price_factor, f.rate, f.estimated_nanos,
    f.held_nanos, f.completion_tokens,
    case when f.user_nanos >= f.held_nanos then f.user_wallet_id when f.team_nanos >= f.held_nanos then f.team_wallet_id
      when f.org_nanos >= f.held_nanos then f.org_wallet_id end,
    case when f.user_nanos >= f.held_nanos then 'user' when f.team_nanos >= f.held_nanos then 'team' else 'organization' end,
    f.reservation_ttl_seconds, v_now + f.reservation_ttl_seconds * interval '1 second', f.lifetimes_next_at, f.is_budgeted, f.warnings
  into v_is_usual, v_currency, v_price_version_id, v_price_factor, v_rate, v_estimated_nanos, v_held_nanos, v_completion_tokens,
    v_wallet_id, v_owner_type, v_life_seconds, v_expires_at, v_sweep_at, v_is_budgeted, v_warnings
  from (
    select o.currency, nullif(o.price_factor, 1) as price_factor, x.rate, o.reservation_ttl_seconds, o.lifetimes_next_at, p.version_id, c.completion_tokens,
      ceil(usd.nanos * x.rate) as estimated_nanos, held.nanos as held_nanos,
      uw.id as user_wallet_id, uw.balance_nanos::numeric - uw.kept_nanos as user_nanos,
      tw.id as team_wallet_id, tw.balance_nanos::numeric - tw.kept_nanos as team_nanos,
      ow.id as org_wallet_id, ow.balance_nanos::numeric - ow.kept_nanos as org_nanos,
      -- The least that the key's budget and the agent's caps leave; a count of answers leaves all or nothing.
      least(9000000000000000000, k.max_budget_nanos::numeric - k.spent_nanos - k.held_nanos, bud.room_nanos, (
        select min(case
          when q.constraint_type = 'cost' then q.max_value * 1000000000 - coalesce(u.cost_nanos, 0)
          when q.max_value >= coalesce(u.responses, 0) + 1 then 9000000000000000000
          else -1 end)
        from usage_constraints q
        left join lateral (select * from constraint_usage o where o.constraint_id = q.id
          and o.window_start = window_start(q.interval, v_now) limit 1) as u on true
        where q.agent_id = i.agent_id and q.archived_at is null and constraint_covers(q, i.provider, i.model))) as room_nanos,
      bud.is_budgeted, bud.warnings,
      is_flat(p) and o.suspended_at is null and not coalesce(bud.emits, false)
        and (i.key_id is null or (k.org_id = p_org_id and coalesce(k.revoked_at > v_now, true) and coalesce(k.expires_at > v_now, true)))
        and (i.secret_id is null or exists (select 1 from token_secrets s where s.id = i.secret_id and s.token_id = i.key_id
          and coalesce(s.expires_at > v_now, true)))
        and (i.user_id is null or exists (select 1 from memberships m where m.org_id = p_org_id and m.user_id = i.user_id
          and m.archived_at is null))
        and (i.team_id is null or exists (select 1 from teams t where t.id = i.team_id and t.org_id = p_org_id
          and t.archived_at is null))
        and (i.user_id is null or i.team_id is null or exists (select 1 from team_members tm where tm.team_id = i.team_id
          and tm.user_id = i.user_id))
        and (i.agent_id is null or exists (select 1 from agents g where g.id = i.agent_id and g.org_id = p_org_id
          and g.archived_at is null))
        -- A key of its own has a price of its own.
        and not (coalesce(i.own_keys, false) and exists (select 1 from provider_keys pk where pk.org_id = p_org_id
          and pk.provider = i.provider and pk.revoked_at is null))
        -- Overdue holds are given back first.
        and not exists (select 1 from reservations r where r.org_id = p_org_id and r.status = 'open' and r.expires_at <= v_now)
        as is_usual
    from organizations o
    join wallets ow on ow.org_id = o.id and ow.owner_type = 'organization'
    left join wallets uw on uw.org_id = p_org_id and uw.owner_type = 'user' and uw.owner_user_id = i.user_id
    left join wallets tw on tw.org_id = p_org_id and tw.owner_type = 'team' and tw.owner_team_id = i.team_id
    left join tokens k on k.id = i.key_id
    join lateral (select * from model_prices q where q.provider = i.provider and q.model = i.model and q.retired_at is null
      and q.effective_from <= now() order by q.effective_from desc limit 1) as p on true
    cross join lateral (select case o.currency when 'USD' then 1 else rate_of(o.currency) end as rate) as x
    cross join lateral (select coalesce(i.max_completion_tokens,
      least(p.max_output_tokens, o.default_max_completion_tokens) * coalesce(i.choices, 1)) as completion_tokens) as c
    cross join lateral (select token_cost(p, i.estimated_prompt_tokens, c.completion_tokens) * o.price_factor as nanos) as usd
    -- A window that is over, and a threshold that is reached for the first time, are not usual.
    cross join lateral (select amount_to_hold(usd.nanos, x.rate, o.reserve_buffer_pct) as nanos offset 0) as held
    cross join lateral (select nullif(count(*) > 0, false) as is_budgeted,
        min(window_cap(b) - window_used(b)) as room_nanos,
        bool_or(b.ends_at <= v_now or b.starts_at > v_now or window_used(b) + held.nanos >= b.emits_at_nanos) as emits,
        jsonb_agg(budget_warning(b, window_used(b) + held.nanos) order by b.id)
          filter (where window_used(b) + held.nanos >= b.warns_at_nanos) as warnings
      from budgets b
      where b.org_id = p_org_id and b.owner_id in (p_org_id, i.key_id, i.user_id, i.team_id) and b.archived_at is null) as bud
    where o.id = p_org_id
    offset 0
  ) as f;
  if v_wallet_id is null or not v_is_usual then
    return null;
  end if;

  insert into reservations (id, org_id, request_id, status, body_sha256, request_body_hash, wallet_id, wallet_owner_type,
    key_id, user_id, team_id, agent_id, session_id, family, provider, model, price_version_id, exchange_rate, currency,
    estimated_nanos, held_nanos, life_seconds, created_at, expires_at, max_completion_tokens, is_budgeted, tags, price_factor)
  values (v_id, p_org_id, i.request_id, 'open', body_digest(p_item), i.request_body_hash, v_wallet_id, v_owner_type,
    i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.family, i.provider, i.model, v_price_version_id, v_rate,
    v_currency, v_estimated_nanos, v_held_nanos, v_life_seconds, v_now, v_expires_at, v_completion_tokens, v_is_budgeted,
    i.tags, v_price_factor)
  on conflict (org_id, request_id) do nothing;
  if not found then
    return null;
  end if;
  update wallets w set balance_nanos = w.balance_nanos - v_held_nanos, reserved_nanos = w.reserved_nanos + v_held_nanos,
    seq = w.seq + 1
  where w.id = v_wallet_id returning w.balance_nanos, w.seq into v_balance_nanos, v_seq;
  insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
    reservation_id, phase, created_at, actor)
  values (new_id('txn'), v_wallet_id, p_org_id, v_seq, 'reservation', -v_held_nanos, v_balance_nanos, i.provider, i.model,
    v_id, 'hold', v_now, acting());
  if v_is_budgeted then
    update budgets b set held_nanos = b.held_nanos + v_held_nanos
    where b.org_id = p_org_id and b.owner_id in (p_org_id, i.key_id, i.user_id, i.team_id) and b.archived_at is null
      and b.starts_at <= v_now;
  end if;
  if i.key_id is not null then
    update tokens k set held_nanos = k.held_nanos + v_held_nanos,
      last_used_at = case when k.last_used_at > v_now - interval '1 minute' then k.last_used_at else v_now end
    where k.id = i.key_id;
  end if;
  if v_sweep_at is null or v_expires_at < v_sweep_at then
    perform wake_lifetimes(p_org_id, v_expires_at);
  end if;
  return ('reserve', 1, null, null, v_id, null, v_wallet_id, v_owner_type, v_currency, v_estimated_nanos, v_held_nanos,
    null, null, v_balance_nanos, null, v_expires_at, null, v_completion_tokens, v_warnings, null, null)::item_answer;
end $$;

----------------------------------------------------------------------------------------------------
-- Stored ids
----------------------------------------------------------------------------------------------------

-- Two targets of one provider may ask it with two accounts: what was made at one of them is sought
-- there first.

-- Ids of things that providers keep (answers, containers, files), by the organization whose call
-- made them. A request may name only those of its own organization. Kept for 30 days after their
-- last use.
create table stored_ids (
  org_id text not null references organizations,
  kind text not null,
  id text not null,
  provider text not null,
  key_id text,
  -- Keys that are bound to another user may not use it; null if no user is known.
  user_id text,
  created_at timestamptz not null default clock_timestamp(),
  used_at timestamptz not null default clock_timestamp(),
  -- The own key in whose account its provider keeps it; null: in that of the platform.
  provider_key_id text,
  -- The target of the gateway that made it, by its id; null if it is not known.
  target_id text,
  constraint stored_ids_pkey primary key (org_id, kind, id, provider)
);
create index stored_ids_used on stored_ids (used_at);

-- True if a caller may name an id that is kept for the organization.
create function may_name(s stored_ids, p_user_id text)
returns boolean language sql immutable as $$
  select s.user_id is null or p_user_id is null or s.user_id = p_user_id
$$;

-- Finds the provider that keeps all ids that a request names: the first of `providers` that does;
-- null if none does.
create function keeper_of(p_org_id text, p_named jsonb) returns text language sql stable as $$
  select p.name from jsonb_array_elements_text(p_named -> 'providers') with ordinality as p (name, n)
  where not exists (
    select 1 from jsonb_to_recordset(p_named -> 'ids') as i (kind text, id text)
    where not exists (select 1 from stored_ids s where s.org_id = p_org_id and s.kind = i.kind and s.id = i.id
      and s.provider = p.name and may_name(s, p_named ->> 'user_id')))
  order by p.n limit 1
$$;

-- Finds the first id of a request that none of `providers` keeps; the first of all if each is kept
-- by some.
create function id_without_keeper(p_org_id text, p_named jsonb)
returns jsonb language sql stable as $$
  select e.value from jsonb_array_elements(p_named -> 'ids') with ordinality as e (value, n)
  order by exists (select 1 from stored_ids s where s.org_id = p_org_id and s.kind = e.value ->> 'kind'
    and s.id = e.value ->> 'id' and p_named -> 'providers' @> to_jsonb(s.provider) and may_name(s, p_named ->> 'user_id')), e.n
  limit 1
$$;

-- Leaves out the reserves that name an id that is unknown.
create function reserves_of_known_ids(p_reserves jsonb, p_verdicts jsonb)
returns jsonb language sql immutable as $$
  select coalesce(jsonb_agg(e.value order by e.n), '[]')
  from jsonb_array_elements(p_reserves) with ordinality as e (value, n)
  left join (select (v ->> 'n')::bigint as n from jsonb_array_elements(p_verdicts) as v where v ->> 'provider' is null)
    as refused on refused.n = e.n
  where refused.n is null
$$;

-- The target at which what a request names was made last; null if it is not known.
create function target_of_keeper(p_org_id text, p_named jsonb, p_provider text)
returns text language sql stable as $$
  select s.target_id from jsonb_to_recordset(p_named -> 'ids') as i (kind text, id text)
  join stored_ids s on s.org_id = p_org_id and s.kind = i.kind and s.id = i.id and s.provider = p_provider
  where s.target_id is not null order by s.created_at desc, s.id limit 1
$$;

-- Keeps the ids that calls have made, for the caller of their reservation. An id that is known
-- already stays whose it is.
create function keep_stored_ids(p_org_id text, p_made jsonb) returns void language sql as $$
  insert into stored_ids (org_id, kind, id, provider, key_id, user_id, provider_key_id, target_id)
  select distinct on (i.kind, i.id, i.provider) p_org_id, i.kind, i.id, i.provider, r.key_id, r.user_id, i.provider_key_id,
    m.value ->> 'target_id'
  from jsonb_array_elements(p_made) with ordinality as m (value, n)
  left join lateral (select q.id from reservations q where q.org_id = p_org_id and q.request_id = m.value ->> 'request_id' limit 1)
    as named on true
  join lateral (select q.key_id, q.user_id from reservations q
    where q.id = coalesce(m.value ->> 'reservation_id', named.id) and q.org_id = p_org_id limit 1) as r on true
  cross join lateral jsonb_to_recordset(m.value -> 'ids') as i (kind text, id text, provider text, provider_key_id text)
  order by i.kind, i.id, i.provider, m.n
  on conflict (org_id, kind, id, provider) do update set used_at = clock_timestamp()
$$;

-- Runs before a lane, under its lock: keeps what settlements have made, then looks up what requests
-- name. Answers one object a request: its `n`, and the `provider` that keeps its ids, or the
-- `unknown` id.
create function bind_stored_ids(p_org_id text, p_made jsonb, p_named jsonb)
returns jsonb language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
begin
  perform lock_organization(p_org_id);
  if jsonb_array_length(p_made) > 0 then
    perform keep_stored_ids(p_org_id, p_made);
  end if;
  if jsonb_array_length(p_named) = 0 then
    return '[]';
  end if;
  -- An hour is exact enough for a time of last use, and saves most writes.
  update stored_ids s set used_at = clock_timestamp()
  from jsonb_array_elements(p_named) as e cross join lateral jsonb_to_recordset(e -> 'ids') as i (kind text, id text)
  where s.org_id = p_org_id and s.kind = i.kind and s.id = i.id and may_name(s, e ->> 'user_id')
    and s.used_at < clock_timestamp() - interval '1 hour';
  return (select jsonb_agg(jsonb_build_object('n', e.value -> 'n', 'provider', k.provider,
      'provider_key_id', key_of_keeper(p_org_id, e.value, k.provider),
      'target_id', target_of_keeper(p_org_id, e.value, k.provider),
      'unknown', case when k.provider is null then id_without_keeper(p_org_id, e.value) end))
    from jsonb_array_elements(p_named) as e (value)
    cross join lateral (select keeper_of(p_org_id, e.value) as provider offset 0) as k);
end $$;

----------------------------------------------------------------------------------------------------
-- Caps on agents
----------------------------------------------------------------------------------------------------

-- Caps on agents: what one may cost, or how many answers it may get, per calendar interval in UTC.

create table usage_constraints (
  id text primary key default new_id('cap'),
  org_id text not null references organizations,
  agent_id text not null references agents,
  constraint_type text not null check (constraint_type in ('cost', 'responses')),
  provider text not null,
  -- May end in `*`.
  model_pattern text not null,
  -- Units of the organization's currency, or a number of answers.
  max_value numeric not null check (max_value >= 0),
  "interval" text not null,
  enforcement_mode text not null check (enforcement_mode in ('reject', 'warn')),
  -- Reservations made before this are not counted: the start of the window in which it was made or
  -- last changed.
  counted_from timestamptz not null,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  constraint usage_constraints_interval_check check ("interval" in ('hour', 'day', 'week', 'month'))
);
create index usage_constraints_agent on usage_constraints (agent_id) where archived_at is null;
create index usage_constraints_org on usage_constraints (org_id);

-- What each constraint has counted in a window. Kept by count_usage; the audit proves it from the
-- reservations.
create table constraint_usage (
  constraint_id text not null references usage_constraints,
  window_start timestamptz not null,
  cost_nanos numeric not null default 0,
  responses bigint not null default 0,
  constraint constraint_usage_pkey primary key (constraint_id, window_start)
) with (fillfactor = 50);

-- Use that no reserve has seen. Unique by request, so that a repeat counts once.
create table usage_increments (
  org_id text not null references organizations,
  request_id text not null,
  agent_id text not null references agents,
  provider text not null,
  model text not null,
  cost_nanos bigint not null,
  responses integer not null,
  created_at timestamptz not null default clock_timestamp(),
  constraint usage_increments_pkey primary key (org_id, request_id, agent_id)
);
create index usage_increments_agent on usage_increments (agent_id, created_at);

-- Calendar windows in UTC, whatever the session's time zone; a week starts on ISO Monday.
create function window_start(p_interval text, p_at timestamptz)
returns timestamptz language sql immutable as $$
  select date_trunc(p_interval, p_at at time zone 'UTC') at time zone 'UTC'
$$;

create function window_end(p_interval text, p_at timestamptz)
returns timestamptz language sql immutable as $$
  select (date_trunc(p_interval, p_at at time zone 'UTC') + ('1 ' || p_interval)::interval) at time zone 'UTC'
$$;

create function constraint_covers(c usage_constraints, p_provider text, p_model text)
returns boolean language sql immutable as $$
  select c.provider = p_provider and case when right(c.model_pattern, 1) = '*'
    then starts_with(p_model, left(c.model_pattern, -1)) else c.model_pattern = p_model end
$$;

create type usage_count as (
  cost_nanos numeric,
  responses bigint
);

-- Sets a constraint's count of the present window from what has happened in it, at its making or
-- change.
create function recount_constraint(p_constraint_id text) returns void language plpgsql as $$
declare
  c usage_constraints;
begin
  update usage_constraints q set counted_from = window_start(q.interval, clock_timestamp())
  where q.id = p_constraint_id returning * into c;
  delete from constraint_usage u where u.constraint_id = p_constraint_id;
  insert into constraint_usage (constraint_id, window_start, cost_nanos, responses)
  select c.id, c.counted_from, coalesce(sum(n.cost_nanos), 0), coalesce(sum(n.responses), 0)
  from (
    select u.cost_nanos, u.responses from reservations r cross join lateral counted_use(c, r) as u
    where r.agent_id = c.agent_id and r.created_at >= c.counted_from
    union all
    select i.cost_nanos, i.responses from usage_increments i
    where i.agent_id = c.agent_id and i.created_at >= c.counted_from and constraint_covers(c, i.provider, i.model)
  ) as n;
end $$;

-- Counts use that went past reserve, once per request_id; one that a reserve knows has been counted
-- there already.
create function increment_usage(p_org_id text, p_agent_id text, p_provider text, p_model text,
  p_cost_nanos bigint, p_responses integer, p_request_id text)
returns boolean language plpgsql as $$
declare
  v_now timestamptz;
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  if exists (select 1 from reservations r where r.org_id = p_org_id and r.request_id = p_request_id) then
    return false;
  end if;
  insert into usage_increments (org_id, request_id, agent_id, provider, model, cost_nanos, responses, created_at)
  values (p_org_id, p_request_id, p_agent_id, p_provider, p_model, p_cost_nanos, p_responses, v_now)
  on conflict do nothing;
  if not found then
    return false;
  end if;
  insert into constraint_usage (constraint_id, window_start, cost_nanos, responses)
  select c.id, window_start(c.interval, v_now), p_cost_nanos, p_responses
  from usage_constraints c
  where c.agent_id = p_agent_id and c.archived_at is null and constraint_covers(c, p_provider, p_model)
  on conflict (constraint_id, window_start) do update
  set cost_nanos = constraint_usage.cost_nanos + excluded.cost_nanos,
    responses = constraint_usage.responses + excluded.responses;
  return true;
end $$;

-- An agent's constraints on a model with what the window of a moment has counted; a null provider
-- takes all of the agent's.
create function constraints_at(p_agent_id text, p_provider text, p_model text, p_at timestamptz)
returns table(id text, constraint_type text, "interval" text, max_value numeric, enforcement_mode
  text, cost_nanos numeric, responses bigint, resets_at timestamptz) language sql stable as $$
  select c.id, c.constraint_type, c.interval, c.max_value, c.enforcement_mode, coalesce(u.cost_nanos, 0),
    coalesce(u.responses, 0), window_end(c.interval, p_at)
  from usage_constraints c
  left join constraint_usage u on u.constraint_id = c.id and u.window_start = window_start(c.interval, p_at)
  where c.agent_id = p_agent_id and c.archived_at is null
    and (p_provider is null or constraint_covers(c, p_provider, p_model))
  order by c.id
$$;

create function counted_use(c usage_constraints, r reservations)
returns usage_count language sql immutable as $$
  select case
    when r.id is null or r.created_at < c.counted_from then (0, 0)::usage_count
    when r.status = 'open' and (constraint_covers(c, r.provider, r.model) or exists (
        select 1 from jsonb_array_elements(r.fallbacks) as f where constraint_covers(c, f ->> 'provider', f ->> 'model')))
      then (r.held_nanos, 1)::usage_count
    when r.status in ('settled', 'late')
        and constraint_covers(c, coalesce(r.settled_provider, r.provider), coalesce(r.settled_model, r.model))
        and (r.actual_cost_nanos > 0 or has_use(r.usage))
      then (r.actual_cost_nanos, 1)::usage_count
    else (0, 0)::usage_count end
$$;

-- What use of this very request a cap has counted in the window of a moment, before its reserve:
-- the hold takes its place.
create function own_increments(p_request_id text, p_constraint_id text, p_at timestamptz)
returns numeric language sql stable as $$
  select coalesce(sum(case c.constraint_type when 'cost' then i.cost_nanos else i.responses end), 0)
  from usage_constraints c
  join usage_increments i on i.org_id = c.org_id and i.request_id = p_request_id and i.agent_id = c.agent_id
  where c.id = p_constraint_id and i.created_at >= greatest(c.counted_from, window_start(c.interval, p_at))
    and constraint_covers(c, i.provider, i.model)
$$;

-- Takes back the use of a request that was told before its reserve, which counts it from now on.
create function take_back_increments(p_org_id text, p_request_id text)
returns void language sql as $$
  with taken as (
    delete from usage_increments i where i.org_id = p_org_id and i.request_id = p_request_id returning i.*
  )
  update constraint_usage u set cost_nanos = u.cost_nanos - t.cost_nanos, responses = u.responses - t.responses
  from (
    select c.id, window_start(c.interval, i.created_at) as began, sum(i.cost_nanos) as cost_nanos, sum(i.responses) as responses
    from taken i join usage_constraints c on c.agent_id = i.agent_id and c.archived_at is null and c.counted_from <= i.created_at
      and constraint_covers(c, i.provider, i.model)
    group by 1, 2
  ) as t
  where u.constraint_id = t.id and u.window_start = t.began
$$;

-- Keeps constraint_usage with the reservations, in the window of the reserve: a hold counts, its
-- settlement corrects, and what lapses or was never used is given back. Runs under the
-- organization's lock, as all that changes reservations. A hold on one model, and its settlement at
-- that model, are what nearly all calls are; counted_use says the same of them in more steps.
create function count_usage_2() returns trigger language plpgsql as $$
declare
  v_cost_nanos numeric;
  v_responses bigint;
begin
  if tg_op = 'INSERT' and exists (select 1 from usage_increments i where i.org_id = new.org_id and i.request_id = new.request_id) then
    perform take_back_increments(new.org_id, new.request_id);
  end if;
  if new.fallbacks is null and new.status = 'open' and tg_op = 'INSERT' then
    v_cost_nanos := new.held_nanos;
    v_responses := 1;
  elsif new.fallbacks is null and new.status = 'settled' and new.settled_provider = new.provider
      and new.settled_model = new.model and new.actual_cost_nanos > 0 and tg_op = 'UPDATE' and old.status = 'open' then
    v_cost_nanos := new.actual_cost_nanos - old.held_nanos;
    v_responses := 0;
  else
    insert into constraint_usage (constraint_id, window_start, cost_nanos, responses)
    select c.id, window_start(c.interval, new.created_at), a.cost_nanos - coalesce(b.cost_nanos, 0),
      a.responses - coalesce(b.responses, 0)
    from usage_constraints c
    cross join lateral counted_use(c, new) as a
    left join lateral counted_use(c, old) as b on tg_op = 'UPDATE'
    where c.agent_id = new.agent_id and c.archived_at is null
      and (a.cost_nanos <> coalesce(b.cost_nanos, 0) or a.responses <> coalesce(b.responses, 0))
    on conflict (constraint_id, window_start) do update
    set cost_nanos = constraint_usage.cost_nanos + excluded.cost_nanos,
      responses = constraint_usage.responses + excluded.responses;
    return null;
  end if;
  insert into constraint_usage (constraint_id, window_start, cost_nanos, responses)
  select c.id, window_start(c.interval, new.created_at), v_cost_nanos, v_responses
  from usage_constraints c
  where c.agent_id = new.agent_id and c.archived_at is null and c.counted_from <= new.created_at
    and constraint_covers(c, new.provider, new.model)
  on conflict (constraint_id, window_start) do update
  set cost_nanos = constraint_usage.cost_nanos + excluded.cost_nanos,
    responses = constraint_usage.responses + excluded.responses;
  return null;
end $$;

create trigger reservations_count after insert or update of status on reservations
for each row when (new.agent_id is not null)
execute function count_usage_2();

----------------------------------------------------------------------------------------------------
-- Budgets
----------------------------------------------------------------------------------------------------

-- Budgets: how much a key, a person, a team or an organization may cost in a window of the
-- organization's own calendar, or in all. Counted with the hold, in the window in which it was
-- made.

create table budgets (
  id text primary key default new_id('bud'),
  org_id text not null references organizations,
  owner_type text not null check (owner_type in ('key', 'user', 'team', 'organization')),
  owner_id text not null,
  limit_nanos bigint not null check (limit_nanos >= 0),
  -- `life` begins with the making of the budget and never ends.
  budget_window text not null check (budget_window in ('hour', 'day', 'week', 'month', 'life')),
  on_exceed text not null default 'refuse' check (on_exceed in ('refuse', 'ticket')),
  -- Shares in percent that are emitted, each once a window.
  thresholds integer[] not null default '{50,80,100}',
  -- The max_budget of its key, which has a window.
  is_max_budget boolean not null default false,
  -- The window that is counted here, and what approvals have added to it. The next hold after its
  -- end begins another one.
  starts_at timestamptz not null,
  ends_at timestamptz,
  raised_nanos bigint not null default 0,
  spent_nanos bigint not null default 0,
  held_nanos bigint not null default 0,
  emitted_pct integer not null default 0,
  -- The use at which calls are warned, and at which the next threshold is emitted; null if none.
  warns_at_nanos numeric,
  emits_at_nanos numeric,
  -- Holds that are older may be counted in budget_windows too.
  past_until timestamptz,
  created_by text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  -- A call that has no room tells of a full budget, once a window, however little is used. Kept
  -- apart from what is really reached.
  refusal_told boolean not null default false
) with (fillfactor = 50);
create unique index budgets_max_budget on budgets (owner_id)
where archived_at is null and is_max_budget;
create index budgets_org on budgets (org_id, created_at, id) where archived_at is null;
create index budgets_owner on budgets (org_id, owner_id) where archived_at is null;
create unique index budgets_window on budgets (org_id, owner_id, budget_window)
where archived_at is null and not is_max_budget;

-- Windows that are over, or that a change of the window has ended. What settles late is counted
-- here.
create table budget_windows (
  budget_id text not null references budgets,
  starts_at timestamptz not null,
  ends_at timestamptz not null,
  limit_nanos bigint not null,
  raised_nanos bigint not null,
  spent_nanos bigint not null,
  held_nanos bigint not null,
  constraint budget_windows_pkey primary key (budget_id, starts_at, ends_at)
);

-- What approvals have added to a budget, each for one ticket and one window.
create table budget_raises (
  id text primary key default new_id('raise'),
  org_id text not null references organizations,
  budget_id text not null references budgets,
  window_starts_at timestamptz not null,
  -- Two windows may begin at one moment: a month and its first day.
  budget_window text not null,
  amount_nanos bigint not null check (amount_nanos > 0),
  cost_ticket_id text not null,
  decided_by text not null,
  created_at timestamptz not null default clock_timestamp()
);
create index budget_raises_budget on budget_raises (budget_id, window_starts_at);

-- The window of a zone's calendar that holds a moment: days of 23 or 25 hours where clocks change,
-- weeks from ISO Monday. A life begins now.
create function reporting_window(p_window text, p_zone text, p_at timestamptz,
  out starts_at timestamptz, out ends_at timestamptz)
returns record language plpgsql stable as $$
begin
  if p_window = 'life' then
    starts_at := p_at;
  elsif p_window = 'hour' then
    -- By the moment's own offset: an hour that a clock shows twice is two windows.
    starts_at := date_trunc('hour', p_at, p_zone);
    ends_at := starts_at + interval '1 hour';
  else
    select max(b.at) filter (where b.at <= p_at), min(b.at) filter (where b.at > p_at) into starts_at, ends_at
    from generate_series(-1, 2) as k
    cross join lateral (select (date_trunc(p_window, p_at at time zone p_zone) + k * ('1 ' || p_window)::interval)
      at time zone p_zone as at) as b;
  end if;
end $$;

-- The living budgets that count a call of this caller.
create function budgets_of(p_org_id text, p_key_id text, p_user_id text, p_team_id text)
returns setof budgets language sql stable as $$
  select b.* from budgets b
  where b.org_id = p_org_id and b.owner_id in (p_org_id, p_key_id, p_user_id, p_team_id) and b.archived_at is null
$$;

-- What a budget has counted in the window of its row, and what it allows there. Sums of two columns
-- may be more than a bigint holds.
create function window_used(b budgets) returns numeric language sql immutable as $$
  select b.spent_nanos::numeric + b.held_nanos
$$;

-- What a budget has counted: nothing where its window is over and the next has not begun.
create function budget_used(b budgets, p_now timestamptz)
returns numeric language sql immutable as $$
  select case when b.ends_at <= p_now then 0 else window_used(b) end
$$;

-- What it allows now.
create function budget_cap(b budgets, p_now timestamptz)
returns numeric language sql immutable as $$
  select case when b.ends_at <= p_now then b.limit_nanos else window_cap(b) end
$$;

-- The highest of a budget's thresholds that so much use has reached; 0 if none.
create function reached_pct(b budgets, p_used_nanos numeric, p_cap_nanos numeric)
returns integer language sql immutable as $$
  select coalesce((select max(t) from unnest(b.thresholds) as t where p_cap_nanos > 0 and p_used_nanos * 100 >= t * p_cap_nanos), 0)
$$;

-- What a call hears of a budget that has reached a threshold.
create function budget_warning(b budgets, p_used_nanos numeric)
returns jsonb language sql stable as $$
  select jsonb_build_object('id', b.id, 'warning_type', 'budget', 'owner_type', b.owner_type, 'owner_id', b.owner_id,
    'window', b.budget_window, 'threshold_pct', reached_pct(b, p_used_nanos, window_cap(b)),
    'limit_nanos', window_cap(b)::text, 'used_nanos', p_used_nanos::text, 'resets_at', iso_time(b.ends_at))
$$;

-- The budgets that have no room for so much more. `p_left` holds what a batch has counted by then.
create function short_budgets(p_org_id text, p_key_id text, p_user_id text, p_team_id text,
  p_need_nanos numeric, p_now timestamptz, p_left jsonb)
returns table(id text, owner_type text, owner_id text, budget_window text, on_exceed text,
  limit_nanos numeric, used_nanos numeric, missing_nanos numeric, resets_at timestamptz) language
  sql stable as $$
  select b.id, b.owner_type, b.owner_id, b.budget_window, b.on_exceed, n.cap, n.used, n.used + p_need_nanos - n.cap,
    case when b.ends_at <= p_now then (reporting_window(b.budget_window, o.time_zone, p_now)).ends_at else b.ends_at end
  from budgets_of(p_org_id, p_key_id, p_user_id, p_team_id) as b
  cross join lateral (select budget_cap(b, p_now) as cap, coalesce((p_left ->> b.id)::numeric, budget_used(b, p_now)) as used) as n
  join organizations o on o.id = b.org_id
  where n.used + p_need_nanos > n.cap
$$;

-- A budget as refusals and tickets name it.
create function shown_budget(p_id text, p_owner_type text, p_owner_id text, p_window text,
  p_limit_nanos numeric, p_used_nanos numeric, p_missing_nanos numeric, p_resets_at timestamptz)
returns jsonb language sql stable as $$
  select jsonb_build_object('id', p_id, 'owner_type', p_owner_type, 'owner_id', p_owner_id, 'window', p_window,
    'limit_nanos', p_limit_nanos::text, 'used_nanos', p_used_nanos::text, 'missing_nanos', p_missing_nanos::text,
    'resets_at', iso_time(p_resets_at))
$$;

-- Emits the thresholds that a budget has reached by itself, if they were not emitted yet.
create function emit_standing(b budgets) returns void language plpgsql as $$
declare
  v_pct integer := reached_pct(b, window_used(b), window_cap(b));
begin
  if v_pct > b.emitted_pct then
    perform emit_threshold(b, v_pct, window_used(b), '{}');
  end if;
end $$;

-- When what a budget counts was made: nothing was held for it before.
create function owner_since(b budgets) returns timestamptz language sql stable as $$
  select case b.owner_type
    when 'key' then (select q.created_at from tokens q where q.id = b.owner_id)
    when 'user' then (select q.created_at from users q where q.id = b.owner_id)
    when 'team' then (select q.created_at from teams q where q.id = b.owner_id)
    else (select q.created_at from organizations q where q.id = b.owner_id) end
$$;

-- Whether budgets let one more hold pass: `code` refuses it, and `is_short` asks for a ticket.
create type budget_verdict as (
  code text,
  is_short boolean,
  refused jsonb,
  warnings jsonb,
  -- What each budget has counted by then, holds of this batch included.
  used jsonb
);

-- Whether budgets count a caller, and how much may be held before one of them refuses, warns or
-- emits; nothing if a window is to begin.
create function quiet_room(p_org_id text, p_caller text[], p_now timestamptz,
  out is_budgeted boolean, out nanos numeric)
returns record language sql stable as $$
  select count(*) > 0, min(case when b.ends_at <= p_now then 0
    else least(window_cap(b), b.warns_at_nanos, b.emits_at_nanos) - window_used(b) end)
  from budgets_of(p_org_id, p_caller[1], p_caller[2], p_caller[3]) as b
$$;

-- Keeps the use at which calls are warned, and the one at which the next threshold is emitted.
create function mark_budget() returns trigger language plpgsql as $$
begin
  select ceil(min(t) * n.cap / 100), ceil(min(t) filter (where t > new.emitted_pct) * n.cap / 100)
  into new.warns_at_nanos, new.emits_at_nanos
  from (select window_cap(new) as cap) as n
  left join unnest(new.thresholds) as t on n.cap > 0
  group by n.cap;
  return new;
end $$;

create trigger budgets_mark before insert or update of limit_nanos, raised_nanos, thresholds,
  emitted_pct on budgets
for each row
execute function mark_budget();

-- What a call adds to the budgets that count it.
create type budget_move as (
  reservation_id text,
  key_id text,
  user_id text,
  team_id text,
  created_at timestamptz,
  held_nanos bigint,
  spent_nanos bigint
);

create function count_holds(p_org_id text, p_holds reservations[])
returns void language plpgsql as $$
begin
  perform count_moves(p_org_id, (select array_agg((h.id, h.key_id, h.user_id, h.team_id, h.created_at, h.held_nanos, 0)::budget_move
    order by h.n) from (select x.*, row_number() over () as n from unnest(p_holds) as x) as h where h.is_budgeted));
end $$;

-- What settles late was given back when it expired, and may be counted by a budget that is younger.
create function count_closings(p_org_id text, p_closing settlement[])
returns void language plpgsql as $$
begin
  perform count_moves(p_org_id, (select array_agg((r.id, r.key_id, r.user_id, r.team_id, r.created_at,
    case s.status when 'late' then 0 else -r.held_nanos end, s.cost_nanos)::budget_move order by s.n)
    from unnest(p_closing) as s cross join lateral (select (s.reservation).*) as r
    where r.is_budgeted or s.status = 'late'));
end $$;

-- Of a cost that a person adds.
create function count_change() returns trigger language plpgsql as $$
declare
  m budget_move := (new.id, new.key_id, new.user_id, new.team_id, new.created_at, 0,
    coalesce(new.actual_cost_nanos, 0) - coalesce(old.actual_cost_nanos, 0))::budget_move;
begin
  if count_in_budgets(new.org_id, m) then
    perform emit_reached(new.org_id, array[m]);
  end if;
  return null;
end $$;

create trigger reservations_count_budgets after update of status on reservations
for each row when (old.status in ('settled', 'late'))
execute function count_change();

-- What tells of one threshold of a budget; `p_caller` names the call that did it.
create function append_threshold(b budgets, p_pct integer, p_used_nanos numeric, p_caller jsonb)
returns void language plpgsql as $$
begin
  perform append_event(b.org_id, 'budget.threshold', jsonb_build_object('budget_id', b.id, 'owner_type', b.owner_type,
    'owner_id', b.owner_id, 'window', b.budget_window, 'threshold_pct', p_pct,
    'limit_nanos', window_cap(b)::text, 'used_nanos', p_used_nanos::text,
    'currency', (select o.currency from organizations o where o.id = b.org_id), 'resets_at', iso_time(b.ends_at)) || p_caller);
end $$;

-- Begins the window that holds this moment, and puts the one before aside. It begins where that one
-- ended if the zone was changed meanwhile: no moment is in two windows, or in none.
create function begin_window(p_budget_id text, p_now timestamptz)
returns budgets language plpgsql as $$
declare
  b budgets;
  v_starts_at timestamptz;
  v_ends_at timestamptz;
begin
  select * into b from budgets q where q.id = p_budget_id;
  select w.starts_at, w.ends_at into v_starts_at, v_ends_at
  from organizations o cross join lateral reporting_window(b.budget_window, o.time_zone, p_now) as w where o.id = b.org_id;
  insert into budget_windows (budget_id, starts_at, ends_at, limit_nanos, raised_nanos, spent_nanos, held_nanos)
  values (b.id, b.starts_at, b.ends_at, b.limit_nanos, b.raised_nanos, b.spent_nanos, b.held_nanos);
  update budgets q set starts_at = greatest(v_starts_at, b.ends_at), ends_at = v_ends_at, raised_nanos = 0, spent_nanos = 0,
    held_nanos = 0, emitted_pct = 0, refusal_told = false, past_until = greatest(q.past_until, b.ends_at)
  where q.id = b.id returning * into b;
  return b;
end $$;

-- Judges one hold by the budgets that count it, and begins their windows. One that refuses stands
-- before those that ask. A hold of null is of a call that costs nothing, which exceeds no budget.
create function judge_budgets(p_org_id text, i reserve_item, p_held_nanos numeric,
  p_now timestamptz, p_made reservations[])
returns budget_verdict language plpgsql as $$
declare
  v budget_verdict;
  b budgets;
  v_used numeric;
  v_cap numeric;
begin
  v.used := '{}';
  for b in select * from budgets_of(p_org_id, i.key_id, i.user_id, i.team_id) q order by q.id loop
    if b.ends_at <= p_now then
      b := begin_window(b.id, p_now);
    end if;
    v_used := window_used(b) + (select coalesce(sum(m.held_nanos), 0) from unnest(p_made) as m
      where b.owner_id in (m.org_id, m.key_id, m.user_id, m.team_id));
    v_cap := window_cap(b);
    v.used := v.used || jsonb_build_object(b.id, v_used::text);
    if v_used + p_held_nanos > v_cap then
      perform emit_refusal(b, v_used, jsonb_build_object('request_id', i.request_id, 'agent_id', i.agent_id)
        || caller(trace_of(i.request_id), i.user_id, i.key_id, i.team_id));
      if b.on_exceed = 'ticket' then
        v.is_short := true;
      elsif v.refused is null or coalesce(b.ends_at, 'infinity') > coalesce((v.refused ->> 'resets_at')::timestamptz, 'infinity') then
        v.code := 'key_budget_exceeded';
        v.refused := shown_budget(b.id, b.owner_type, b.owner_id, b.budget_window, v_cap, v_used, v_used + p_held_nanos - v_cap,
          b.ends_at);
      end if;
    elsif reached_pct(b, v_used + coalesce(p_held_nanos, 0), v_cap) > 0 then
      v.warnings := coalesce(v.warnings, '[]') || budget_warning(b, v_used + coalesce(p_held_nanos, 0));
    end if;
  end loop;
  return v;
end $$;

-- What was spent is counted up to what a bigint holds, and no further. It is more than any limit
-- may be, so nothing passes one for it.
create function add_spent(p_spent_nanos bigint, p_more_nanos numeric)
returns bigint language sql immutable as $$
  select least(p_spent_nanos + p_more_nanos, 9223372036854775807)::bigint
$$;

-- What a budget allows in the window of its row: its limit and what it was raised by, and in all no
-- more than a limit may be. What is spent can be counted beyond that.
create function window_cap(b budgets) returns numeric language sql immutable as $$
  select least(b.limit_nanos::numeric + b.raised_nanos, 9000000000000000000)
$$;

-- Counts one move in the window in which its hold was made. True if a threshold is to be emitted.
create function count_in_budgets(p_org_id text, m budget_move)
returns boolean language plpgsql as $$
declare
  v_is_past boolean;
  v_emits boolean;
begin
  with moved as (
    update budgets q
    set held_nanos = q.held_nanos + case when q.starts_at <= m.created_at then m.held_nanos else 0 end,
      spent_nanos = add_spent(q.spent_nanos, case when q.starts_at <= m.created_at then m.spent_nanos else 0 end)
    where q.org_id = p_org_id and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id) and q.archived_at is null
    returning q.past_until > m.created_at as is_past, window_used(q) >= q.emits_at_nanos as emits
  )
  select bool_or(is_past), bool_or(emits) into v_is_past, v_emits from moved;
  if v_is_past then
    perform count_in_past(p_org_id, array[m]);
  end if;
  return coalesce(v_emits, false);
end $$;

-- Counts moves in windows that are over.
create function count_in_past(p_org_id text, p_moves budget_move[])
returns void language sql as $$
  update budget_windows w set held_nanos = w.held_nanos + s.held_nanos, spent_nanos = add_spent(w.spent_nanos, s.spent_nanos)
  from (
    select p.budget_id, p.starts_at, p.ends_at, sum(m.held_nanos) as held_nanos, sum(m.spent_nanos) as spent_nanos
    from unnest(p_moves) as m
    join budgets b on b.org_id = p_org_id and b.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id) and b.archived_at is null
      and b.past_until > m.created_at
    join budget_windows p on p.budget_id = b.id and p.starts_at <= m.created_at and m.created_at < p.ends_at
    group by 1, 2, 3
  ) as s
  where (w.budget_id, w.starts_at, w.ends_at) = (s.budget_id, s.starts_at, s.ends_at)
$$;

-- Counts all moves of a batch: each budget once.
create function count_moves(p_org_id text, p_moves budget_move[])
returns void language plpgsql as $$
declare
  v_is_past boolean;
  v_emits boolean;
begin
  with callers as (
    select m.key_id, m.user_id, m.team_id, sum(m.held_nanos) as held_nanos, sum(m.spent_nanos) as spent_nanos,
      min(m.created_at) as since
    from unnest(p_moves) as m group by 1, 2, 3
  ), sums as (
    select b.id, sum(c.held_nanos) as held_nanos, sum(c.spent_nanos) as spent_nanos, min(c.since) as since
    from callers c
    cross join lateral (select q.id from budgets q where q.org_id = p_org_id
      and q.owner_id in (p_org_id, c.key_id, c.user_id, c.team_id) and q.archived_at is null) as b
    group by 1
  ), moved as (
    update budgets q
    set held_nanos = q.held_nanos + case when q.starts_at <= s.since then s.held_nanos
        else (select coalesce(sum(m.held_nanos), 0) from unnest(p_moves) as m
          where m.created_at >= q.starts_at and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) end,
      spent_nanos = add_spent(q.spent_nanos, case when q.starts_at <= s.since then s.spent_nanos
        else (select coalesce(sum(m.spent_nanos), 0) from unnest(p_moves) as m
          where m.created_at >= q.starts_at and q.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) end)
    from sums s where q.id = s.id
    returning q.past_until > s.since as is_past, window_used(q) >= q.emits_at_nanos as emits
  )
  select bool_or(is_past), bool_or(emits) into v_is_past, v_emits from moved;
  if v_is_past then
    perform count_in_past(p_org_id, p_moves);
  end if;
  if v_emits then
    perform emit_reached(p_org_id, p_moves);
  end if;
end $$;

-- Sets a budget's count of its window from what was held and spent in it, at its making or at a
-- change of its window. Reservations are found by their ids, which are in the order of time, from
-- the making of the owner on.
create function recount_budget(p_budget_id text, p_now timestamptz)
returns void language plpgsql as $$
declare
  b budgets;
  v_since timestamptz;
begin
  select * into b from budgets q where q.id = p_budget_id;
  v_since := greatest(b.starts_at, owner_since(b));
  update reservations r set is_budgeted = true
  where r.org_id = b.org_id and r.status = 'open' and r.created_at >= v_since
    and b.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id);
  update budgets q set (held_nanos, spent_nanos) = (
    select coalesce(sum(r.held_nanos) filter (where r.status = 'open'), 0), add_spent(0, coalesce(sum(r.actual_cost_nanos), 0))
    from reservations r
    where r.id >= 'res_' || lpad(to_hex(floor(extract(epoch from v_since - interval '1 minute') * 1000)::bigint), 12, '0')
      and r.org_id = b.org_id and r.created_at >= v_since and b.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id))
  where q.id = b.id returning * into b;
  perform emit_standing(b);
end $$;

-- Changes what people set of a budget. Another window begins with what was held, spent and raised
-- in it so far; the one before is put aside, and goes on counting what becomes of its holds. A life
-- begins with the making of the budget.
create function change_budget(p_id text, p_limit_nanos bigint, p_window text, p_on_exceed text,
  p_thresholds integer[], p_now timestamptz)
returns void language plpgsql as $$
declare
  b budgets;
begin
  select * into b from budgets q where q.id = p_id;
  if b.ends_at <= p_now then
    b := begin_window(b.id, p_now);
  end if;
  if p_window <> b.budget_window then
    insert into budget_windows (budget_id, starts_at, ends_at, limit_nanos, raised_nanos, spent_nanos, held_nanos)
    values (b.id, b.starts_at, p_now, b.limit_nanos, b.raised_nanos, b.spent_nanos, b.held_nanos);
    update budgets q set budget_window = p_window, starts_at = n.starts_at, ends_at = w.ends_at, emitted_pct = 0,
      refusal_told = false, past_until = p_now,
      raised_nanos = (select coalesce(sum(x.amount_nanos), 0) from budget_raises x
        where x.budget_id = b.id and x.created_at >= n.starts_at and x.budget_window = p_window)
    from organizations o cross join lateral reporting_window(p_window, o.time_zone, p_now) as w
    cross join lateral (select case p_window when 'life' then b.created_at else w.starts_at end as starts_at) as n
    where q.id = b.id and o.id = b.org_id;
  end if;
  -- What was emitted of a smaller limit may be emitted again of a larger one.
  update budgets q set limit_nanos = p_limit_nanos, on_exceed = p_on_exceed, thresholds = p_thresholds, updated_at = p_now,
    emitted_pct = case when p_limit_nanos <> b.limit_nanos then 0 else q.emitted_pct end,
    refusal_told = q.refusal_told and p_limit_nanos = b.limit_nanos
  where q.id = b.id;
  if p_window <> b.budget_window then
    perform recount_budget(b.id, p_now);
    return;
  end if;
  select * into b from budgets q where q.id = p_id;
  perform emit_standing(b);
end $$;

-- Emits each threshold up to `p_pct` that a budget has reached and that was not emitted yet, or
-- told of by a call that had no room; `p_caller` names the call that did it. Invariant: emitted_pct
-- is what was really reached.
create function emit_threshold(b budgets, p_pct integer, p_used_nanos numeric, p_caller jsonb)
returns void language plpgsql as $$
declare
  v_emitted_pct integer;
  v_refusal_told boolean;
begin
  select q.emitted_pct, q.refusal_told into v_emitted_pct, v_refusal_told from budgets q where q.id = b.id;
  if p_pct <= v_emitted_pct then
    return;
  end if;
  update budgets q set emitted_pct = p_pct where q.id = b.id;
  perform append_threshold(b, t, p_used_nanos, p_caller)
  from (select distinct x as t from unnest(b.thresholds) as x where x > v_emitted_pct and x <= p_pct
    and not (x = 100 and v_refusal_told) order by x) as n;
end $$;

-- Emits that a budget is full, although no hold fills it to the last nano: once a window, at the
-- first call that has no room. It is not told again when it is really full.
create function emit_refusal(b budgets, p_used_nanos numeric, p_caller jsonb)
returns void language plpgsql as $$
begin
  if 100 = any (b.thresholds) and b.emitted_pct < 100 and not b.refusal_told and window_cap(b) > 0 then
    update budgets q set refusal_told = true where q.id = b.id;
    perform append_threshold(b, 100, p_used_nanos, p_caller);
  end if;
end $$;

-- Emits what moves have reached: each threshold with the call that did it.
create function emit_reached(p_org_id text, p_moves budget_move[])
returns void language plpgsql as $$
declare
  s record;
  r reservations;
begin
  for s in
    select b as budget, window_used(b) as used,
      (select x.reservation_id from (
        select m.reservation_id, m.n, sum(m.held_nanos + m.spent_nanos) over (order by m.n desc) - m.held_nanos - m.spent_nanos as later
        from unnest(p_moves) with ordinality as m (reservation_id, key_id, user_id, team_id, created_at, held_nanos, spent_nanos, n)
        where b.owner_id in (p_org_id, m.key_id, m.user_id, m.team_id)) as x
      where window_used(b) - x.later >= b.emits_at_nanos order by x.n limit 1) as reservation_id
    from budgets b
    where b.id in (select q.id from unnest(p_moves) as m cross join lateral budgets_of(p_org_id, m.key_id, m.user_id, m.team_id) as q)
      and window_used(b) >= b.emits_at_nanos
    order by b.id
  loop
    select * into r from reservations q where q.id = s.reservation_id;
    perform emit_threshold(s.budget, reached_pct(s.budget, s.used, window_cap(s.budget)), s.used,
      jsonb_build_object('request_id', asking_request(r), 'agent_id', r.agent_id) || caller_of_hold(r));
  end loop;
end $$;

----------------------------------------------------------------------------------------------------
-- What calls cost
----------------------------------------------------------------------------------------------------

-- What calls cost, added up in the background: settlements are folded by the gap-free seq of their
-- wallets, and what is not folded yet is added when somebody reads. So figures are exact at once,
-- and no call waits for them.

-- The rollup of an organization in one time zone. Another zone, or a rebuild, makes another beside
-- it, which takes its place once it has folded as much.
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
  constraint spend_hours_pkey primary key (edition, hour, key_id, user_id, team_id, agent_id,
    family, provider, model)
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
  constraint spend_days_pkey primary key (edition, day, key_id, user_id, team_id, agent_id, family,
    provider, model)
);

-- The tags of a day that are counted by name, at most 1,000; calls under further ones count as
-- `other`.
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
  constraint spend_tag_days_pkey primary key (edition, day, tag, key_id, user_id, team_id, agent_id,
    family, provider, model)
);

-- Entries of one wallet, to be counted for an edition.
create type spend_range as (
  edition bigint,
  time_zone text,
  wallet_id text,
  after_seq bigint,
  up_to_seq bigint
);

-- The settlements in ranges of wallets' ledgers, one row each. Reservations are found one by one,
-- as the ranges are small however large the ledger is.
create function spent_in(p_ranges spend_range[])
returns table(edition bigint, day date, hour timestamptz, key_id text, user_id text, team_id text,
  agent_id text, family text, provider text, model text, session_id text, tags text[], cost_nanos
  numeric, requests bigint, prompt_tokens numeric, completion_tokens numeric, cached_tokens numeric)
  language sql stable
set enable_seqscan = off as $$
  select g.edition, s.*
  from unnest(p_ranges) as g
  cross join lateral (select q as entry, q.reservation_id from wallet_transactions q
    where q.wallet_id = g.wallet_id and q.seq > g.after_seq and q.seq <= g.up_to_seq and q.type = 'settlement' order by q.seq) as t
  left join lateral (select q as call from reservations q where q.id = t.reservation_id limit 1) as r on true
  cross join lateral spend_of(t.entry, r.call, g.time_zone) as s
$$;

-- What is not folded yet into an edition of an organization.
create function unfolded_spend(p_org_id text, p_edition bigint, p_time_zone text)
returns spend_range[] language sql stable as $$
  select array_agg((p_edition, p_time_zone, w.id, coalesce(c.folded_seq, 0), w.seq)::spend_range)
  from wallets w left join spend_cursors c on c.wallet_id = w.id and c.edition = p_edition
  where w.org_id = p_org_id and w.seq > coalesce(c.folded_seq, 0)
$$;

-- Gives every organization its edition, and another one to those whose time zone has changed.
create function open_spend_editions() returns void language sql as $$
  insert into spend_editions (org_id, time_zone, state)
  select o.id, o.time_zone, 'current' from organizations o
  where not exists (select 1 from spend_editions e where e.org_id = o.id and e.state = 'current')
  on conflict do nothing;
  update spend_editions e set state = 'dropped' from organizations o
  where o.id = e.org_id and e.state = 'making' and e.time_zone <> o.time_zone;
  insert into spend_editions (org_id, time_zone, state)
  select o.id, o.time_zone, 'making' from organizations o
  join spend_editions e on e.org_id = o.id and e.state = 'current' and e.time_zone <> o.time_zone
  on conflict do nothing;
$$;

-- Adds entries to the days and hours of their editions; how many of them have tags.
create function fold_ranges(p_ranges spend_range[]) returns bigint language sql as $$
  with spent as materialized (
    select * from spent_in(p_ranges)
  ), days as (
    insert into spend_days as d
    select s.edition, s.day, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model, sum(s.cost_nanos),
      sum(s.requests), sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.cached_tokens)
    from spent s group by 1, 2, 3, 4, 5, 6, 7, 8, 9 order by 1, 2, 3, 4, 5, 6, 7, 8, 9
    on conflict (edition, day, key_id, user_id, team_id, agent_id, family, provider, model) do update set
      cost_nanos = d.cost_nanos + excluded.cost_nanos, requests = d.requests + excluded.requests,
      prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = d.completion_tokens + excluded.completion_tokens, cached_tokens = d.cached_tokens + excluded.cached_tokens
  ), hours as (
    insert into spend_hours as h
    select s.edition, s.hour, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model, sum(s.cost_nanos),
      sum(s.requests), sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.cached_tokens)
    from spent s where s.hour > now() - interval '36 days'
    group by 1, 2, 3, 4, 5, 6, 7, 8, 9 order by 1, 2, 3, 4, 5, 6, 7, 8, 9
    on conflict (edition, hour, key_id, user_id, team_id, agent_id, family, provider, model) do update set
      cost_nanos = h.cost_nanos + excluded.cost_nanos, requests = h.requests + excluded.requests,
      prompt_tokens = h.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = h.completion_tokens + excluded.completion_tokens, cached_tokens = h.cached_tokens + excluded.cached_tokens
  )
  select count(*) from spent s where s.tags is not null
$$;

-- Adds entries to the tags of their days. A day's first 1,000 tags have names.
create function fold_tags(p_ranges spend_range[]) returns void language sql as $$
  with spent as materialized (
    select row_number() over () as n, q.* from spent_in(p_ranges) as q where q.tags is not null
  ), unknown as (
    select distinct s.edition, s.day, u.tag from spent s cross join unnest(s.tags) as u (tag)
    where not exists (select 1 from spend_tags k where k.edition = s.edition and k.day = s.day and k.tag = u.tag)
  ), made as (
    insert into spend_tags
    select u.edition, u.day, u.tag
    from (select q.*, row_number() over (partition by q.edition, q.day order by q.tag) as nth from unknown q) as u
    where u.nth <= 1000 - (select count(*) from spend_tags k where k.edition = u.edition and k.day = u.day)
    order by 1, 2, 3
    returning *
  ), tagged as (
    select distinct s.n, coalesce(k.tag, m.tag, 'other') as tag
    from spent s cross join unnest(s.tags) as u (tag)
    left join spend_tags k on k.edition = s.edition and k.day = s.day and k.tag = u.tag
    left join made m on m.edition = s.edition and m.day = s.day and m.tag = u.tag
  )
  insert into spend_tag_days as d
  select s.edition, s.day, t.tag, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model, sum(s.cost_nanos),
    sum(s.requests), sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.cached_tokens)
  from spent s join tagged t on t.n = s.n group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 order by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
  on conflict (edition, day, tag, key_id, user_id, team_id, agent_id, family, provider, model) do update set
    cost_nanos = d.cost_nanos + excluded.cost_nanos, requests = d.requests + excluded.requests,
    prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = d.completion_tokens + excluded.completion_tokens, cached_tokens = d.cached_tokens + excluded.cached_tokens
$$;

-- Folds at most so many entries, of wallets that few are missing of first; how many there were. An
-- edition that has caught up takes the place of its organization's current one. Invariant: an entry
-- counts in an edition if its seq is up to the cursor of its wallet, and once; all that a step
-- writes is one transaction. Of many organizations each step takes others.
create function fold_spend(p_entries integer) returns bigint language plpgsql as $$
declare
  v_orgs text[];
  v_ranges spend_range[];
  v_entries bigint;
begin
  -- Whoever folds an organization does it alone; others pass it over.
  v_orgs := array(select e.org_id from spend_editions e where e.state = 'current' and e.org_id in (
      select x.org_id from spend_editions x join wallets w on w.org_id = x.org_id
      left join spend_cursors c on c.wallet_id = w.id and c.edition = x.edition
      where x.state = 'making' or (x.state = 'current' and w.seq > coalesce(c.folded_seq, 0)))
    order by random() limit 100 for update skip locked);
  with behind as (
    select e.edition, e.time_zone, w.id as wallet_id, coalesce(c.folded_seq, 0) as after_seq, w.seq,
      w.seq - coalesce(c.folded_seq, 0) as missing
    from spend_editions e join wallets w on w.org_id = e.org_id
    left join spend_cursors c on c.wallet_id = w.id and c.edition = e.edition
    where e.org_id = any (v_orgs) and e.state <> 'dropped' and w.seq > coalesce(c.folded_seq, 0)
  ), so_far as (
    select b.*, sum(b.missing) over (order by b.missing, b.edition, b.wallet_id) - b.missing as earlier from behind b
  )
  select array_agg((q.edition, q.time_zone, q.wallet_id, q.after_seq,
      least(q.seq, q.after_seq + p_entries - q.earlier))::spend_range order by q.edition, q.wallet_id),
    coalesce(sum(least(q.missing, p_entries - q.earlier)), 0)
  into v_ranges, v_entries
  from so_far q where q.earlier < p_entries;

  if v_entries > 0 then
    if fold_ranges(v_ranges) > 0 then
      perform fold_tags(v_ranges);
    end if;
    insert into spend_cursors as c (wallet_id, edition, folded_seq)
    select g.wallet_id, g.edition, g.up_to_seq from unnest(v_ranges) as g order by 1, 2
    on conflict (wallet_id, edition) do update set folded_seq = excluded.folded_seq;
  end if;
  perform use_made_editions(v_orgs, p_entries);
  return v_entries;
end $$;

-- Puts an edition that is made in the place of its organization's current one, if a step is all
-- that it lacks. One that was dropped meanwhile, as the zone has changed again, takes nobody's
-- place.
create function use_made_editions(p_orgs text[], p_entries integer)
returns void language plpgsql as $$
declare
  v_made bigint[] := array(select e.edition from spend_editions e
    where e.org_id = any (p_orgs) and e.state = 'making' and p_entries > (select coalesce(sum(w.seq - coalesce(c.folded_seq, 0)), 0)
      from wallets w left join spend_cursors c on c.wallet_id = w.id and c.edition = e.edition where w.org_id = e.org_id)
    for update of e);
begin
  update spend_editions e set state = 'dropped' from spend_editions m
  where m.edition = any (v_made) and e.org_id = m.org_id and e.state = 'current';
  update spend_editions e set state = 'current' where e.edition = any (v_made);
end $$;

-- The day of a moment by the calendar of a zone. A day begins where its midnight is, and if clocks
-- show that twice, at the second one, as statements and windows of budgets have it: the hour before
-- belongs to the day before.
create function local_day(p_at timestamptz, p_zone text) returns date language sql stable as $$
  select (p_at at time zone p_zone)::date
    - case when ((p_at at time zone p_zone)::date::timestamp at time zone p_zone) > p_at then 1 else 0 end
$$;

-- When the hour of a moment began, by the clocks of a zone. An hour that comes twice is two; where
-- clocks change by half an hour, that hour has 30 minutes or 90.
create function local_hour(p_at timestamptz, p_zone text)
returns timestamptz language sql stable as $$
  select case when (date_trunc('hour', p_at, p_zone) at time zone p_zone) = date_trunc('hour', p_at at time zone p_zone)
    then date_trunc('hour', p_at, p_zone) else date_trunc('hour', p_at at time zone p_zone) at time zone p_zone end
$$;

-- What one settlement adds to spend, with the call that it is of. An hour that was held and never
-- settled costs nothing and counts no call, nor does one that failed for nothing, also after its
-- hold had expired; a charge beyond a bound counts no second one. So it is the same whenever it is
-- looked at.
create function spend_of(t wallet_transactions, r reservations, p_time_zone text)
returns table(day date, hour timestamptz, key_id text, user_id text, team_id text, agent_id text,
  family text, provider text, model text, session_id text, tags text[], cost_nanos numeric, requests
  bigint, prompt_tokens numeric, completion_tokens numeric, cached_tokens numeric) language sql
  stable as $$
  select local_day(t.created_at, p_time_zone), local_hour(t.created_at, p_time_zone),
    coalesce(r.key_id, ''), coalesce(r.user_id, ''),
    coalesce(r.team_id, ''), coalesce(r.agent_id, ''), coalesce(r.family, ''), coalesce(t.provider, ''), coalesce(t.model, ''),
    r.session_id, r.tags, coalesce(t.actual_cost_nanos, 0)::numeric, c.calls,
    case c.calls when 1 then coalesce((r.usage ->> 'prompt_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'completion_tokens')::numeric, 0) else 0 end,
    case c.calls when 1 then coalesce((r.usage ->> 'cached_tokens')::numeric, 0) else 0 end
  from (select case when (t.phase = 'late' and (t.actual_cost_nanos > 0 or r.outcome = 'completed'))
      or (t.phase = 'close' and r.status = 'settled') then 1 else 0 end::bigint as calls) as c
$$;

----------------------------------------------------------------------------------------------------
-- Cost tickets
----------------------------------------------------------------------------------------------------

-- Cost tickets that wait, are redeemed, approved, denied and expire: their rows, and who is told
-- when something changes.

create table cost_tickets (
  id text primary key default new_id('ticket'),
  org_id text not null references organizations,
  status text not null default 'open'
    check (status in ('open', 'approved', 'denied', 'redeemed', 'expired')),
  key_id text,
  user_id text,
  team_id text,
  agent_id text,
  session_id text,
  provider text not null,
  model text not null,
  request_body_hash text not null,
  -- What must be covered, buffer included.
  estimated_cost_nanos bigint not null,
  currency text not null,
  -- The refused reserve, to be run again when somebody pays or approves.
  reserve jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  resolved_at timestamptz,
  decided_by text,
  decided_at timestamptz,
  note text,
  credited_nanos bigint,
  transaction_id text,
  -- The hold it was approved or redeemed with, and the call that took it.
  reservation_id text,
  -- Verdicts that were recorded: one that is delivered again changes nothing, also after the ticket
  -- was opened again.
  verdict_ids text[] not null default '{}',
  request_id text,
  -- A cost ticket keeps the trace of the call that opened it, so that its workflow joins that
  -- trace. It stands beside the stored reserve, not in it: a reserve's digest tells repeats apart,
  -- and a repeat may come in another trace.
  trace jsonb,
  -- The verdicts that were refused, each by its id with the code; the newest 200.
  refused_verdicts jsonb not null default '{}',
  -- balance, or budget if a budget has no room, whether or not money is missing too.
  cause text not null default 'balance',
  -- The rule that approved it; decided_by is `rule` then.
  approval_rule_id text,
  -- The budgets that had no room as it was opened or, if it was denied or has expired, as it was
  -- closed; of an approval those that it raised, with how much. Null if it is about money alone.
  budgets jsonb
);
create index cost_tickets_agent on cost_tickets (org_id, agent_id, created_at desc)
where agent_id is not null;
create index cost_tickets_cause on cost_tickets (org_id, cause, created_at desc);
create index cost_tickets_due on cost_tickets (expires_at) where status = 'open';
create index cost_tickets_model on cost_tickets (org_id, model, created_at desc);
-- The same caller with the same body finds its open ticket again.
create unique index cost_tickets_open on cost_tickets (org_id, key_id, user_id, team_id, agent_id,
  session_id, provider, model, request_body_hash) nulls not distinct
where status = 'open';
create index cost_tickets_org on cost_tickets (org_id, created_at desc);
create index cost_tickets_status on cost_tickets (org_id, status, created_at desc);
create index cost_tickets_team on cost_tickets (org_id, team_id, created_at desc)
where team_id is not null;
-- Lists of one asker, of a team's admin, and of what is rare among many.
create index cost_tickets_user on cost_tickets (org_id, user_id, created_at desc)
where user_id is not null;

-- Calls that wait in redeem, oldest first. A row outlives its wait, so that `since` survives a
-- change of ticket.
create table ticket_waiters (
  org_id text not null,
  request_id text not null,
  ticket_id text not null,
  -- The redeem as it was asked, run again when its turn comes.
  redeem jsonb not null,
  user_id text,
  team_id text,
  -- What a wallet must cover by the price of the last look.
  need_nanos bigint,
  since timestamptz not null,
  until timestamptz not null,
  answer jsonb,
  -- What its gateway said of the call, as cost_tickets.trace; somebody else's transaction may serve
  -- it.
  trace jsonb,
  -- It needs so much by the prices of this moment.
  priced_at timestamptz not null default now(),
  constraint ticket_waiters_pkey primary key (org_id, request_id)
) with (fillfactor = 50);
create index ticket_waiters_ticket on ticket_waiters (ticket_id);
create index ticket_waiters_turns on ticket_waiters (org_id, since, request_id)
where answer is null;
create index ticket_waiters_until on ticket_waiters (until);

-- When an organization was last told that a key, or it itself (null), has as many tickets open as
-- it may have.
create table ticket_bounds (
  org_id text not null,
  key_id text,
  told_at timestamptz not null,
  constraint ticket_bounds_org_id_key_id_key unique nulls not distinct (org_id, key_id)
);

-- The ledger's entries of approvals: what tells them from a gift.
create table approval_entries (
  transaction_id text primary key,
  org_id text not null references organizations,
  cost_ticket_id text not null,
  -- Id of the person or key, or `rule`.
  decided_by text not null,
  approval_rule_id text,
  created_at timestamptz not null default clock_timestamp()
);

-- What an organization approves without a person: calls that cost no more than this, and no more
-- than that a day of its calendar.
create table approval_rules (
  id text primary key default new_id('rule'),
  org_id text not null references organizations,
  name text not null,
  -- Null: of any team, and of none.
  team_id text references teams,
  max_per_call_nanos bigint not null check (max_per_call_nanos > 0),
  max_per_day_nanos bigint not null check (max_per_day_nanos > 0),
  -- The wallet that pays what is missing.
  source text not null check (source in ('team', 'organization')),
  -- The day that is counted, and what the calls approved in it were to cost at most.
  day_ends_at timestamptz not null default '-infinity'::timestamptz,
  approved_nanos bigint not null default 0,
  approvals integer not null default 0,
  created_by text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  constraint approval_rules_team check (source <> 'team' or team_id is not null)
) with (fillfactor = 50);
create index approval_rules_org on approval_rules (org_id) where archived_at is null;

-- A waiter between two calls of one hold keeps its place in the queue for so long, but gets
-- nothing.
create function waiter_grace() returns interval language sql immutable as $$ select interval '2 seconds' $$;

-- Tells every API that something has changed for the calls that wait in an organization, if any do.
create function notify_waiters(p_org_id text) returns void language plpgsql as $$
begin
  if exists (select 1 from ticket_waiters w where w.org_id = p_org_id
      and w.until > clock_timestamp() - waiter_grace()) then
    perform pg_notify('tickets', p_org_id);
  end if;
end $$;

create function notify_waiters_of_row() returns trigger language plpgsql as $$
begin
  perform notify_waiters(new.org_id);
  return null;
end $$;

-- A waiting call whose agent or team is archived, or whose budget or cap is changed or filled from
-- outside, is told at once. What calls themselves spend raises a wallet, which tells them too.
create trigger agents_end after update of archived_at on agents
for each row when (new.archived_at is not null and old.archived_at is null)
execute function notify_waiters_of_row();

-- A waiting call is told at once if a budget was raised, changed or taken away.
create trigger budgets_change after insert or update of limit_nanos, budget_window, on_exceed,
  raised_nanos, archived_at on budgets
for each row
execute function notify_waiters_of_row();

create trigger cost_tickets_resolve after update of status on cost_tickets
for each row when (new.status <> old.status)
execute function notify_waiters_of_row();

-- So is one whose person leaves the organization.
create trigger memberships_end after update of archived_at on memberships
for each row when (new.archived_at is not null and old.archived_at is null)
execute function notify_waiters_of_row();

create trigger teams_end after update of archived_at on teams
for each row when (new.archived_at is not null and old.archived_at is null)
execute function notify_waiters_of_row();

create trigger tokens_change after update of max_budget_nanos on tokens
for each row when (new.max_budget_nanos is distinct from old.max_budget_nanos and new.org_id is not
  null)
execute function notify_waiters_of_row();

-- A waiting call whose key ends is told at once, and blocks nobody.
create trigger tokens_end after update of revoked_at on tokens
for each row when (new.revoked_at is not null and old.revoked_at is null and new.org_id is not null)
execute function notify_waiters_of_row();

create trigger usage_constraints_change after insert or update on usage_constraints
for each row
execute function notify_waiters_of_row();

create trigger usage_increments_fill after insert on usage_increments
for each row
execute function notify_waiters_of_row();

-- An approved ticket ends with its hold.
create function expire_with_hold() returns trigger language plpgsql as $$
begin
  perform resolve_ticket(t.id, 'expired', false) from cost_tickets t where t.id = new.cost_ticket_id and t.status = 'approved';
  return null;
end $$;

create trigger reservations_lapse after update of status on reservations
for each row when (new.cost_ticket_id is not null and old.status = 'open' and new.status =
  'expired')
execute function expire_with_hold();

create type redeem_item as (
  ticket_id text,
  family text,
  agent_id text,
  -- The client named the ticket: it pays for this call or for none.
  is_brought boolean,
  key_id text,
  secret_id text,
  user_id text,
  request_id text,
  request_body_hash text,
  wait_ms integer
);

-- Wakes the organization's lifetimes workflow where a deadline comes before the one that it sleeps
-- to.
create function wake_lifetimes(p_org_id text, p_deadline timestamptz)
returns void language plpgsql as $$
begin
  update organizations o set lifetimes_next_at = p_deadline
  where o.id = p_org_id and (o.lifetimes_next_at is null or p_deadline < o.lifetimes_next_at);
  if found then
    perform send_to_workflow(p_org_id, 'reservationLifetimes', 'lifetimes-' || p_org_id, 'wake',
      jsonb_build_object('org_id', p_org_id));
  end if;
end $$;

-- Runs a ticket's reserve again for one call, paid by the wallet whose turn it is (none where
-- empty). The row says it all: a hold, a refusal, or 402 with today's numbers.
create function redeem_open(p_org_id text, t cost_tickets, i redeem_item, p_wallet_id text)
returns lane_row language plpgsql as $$
declare
  v_row lane_row;
  a lane_answer;
begin
  select * into v_row from reserve_2(p_org_id, jsonb_build_array(t.reserve - 'secret_id' || jsonb_strip_nulls(jsonb_build_object(
    'request_id', i.request_id, 'secret_id', i.secret_id, 'wallet_id', p_wallet_id, 'cost_ticket_id', t.id))));
  a := v_row.answer;
  if a.code is null then
    update cost_tickets q set reservation_id = a.reservation_id, request_id = i.request_id where q.id = t.id;
    perform resolve_ticket(t.id, 'redeemed', false);
    perform move_waiters(t);
  end if;
  return v_row;
end $$;

-- Why a redeem is refused whatever the wallets hold; null where the ticket is open or approved and
-- the call may have it.
create function redeem_refusal(t cost_tickets, i redeem_item)
returns text language sql stable as $$
  select case
    when t.id is null then 'ticket_not_found'
    when t.reserve ->> 'request_body_hash' is distinct from i.request_body_hash or t.reserve ->> 'family' <> i.family
      or (i.agent_id is not null and i.agent_id is distinct from t.agent_id)
      or case when t.key_id is null then t.user_id is distinct from i.user_id else t.key_id is distinct from i.key_id end
      then 'ticket_owner_differs'
    when t.status = 'denied' then 'ticket_denied'
    when t.status = 'redeemed' then 'ticket_redeemed'
    when t.status = 'expired' or t.expires_at <= clock_timestamp() then 'ticket_expired' end
$$;

-- A refused redeem shows its own ticket, with what a person wrote when denying it.
create function refused_redeem(t cost_tickets, p_code text)
returns lane_row language plpgsql stable as $$
declare
  v_row lane_row;
begin
  v_row.answer.code := p_code;
  if p_code not in ('ticket_not_found', 'ticket_owner_differs') then
    v_row.answer.cost_ticket := ticket_answer(t, '{}') || jsonb_strip_nulls(jsonb_build_object('note', t.note));
  end if;
  return v_row;
end $$;

-- What costTicket does at the deadline: expires the ticket where it is still open. Returns the
-- milliseconds that are left while it has some, 0 once it is closed.
create function expire_ticket(p_ticket_id text) returns double precision language plpgsql as $$
declare
  t cost_tickets;
begin
  select * into t from cost_tickets q where q.id = p_ticket_id;
  if t.id is null or t.status <> 'open' then
    return 0;
  end if;
  perform lock_organization(t.org_id);
  select * into t from cost_tickets q where q.id = p_ticket_id;
  if t.status = 'open' and t.expires_at <= clock_timestamp() then
    perform resolve_ticket(t.id, 'expired', true);
    return 0;
  end if;
  return case t.status when 'open' then greatest(ceil(extract(epoch from t.expires_at - clock_timestamp()) * 1000), 1) else 0 end;
end $$;

-- Serves an organization's queue and says what the named calls have been answered, whoever served
-- them. Every API calls it whenever something changes: a look without the lock first, then the walk
-- under it, oldest first and a few dozen at most, so that a long queue never keeps the ledger; a
-- call that is served tells the APIs to look again.
create function redeem_waiting(p_org_id text, p_request_ids text[])
returns table(request_id text, answer lane_answer, max_completion_tokens bigint, warnings jsonb,
  resets_at timestamptz) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  w record;
  v_repriced boolean;
  v_walk_max constant integer := 32;
begin
  if waiters_may_go(p_org_id) then
    perform lock_organization(p_org_id);
    -- A walk that found changed prices is walked again.
    for attempt in 1 .. 3 loop
      v_repriced := false;
      for w in select s.request_id as name, s.wallet_id from waiters_to_serve(p_org_id, v_walk_max) s loop
        if not serve_waiter(p_org_id, w.name, w.wallet_id) then
          v_repriced := true;
        end if;
      end loop;
      exit when not v_repriced;
    end loop;
  end if;
  return query
    select q.request_id, (n.r).answer, (n.r).max_completion_tokens, (n.r).warnings, (n.r).resets_at
    from ticket_waiters q
    cross join lateral (select jsonb_populate_record(null::lane_row, q.answer) as r) as n
    where q.org_id = p_org_id and q.request_id = any (p_request_ids) and q.answer is not null;
end $$;

-- A credit and a hold that an approval made together; `code` says why neither was made.
create type funded_hold as (
  code text,
  transaction_id text,
  answer lane_answer
);

-- True if a ticket's request may hold nothing any more: its key has ended, or its person has left.
-- Each waiting call is looked at in each turn, so the looks are written out.
create function key_has_ended(t cost_tickets) returns boolean language sql stable as $$
  select (t.key_id is not null and exists (select 1 from tokens k where k.id = t.key_id
    and (k.revoked_at is not null or k.expires_at <= clock_timestamp())))
    or (t.user_id is not null and not exists (select 1 from memberships q where q.org_id = t.org_id and q.user_id = t.user_id
      and q.archived_at is null))
    or (t.user_id is not null and t.team_id is not null and not exists (select 1 from team_members q where q.team_id = t.team_id
      and q.user_id = t.user_id))
$$;

create function notify_waiters_of_team() returns trigger language plpgsql as $$
begin
  perform notify_waiters(t.org_id) from teams t where t.id = old.team_id;
  return null;
end $$;

-- A waiting call whose person leaves its team is told at once, and blocks nobody.
create trigger team_members_leave after delete on team_members
for each row
execute function notify_waiters_of_team();

-- Finds the hold that a reserve of the same call made beside its ticket: one try of the reserve was
-- refused, a later one was covered. Null if there is none, or if it is another request's.
create function plain_hold(t cost_tickets, p_request_id text)
returns reservations language sql stable as $$
  select q from reservations q
  where q.org_id = t.org_id and q.request_id = p_request_id and q.status = 'open' and q.cost_ticket_id is null
    and (q.provider, q.model, q.family, q.request_body_hash)
      is not distinct from (t.provider, t.model, t.reserve ->> 'family', t.reserve ->> 'request_body_hash')
    and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
      is not distinct from (t.key_id, t.user_id, t.team_id, t.agent_id, t.session_id)
$$;

-- Redeems tickets for calls, in the given order. Invariant: one ticket pays for one call, and no
-- call overtakes an older one that waits for the same wallet. With `wait_ms` a call that is not
-- covered stays in the queue. A call that holds money already, by a reserve of its own, goes on
-- with that.
create function redeem(p_org_id text, p_items jsonb)
returns setof lane_row language plpgsql as $$
declare
  v_org organizations;
  e record;
  i redeem_item;
  t cost_tickets;
  r reservations;
  v_plain reservations;
  v_code text;
  v_row lane_row;
begin
  v_org := lock_organization(p_org_id);
  for e in
    select v.n::integer as n, jsonb_populate_record(null::redeem_item, v.value) as body
    from jsonb_array_elements(p_items) with ordinality as v (value, n) order by v.n
  loop
    i := e.body;
    t := ticket_to_redeem(p_org_id, i);
    select * into r from reservations q where q.org_id = p_org_id and q.request_id = i.request_id;
    v_code := redeem_refusal(t, i);
    v_plain := case when t.id is not null and r.id is not null then plain_hold(t, i.request_id) end;
    if v_plain.id is not null and v_code is not null then
      v_row := refused_redeem(t, v_code);
    elsif v_plain.id is not null then
      v_row := adopt_hold(t, v_plain);
      delete from ticket_waiters q where q.org_id = p_org_id and q.request_id = i.request_id;
    elsif t.id is not null and r.id is not null and v_code is distinct from 'ticket_owner_differs' then
      v_row := repeated_redeem(t, r);
    elsif v_code is not null then
      v_row := refused_redeem(t, v_code);
    elsif t.status = 'approved' then
      v_row := claim_approved(t, i, null);
    else
      v_row := redeem_in_turn(v_org, t, i);
    end if;
    if (v_row.answer).code = 'ticket_expired' and t.status in ('open', 'approved') then
      perform resolve_ticket(t.id, 'expired', false);
    end if;
    v_row.answer.op := 'redeem';
    v_row.answer.n := e.n;
    return next v_row;
  end loop;
end $$;

-- Serves one waiting call and keeps its answer in the queue. False if its price has changed, so
-- that its wallet no longer covers it: then it goes on waiting for the new amount.
create function serve_waiter(p_org_id text, p_request_id text, p_wallet_id text)
returns boolean language plpgsql as $$
declare
  i redeem_item;
  t cost_tickets;
  r reservations;
  v_code text;
  v_row lane_row;
begin
  -- Read again: an earlier turn may have moved it to another ticket.
  select p.* into i from ticket_waiters x cross join lateral jsonb_populate_record(null::redeem_item, x.redeem) as p
  where x.org_id = p_org_id and x.request_id = p_request_id and x.answer is null;
  if i.ticket_id is null then
    return true;
  end if;
  select * into t from cost_tickets q where q.id = i.ticket_id;
  v_code := redeem_refusal(t, i);
  r := plain_hold(t, p_request_id);
  v_row := case
    when v_code is not null then refused_redeem(t, v_code)
    when r.id is not null then adopt_hold(t, r)
    when t.status = 'approved' then claim_approved(t, i, null)
    else redeem_open(p_org_id, t, i, p_wallet_id) end;
  if (v_row.answer).code = 'ticket_expired' and t.status in ('open', 'approved') then
    perform resolve_ticket(t.id, 'expired', false);
  end if;
  if (v_row.answer).code = 'insufficient_balance' then
    update ticket_waiters q set need_nanos = ((v_row.answer).cost_ticket ->> 'estimated_cost_nanos')::bigint
    where q.org_id = p_org_id and q.request_id = p_request_id;
    return false;
  end if;
  v_row.answer.op := 'redeem';
  update ticket_waiters q set answer = to_jsonb(v_row) where q.org_id = p_org_id and q.request_id = p_request_id;
  return true;
end $$;

-- Tells every API that a wallet has more for the calls that wait, and keeps it for them: new money
-- up to what they need, what holds gave back up to what this wallet can pay with all of its holds.
create function keep_for_waiters() returns trigger language plpgsql as $$
declare
  v_needs record;
  v_new_money numeric;
  v_kept numeric := greatest(least(old.kept_nanos, old.balance_nanos), 0);
begin
  if not exists (select 1 from ticket_waiters w where w.org_id = new.org_id
      and w.until > clock_timestamp() - waiter_grace()) then
    new.kept_nanos := 0;
    return new;
  end if;
  perform pg_notify('tickets', new.org_id);
  v_new_money := greatest((new.balance_nanos::numeric + new.reserved_nanos) - (old.balance_nanos::numeric + old.reserved_nanos), 0);
  select * into v_needs from waiting_needs(new, new.balance_nanos::numeric + new.reserved_nanos);
  new.kept_nanos := greatest(
    least(v_kept + v_new_money, v_needs.all_nanos),
    least(v_kept + new.balance_nanos - old.balance_nanos, v_needs.covered_nanos));
  return new;
end $$;

create trigger wallets_rise before update of balance_nanos on wallets
for each row when (new.balance_nanos > old.balance_nanos)
execute function keep_for_waiters();

-- Gives free what is kept for calls that no longer wait.
create function trim_kept(p_org_id text) returns void language sql as $$
  update wallets w set kept_nanos = least(w.kept_nanos, (select n.all_nanos from waiting_needs(w, 0) as n))
  where w.org_id = p_org_id and w.kept_nanos > 0
$$;

-- Reads anew what is kept of a wallet.
create function with_kept(w cascade_wallet) returns cascade_wallet language sql stable as $$
  select case when w.kept_nanos > 0
    then (w.id, w.owner_type, w.balance_nanos, (select q.kept_nanos from wallets q where q.id = w.id))::cascade_wallet
    else w end
$$;

create function keep_waiter_trace() returns trigger language plpgsql as $$
begin
  new.trace := trace_of(new.request_id);
  return new;
end $$;

create trigger keep_waiter_trace before insert on ticket_waiters
for each row
execute function keep_waiter_trace();

-- A ticket keeps what is said of the call that opens it: by its reserve, or by its redeem if it has
-- waited on another ticket.
create function keep_ticket_trace() returns trigger language plpgsql as $$
begin
  new.trace := coalesce(trace_of(new.reserve ->> 'request_id'), (select w.trace from ticket_waiters w
    where w.org_id = new.org_id and w.request_id = new.reserve ->> 'request_id'));
  return new;
end $$;

create trigger keep_ticket_trace before insert on cost_tickets
for each row
execute function keep_ticket_trace();

-- One ticket pays for one call: the others that waited on it wait on a new one, which people see,
-- and keep their places. The oldest of them is the call that the new one is asked for.
create function move_waiters(t cost_tickets) returns void language plpgsql as $$
declare
  v_org organizations;
  i reserve_item := jsonb_populate_record(null::reserve_item, t.reserve);
  v_need numeric;
  v_new_id text;
begin
  select w.request_id into i.request_id from ticket_waiters w
  where w.org_id = t.org_id and w.ticket_id = t.id and w.answer is null
    and not coalesce((w.redeem ->> 'is_brought')::boolean, false)
    and w.request_id is distinct from (select q.request_id from cost_tickets q where q.id = t.id)
    and w.until > clock_timestamp() - waiter_grace()
  order by w.since, w.request_id limit 1;
  if not found then
    return;
  end if;
  select * into v_org from organizations o where o.id = t.org_id;
  v_need := coalesce(need_today(v_org, i), t.estimated_cost_nanos);
  -- It takes the place of the one that was redeemed.
  v_new_id := ticket_for(v_org, i, least(v_need, 9000000000000000000)::bigint, '{}') ->> 'id';
  update ticket_waiters w set ticket_id = v_new_id, redeem = w.redeem || jsonb_build_object('ticket_id', v_new_id)
  where w.org_id = t.org_id and w.ticket_id = t.id and w.answer is null
    and not coalesce((w.redeem ->> 'is_brought')::boolean, false)
    and w.request_id is distinct from (select q.request_id from cost_tickets q where q.id = t.id);
end $$;

-- How many cost tickets of a key or an organization may be open at one time.
create function open_tickets_max(p_param text) returns integer language sql immutable as $$
  select case p_param when 'key_id' then 50 when 'org_id' then 500 end
$$;

-- The bound that one more ticket of this item would exceed, as {param, open, resets_at}; null if
-- there is room. A call without a key is bounded by its organization alone.
create function exceeded_bound(p_org_id text, i reserve_item)
returns jsonb language sql stable as $$
  with living as (
    select q.expires_at from cost_tickets q
    where q.org_id = p_org_id and q.status = 'open' and q.expires_at > clock_timestamp()
    order by q.expires_at limit open_tickets_max('org_id')
  ), of_key as (
    select q.expires_at from cost_tickets q
    where q.org_id = p_org_id and q.key_id = i.key_id and q.status = 'open' and q.expires_at > clock_timestamp()
    order by q.expires_at limit open_tickets_max('key_id')
  )
  select jsonb_build_object('param', b.param, 'open', b.open, 'resets_at', b.resets_at)
  from (select 'key_id', count(*), min(k.expires_at) from of_key k
    union all select 'org_id', count(*), min(l.expires_at) from living l) as b (param, open, resets_at)
  where b.open >= open_tickets_max(b.param) order by b.param limit 1
$$;

-- Notes that a verdict was refused.
create function note_refused_verdict(p_ticket_id text, p_verdict jsonb, p_code text)
returns void language sql as $$
  update cost_tickets q set refused_verdicts = case
      when (select count(*) from jsonb_object_keys(q.refused_verdicts)) < 200 then q.refused_verdicts else '{}' end
    || jsonb_build_object(p_verdict ->> 'id', p_code)
  where q.id = p_ticket_id and p_verdict ->> 'id' is not null and not q.refused_verdicts ? (p_verdict ->> 'id')
    and p_code not in ('repeated', 'ticket_not_found')
$$;

-- Who asks, as each event of a ticket names them.
create function ticket_caller(t cost_tickets) returns jsonb language sql immutable as $$
  select jsonb_build_object('user_id', t.user_id, 'team_id', t.team_id, 'key_id', t.key_id, 'agent_id', t.agent_id)
$$;

-- A redeemed hold that is canceled unused gives its ticket back: the call found no slot, or its
-- client has gone.
create function reopen_ticket() returns trigger language plpgsql as $$
declare
  t cost_tickets;
begin
  select * into t from cost_tickets q where q.id = new.cost_ticket_id and q.status = 'redeemed'
    and q.expires_at > clock_timestamp();
  if t.id is null or exists (select 1 from cost_tickets q where q.status = 'open'
      and (q.org_id, q.provider, q.model, q.request_body_hash) = (t.org_id, t.provider, t.model, t.request_body_hash)
      and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
        is not distinct from (t.key_id, t.user_id, t.team_id, t.agent_id, t.session_id)) then
    return null;
  end if;
  update cost_tickets q set status = 'open', reservation_id = null, request_id = null, resolved_at = null, decided_by = null,
    decided_at = null, note = null, credited_nanos = null, transaction_id = null, approval_rule_id = null
  where q.id = t.id returning * into t;
  perform append_event(t.org_id, 'cost_ticket.created', ticket_answer(t, '{}') || jsonb_build_object('cost_ticket_id', t.id,
    'request_id', new.request_id, 'reopened', true) || ticket_caller(t) || caller_of_hold(new));
  perform send_to_workflow(t.org_id, 'costTicket', t.id, null, jsonb_build_object('ticket_id', t.id));
  return null;
end $$;

create trigger reservations_reopen after update of status on reservations
for each row when (new.cost_ticket_id is not null and old.status = 'open' and new.status =
  'released' and new.outcome = 'canceled')
execute function reopen_ticket();

-- Says in one event for all refusals of ten minutes that a key or an organization has as many
-- tickets open as it may have.
create function tell_bound(p_org_id text, i reserve_item, p_bound jsonb)
returns void language plpgsql as $$
declare
  v_key_id text := case p_bound ->> 'param' when 'key_id' then i.key_id end;
  v_now timestamptz := clock_timestamp();
begin
  delete from ticket_bounds b where b.org_id = p_org_id and b.told_at <= v_now - interval '10 minutes';
  insert into ticket_bounds (org_id, key_id, told_at) values (p_org_id, v_key_id, v_now) on conflict (org_id, key_id) do nothing;
  if found then
    perform append_event(p_org_id, 'cost_ticket.exceeded', jsonb_build_object('key_id', v_key_id, 'user_id', i.user_id,
        'team_id', i.team_id,
        'open_tickets', p_bound -> 'open', 'resets_at', iso_time((p_bound ->> 'resets_at')::timestamptz),
        'request_id', i.request_id, 'agent_id', i.agent_id)
      || caller(trace_of(i.request_id), i.user_id, i.key_id, i.team_id));
  end if;
end $$;

-- True if a budget that does this beyond itself has no room for a waiting call, which money does
-- not help. Beyond one that refuses the call is ended; beyond one that asks it waits for a verdict,
-- a larger budget or the next window, and stops nobody. It is asked only where there is a budget.
create function waiter_is_barred(t cost_tickets, p_need_nanos bigint, p_on_exceed text)
returns boolean language sql stable as $$
  select exists (select 1 from budgets_of(t.org_id, t.key_id, t.user_id, t.team_id) as b where b.on_exceed = p_on_exceed
    and budget_used(b, clock_timestamp()) + p_need_nanos > budget_cap(b, clock_timestamp()))
$$;

-- A waiting call of an organization that is suspended is told at once.
create function notify_waiters_of_organization() returns trigger language plpgsql as $$
begin
  perform notify_waiters(new.id);
  return null;
end $$;

create trigger organizations_notify after update of suspended_at on organizations
for each row when (new.suspended_at is not null and old.suspended_at is null)
execute function notify_waiters_of_organization();

-- Sums up what the oldest waiting calls need of a wallet: all of them, and as many of the first as
-- the given money covers. So few are looked at that a long queue costs a settlement nothing; money
-- is kept for the rest as their turn comes near.
create function waiting_needs(w wallets, p_nanos numeric)
returns table(all_nanos numeric, covered_nanos numeric) language sql stable as $$
  select coalesce(sum(n.need_nanos), 0), coalesce(sum(n.need_nanos) filter (where n.so_far <= p_nanos), 0)
  from (
    select q.need_nanos, sum(q.need_nanos) over (order by q.since, q.request_id) as so_far
    from (
      select * from ticket_waiters o
      where o.org_id = w.org_id and o.answer is null and o.until > clock_timestamp() - waiter_grace()
        and (w.owner_type = 'organization' or o.team_id = w.owner_team_id or o.user_id = w.owner_user_id)
      order by o.since, o.request_id limit 32
    ) as q
    join cost_tickets t on t.id = q.ticket_id and t.status = 'open' and t.expires_at > clock_timestamp()
      and not waiter_has_ended(t, q.need_nanos) and not ((select exists (select 1 from budgets b where b.org_id = w.org_id and b.archived_at is null))
        and (waiter_is_barred(t, q.need_nanos, 'refuse') or waiter_is_barred(t, q.need_nanos, 'ticket')))
  ) as n
$$;

-- Lists the waiting calls to serve now: first those that have come to an end, by no wallet; then
-- those whose turn it is, with the wallet that they take. Both are in the order of the queue.
create function waiters_to_serve(p_org_id text, p_turns_max integer)
returns table(request_id text, wallet_id text) language sql stable as $$
  (select q.request_id, '' from ticket_waiters q
  join cost_tickets o on o.id = q.ticket_id
  where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp()
    and (o.status <> 'open' or o.expires_at <= clock_timestamp() or waiter_has_ended(o, q.need_nanos)
      or ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
        and waiter_is_barred(o, q.need_nanos, 'refuse')))
  order by q.since, q.request_id)
  union all
  select s.request_id, s.wallet_id from waiter_turns(p_org_id, p_turns_max) s
  where s.is_live and s.wallet_id is not null
$$;

-- Answers a redeem whose request_id has a reservation already: with that one, if this ticket paid
-- for it.
create function repeated_redeem(t cost_tickets, r reservations)
returns lane_row language plpgsql stable as $$
declare
  v_row lane_row;
begin
  v_row.answer := repeated_hold(null, r, r.body_sha256, (select h.balance_after_nanos from wallet_transactions h
    where h.reservation_id = r.id and h.phase = 'hold'));
  if r.status = 'released' and r.outcome = 'canceled' then
    v_row.answer.code := 'request_canceled';
  elsif r.status <> 'canceled' and r.cost_ticket_id is distinct from t.id then
    v_row.answer.code := 'idempotency_key_reused';
  end if;
  v_row.max_completion_tokens := r.max_completion_tokens;
  v_row.own_keys := r.own_keys;
  return v_row;
end $$;

-- Redeems a ticket with the hold that its call has already. What an approval holds for the ticket
-- is given back: one call is paid once.
create function adopt_hold(t cost_tickets, r reservations)
returns lane_row language plpgsql as $$
declare
  v_row lane_row;
begin
  if t.status = 'approved' then
    perform from settle_3(t.org_id, jsonb_build_array(jsonb_build_object('reservation_id', t.reservation_id, 'outcome', 'canceled')));
  end if;
  update reservations q set cost_ticket_id = t.id where q.id = r.id;
  update cost_tickets q set reservation_id = r.id, request_id = r.request_id where q.id = t.id;
  perform resolve_ticket(t.id, 'redeemed', false);
  perform move_waiters(t);
  v_row.answer := repeated_hold(null, r, r.body_sha256, (select h.balance_after_nanos from wallet_transactions h
    where h.reservation_id = r.id and h.phase = 'hold'));
  v_row.max_completion_tokens := r.max_completion_tokens;
  v_row.own_keys := r.own_keys;
  return v_row;
end $$;

-- Says what a refused reserve must be covered by at today's prices, buffer included; null if it has
-- no price any more.
create function need_today(p_org organizations, i reserve_item)
returns numeric language sql stable as $$
  select amount_to_hold((quote_reserve_3(p_org, i)).usd_nanos, rate_of(p_org.currency),
    p_org.reserve_buffer_pct)
$$;

-- What a verdict may take of a wallet: a rule's leaves alone what is kept for calls that wait, a
-- person's goes before them.
create function free_for_verdict(w wallets, p_verdict jsonb)
returns bigint language sql immutable as $$
  select w.balance_nanos - case when p_verdict ->> 'approval_rule_id' is not null
    then greatest(least(w.kept_nanos, w.balance_nanos), 0) else 0 end
$$;

-- Raises budgets, fills a wallet and holds a ticket's cost in it. Invariant: all of it happens, or
-- nothing; if a key, budget or cap refuses the hold, the money and the room have never been.
create function fund_raise_and_hold(t cost_tickets, w wallets, p_from wallets,
  p_amount_nanos bigint, p_need_nanos numeric, p_verdict jsonb)
returns funded_hold language plpgsql as $$
declare
  v_ids text[] := '{}';
  v_entry_id text;
  v_answer lane_answer;
  v_kept_nanos bigint;
  v_words text := 'approved cost ticket ' || t.id || coalesce(' by ' || acting(), '') || coalesce(': ' || (p_verdict ->> 'note'), '');
begin
  perform raise_budgets(t, p_need_nanos, p_verdict);
  if p_amount_nanos > 0 and p_from.id is not null then
    select array_agg(q.id), min(q.id) filter (where q.wallet_id = w.id) into v_ids, v_entry_id
    from transfer(t.org_id, p_from.id, w.id, p_amount_nanos, v_words) q;
  elsif p_amount_nanos > 0 then
    v_entry_id := (credit(t.org_id, w.id, p_amount_nanos, v_words)).id;
    v_ids := array[v_entry_id];
  end if;
  insert into approval_entries (transaction_id, org_id, cost_ticket_id, decided_by, approval_rule_id)
  select x, t.org_id, t.id, p_verdict ->> 'by', p_verdict ->> 'approval_rule_id' from unnest(v_ids) as x;
  select q.kept_nanos into v_kept_nanos from wallets q where q.id = w.id;
  select (r.answer).* into v_answer from reserve_2(t.org_id, jsonb_build_array(t.reserve - 'secret_id'
    || jsonb_strip_nulls(jsonb_build_object('request_id', 'ticket:' || t.id || ':' || new_id('hold'),
      'cost_ticket_id', t.id, 'wallet_id', w.id)))) r;
  if v_answer.code is not null then
    raise exception using errcode = 'SV001', message = v_answer.code;
  end if;
  -- What lies beside the kept money pays first: this hold is nobody's turn, as reserve_2 takes it to be.
  update wallets q set kept_nanos = least(v_kept_nanos, greatest(q.balance_nanos, 0)) where q.id = w.id and v_kept_nanos > 0;
  return (null, v_entry_id, v_answer)::funded_hold;
exception when sqlstate 'SV001' then
  return (sqlerrm, null, null)::funded_hold;
end $$;

-- Finds the ticket that a redeem means. A call may ask by the ticket that it came with, although it
-- has been moved to another one meanwhile, where it waits or which has paid for it; but a client
-- that names a ticket means that one.
create function ticket_to_redeem(p_org_id text, i redeem_item)
returns cost_tickets language plpgsql stable as $$
declare
  t cost_tickets;
  v_moved cost_tickets;
begin
  select * into t from cost_tickets q where q.id = i.ticket_id and q.org_id = p_org_id;
  if not coalesce(i.is_brought, false) then
    select q.* into v_moved from reservations r join cost_tickets q on q.id = r.cost_ticket_id
    where r.org_id = p_org_id and r.request_id = i.request_id and q.id <> t.id
      and (q.provider, q.model, q.request_body_hash) is not distinct from (t.provider, t.model, t.request_body_hash)
      and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
        is not distinct from (t.key_id, t.user_id, t.team_id, t.agent_id, t.session_id);
  end if;
  if v_moved.id is null and redeem_refusal(t, i) = 'ticket_redeemed' and not exists (
      select 1 from reservations r where r.org_id = p_org_id and r.request_id = i.request_id) then
    select q.* into v_moved from cost_tickets q join ticket_waiters w on w.ticket_id = q.id
    where w.org_id = p_org_id and w.request_id = i.request_id and w.answer is null and q.id <> t.id;
  end if;
  return case when v_moved.id is null then t else v_moved end;
end $$;

-- A refused reserve finds the caller's open ticket for the same body, or opens one if key and
-- organization have room for it. Else nothing is written: the answer is {unruled} if a rule may
-- approve the call at once, and if none may {exceeded}, with one event for many refusals.
create function open_ticket_2(p_org organizations, i reserve_item, p_held_nanos bigint,
  p_left jsonb)
returns jsonb language plpgsql as $$
declare
  v_bound jsonb;
begin
  if not exists (select 1 from cost_tickets q where q.org_id = p_org.id and q.status = 'open'
      and q.request_body_hash = concat_ws('#', i.request_body_hash, i.family)
      and (q.provider, q.model) = (i.provider, i.model)
      and (q.key_id, q.user_id, q.team_id, q.agent_id, q.session_id)
        is not distinct from (i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id)) then
    v_bound := exceeded_bound(p_org.id, i);
  end if;
  if v_bound is null then
    return ticket_for(p_org, i, p_held_nanos, p_left);
  end if;
  if exists (select 1 from approval_rules x where x.org_id = p_org.id and x.archived_at is null
      and (x.team_id is null or x.team_id = i.team_id) and p_held_nanos <= x.max_per_call_nanos
      and (x.day_ends_at <= clock_timestamp() or x.approved_nanos::numeric + p_held_nanos <= x.max_per_day_nanos)) then
    return jsonb_build_object('unruled', jsonb_build_object('left', p_left));
  end if;
  perform tell_bound(p_org.id, i, v_bound);
  return jsonb_build_object('exceeded', v_bound);
end $$;

-- Answers a reserve whose key or organization has as many open tickets as it may: with its hold, if
-- a rule approves it at once. A ticket that no rule approves has never been, and the bound refuses
-- the call.
create function reserve_beyond_bound(v_org organizations, p_row lane_row, i reserve_item)
returns lane_row language plpgsql as $$
declare
  a lane_answer := p_row.answer;
  -- Rules that approved others of the batch may have made room.
  v_bound jsonb := exceeded_bound(v_org.id, i);
  v_row lane_row := p_row;
begin
  begin
    v_row.answer.cost_ticket := ticket_for(v_org, i, a.reserved_amount_nanos, a.cost_ticket #> '{unruled,left}');
    v_row := ruled_reserve(v_org, v_row, i);
    if v_bound is null or (v_row.answer).code is distinct from 'insufficient_balance' then
      return v_row;
    end if;
    raise exception using errcode = 'SV003', message = 'no rule approves it';
  exception when sqlstate 'SV003' then
    perform tell_bound(v_org.id, i, v_bound);
  end;
  return uncovered_reserve(a.n, a.currency, a.estimated_cost_nanos, a.reserved_amount_nanos, jsonb_build_object('exceeded', v_bound));
end $$;

-- Why whoever gives a verdict may give none by now: their key or session has ended or lost
-- org:billing, or they have left, or have no role with it; of a team's admin, that they lead the
-- team no longer. Null: they may. A terminal may always.
create function decider_refusal(t cost_tickets, p_verdict jsonb)
returns text language sql stable as $$
  select 'approval_not_allowed' where p_verdict ->> 'by_terminal' is null and (
    (p_verdict ->> 'key_id' is not null and not exists (
      select 1 from tokens k where k.id = p_verdict ->> 'key_id' and k.revoked_at is null
        and coalesce(k.expires_at > clock_timestamp(), true) and session_lives(k)
        and (p_verdict ->> 'authority' = 'team' or k.scopes && case when (p_verdict ->> 'is_platform')::boolean
          then '{platform:admin}'::text[] else '{org:billing}' end)))
    or (p_verdict ->> 'authority' = 'team' and not exists (
      select 1 from team_members l
      join teams x on x.id = l.team_id and x.org_id = t.org_id and x.archived_at is null
      join memberships m on m.org_id = t.org_id and m.user_id = l.user_id and m.archived_at is null
      where l.team_id = t.team_id and l.user_id = p_verdict ->> 'user_id' and l.role = 'admin'))
    or (p_verdict ->> 'authority' is null and not coalesce((p_verdict ->> 'is_platform')::boolean, false)
      and exists (select 1 from users u where u.id = p_verdict ->> 'by')
      and not exists (select 1 from memberships m where m.org_id = t.org_id and m.user_id = p_verdict ->> 'by'
        and m.archived_at is null and m.role in ('owner', 'billing_admin'))))
$$;

-- Records a person's no.
create function deny_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table(code text, message text, ticket_id text) language plpgsql as $$
declare
  t cost_tickets;
begin
  perform lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := coalesce(verdict_refusal(t, p_verdict, 'denied'), decider_refusal(t, p_verdict));
  if code is null then
    update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note'
    where q.id = t.id;
    perform resolve_ticket(t.id, 'denied', p_verdict ->> 'by_terminal' is null);
  else
    perform note_refused_verdict(t.id, p_verdict, code);
  end if;
  return next;
end $$;

-- Records a person's yes: raises budgets, credits or moves what is missing, and holds it, in one
-- step. The row that it answers has a `code` if it is refused. `valid_until` keeps a verdict that
-- arrives late, after its sender was told to look again, from changing anything.
create function approve_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table(code text, message text, ticket_id text) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_org organizations;
  t cost_tickets;
begin
  v_org := lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := coalesce(verdict_refusal(t, p_verdict, 'approved'), decider_refusal(t, p_verdict), approve_open(v_org, t, p_verdict));
  if code is not null then
    perform note_refused_verdict(t.id, p_verdict, code);
  end if;
  return next;
end $$;

-- True if a call costs nothing, whatever it uses: each price that it may be charged is free, or
-- times a factor of 0. An own key's factor is on everything but the price per request. An estimate
-- of zero says less: such a call may cost something.
create function costs_nothing(p_org organizations, i reserve_item)
returns boolean language sql stable as $$
  select coalesce(bool_and(p.free or (
      (k.id is null or (k.price_factor = 0 and coalesce(p.per_request, 0) = 0
        and not coalesce(jsonb_path_exists(p.service_tiers, '$.**.per_request ? (@ > 0)'), false)
        and not coalesce(jsonb_path_exists(p.tiers, '$.**.per_request ? (@ > 0)'), false)
        and not coalesce(jsonb_path_exists(p.regions, '$.**.per_request ? (@ > 0)'), false)))
      and (k.own_keys is not distinct from 'only' or p_org.price_factor = 0))), false)
  from (select i.provider as provider, i.model as model
    union all select f ->> 'provider', f ->> 'model' from jsonb_array_elements(i.fallbacks) as f) as m
  cross join lateral price_for(m.provider, m.model) as p
  left join provider_keys k on i.own_keys and k.org_id = p_org.id and k.provider = m.provider and k.revoked_at is null
$$;

-- Reckons what the waiting calls of an organization need by today's prices. One that has no price
-- any more keeps what it needed.
create function reprice_waiters_of(p_org organizations) returns void language sql as $$
  update ticket_waiters w set priced_at = now(),
    need_nanos = case when n.nanos = 0 and costs_nothing(p_org, n.item) then null else least(n.nanos, 9000000000000000000) end
  from cost_tickets t
  cross join lateral (select q.item, need_today(p_org, q.item) as nanos
    from (select jsonb_populate_record(null::reserve_item, t.reserve) as item offset 0) as q offset 0) as n
  where w.org_id = p_org.id and w.answer is null and w.until > now() - waiter_grace()
    and t.id = w.ticket_id and t.status = 'open' and n.nanos is not null;
  -- Those without a price are not looked at again for the same change.
  update ticket_waiters w set priced_at = now()
  where w.org_id = p_org.id and w.answer is null and w.until > now() - waiter_grace() and w.priced_at < now();
$$;

-- So they do if an own key comes, goes, or is charged otherwise. The lock waits for calls that are
-- being put into the queue.
create function reprice_waiters_by_key() returns trigger language plpgsql as $$
begin
  perform reprice_waiters_of(lock_organization(new.org_id));
  perform notify_waiters(new.org_id);
  return null;
end $$;

create trigger provider_keys_reprice after insert or update of price_factor, own_keys, revoked_at on
  provider_keys
for each row when (new.org_id is not null)
execute function reprice_waiters_by_key();

-- True if a price or a rate has changed since the waiting calls of an organization were reckoned:
-- one was set, has come into force or is gone. An edit is seen once its transaction ends, so for
-- ten seconds after a change they are reckoned once a second.
create function needs_are_stale(p_org_id text) returns boolean language sql stable as $$
  select exists (select 1 from model_prices p where p.effective_from > s.since and p.effective_from <= now())
    or exists (select 1 from model_prices p where p.retired_at > s.since)
    or exists (select 1 from exchange_rates x where x.updated_at > s.since)
  from (
    select min(w.priced_at)
      - case when min(w.priced_at) < now() - interval '1 second' then interval '10 seconds' else interval '0' end as since
    from ticket_waiters w where w.org_id = p_org_id and w.answer is null and w.until > now() - waiter_grace()
  ) as s
$$;

-- Serves an organization's queue and says what the named calls have been answered, whoever served
-- them. Every API calls it whenever something changes: a look without the lock first, then the walk
-- under it, oldest first and a few dozen at most, so that a long queue never keeps the ledger; a
-- call that is served tells the APIs to look again.
create function redeem_waiting_2(p_org_id text, p_request_ids text[])
returns table(request_id text, answer lane_answer, max_completion_tokens bigint, warnings jsonb,
  resets_at timestamptz, own_keys jsonb) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  w record;
  v_org organizations;
  v_repriced boolean;
  v_walk_max constant integer := 32;
begin
  if needs_are_stale(p_org_id) then
    v_org := lock_organization(p_org_id);
    -- Whoever had the lock before may have done it.
    if needs_are_stale(p_org_id) then
      perform reprice_waiters_of(v_org);
    end if;
  end if;
  if waiters_may_go(p_org_id) then
    perform lock_organization(p_org_id);
    -- A walk that found changed prices is walked again.
    for attempt in 1 .. 3 loop
      v_repriced := false;
      for w in select s.request_id as name, s.wallet_id from waiters_to_serve(p_org_id, v_walk_max) s loop
        if not serve_waiter(p_org_id, w.name, w.wallet_id) then
          v_repriced := true;
        end if;
      end loop;
      exit when not v_repriced;
    end loop;
  end if;
  return query
    select q.request_id, (n.r).answer, (n.r).max_completion_tokens, (n.r).warnings, (n.r).resets_at, (n.r).own_keys
    from ticket_waiters q
    cross join lateral (select jsonb_populate_record(null::lane_row, q.answer) as r) as n
    where q.org_id = p_org_id and q.request_id = any (p_request_ids) and q.answer is not null;
end $$;

-- Answers a reserve that has a ticket: with its hold, if a rule approves it, else as it is. Of
-- several with one body the ticket is of the last; a ticket that is not this request's own any more
-- is not approved for it, and the request is judged again. Whoever has not been told yet that the
-- ticket waits is told nothing: nobody has to do anything.
create function ruled_reserve(v_org organizations, p_row lane_row, i reserve_item)
returns lane_row language plpgsql as $$
declare
  t cost_tickets;
  v_row lane_row;
begin
  if (p_row.answer).cost_ticket -> 'unruled' is not null then
    return reserve_beyond_bound(v_org, p_row, i);
  end if;
  select * into t from cost_tickets q where q.id = (p_row.answer).cost_ticket ->> 'id' and q.status = 'open';
  if (t.reserve ->> 'request_id') is distinct from i.request_id then
    select * into v_row from reserve_2(v_org.id, jsonb_build_array(jsonb_strip_nulls(to_jsonb(i))));
  elsif not approve_by_rule(v_org, t) then
    return p_row;
  else
    -- One that a sender is just putting into a message is not waited for: it says how the ticket stands.
    delete from notices n where n.id in (select q.id from notices q where q.cost_ticket_id = t.id and q.kind = 'ticket_created'
      and q.message_id is null order by q.id for update skip locked);
    select * into t from cost_tickets q where q.id = t.id;
    v_row := claim_approved(t, jsonb_populate_record(null::redeem_item, to_jsonb(i)), null);
    if (v_row.answer).code is not null then
      return p_row;
    end if;
  end if;
  v_row.answer.op := 'reserve';
  v_row.answer.n := (p_row.answer).n;
  return v_row;
end $$;

-- True for the wallets of a call's cascade: its user's, its team's and the organization's. It is
-- read as the condition it stands for.
create function may_pay(w wallets, p_user_id text, p_team_id text)
returns boolean language sql immutable as $$
  select w.owner_type = 'organization' or (w.owner_type = 'team' and w.owner_team_id = p_team_id)
    or (w.owner_type = 'user' and w.owner_user_id = p_user_id)
$$;

-- The wallet that an approval moves money from; none if it credits. A team admin's is the team's,
-- whatever they name.
create function approval_source(t cost_tickets, p_verdict jsonb, p_is_transfer boolean)
returns wallets language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and may_pay(q, null, t.team_id) and case
    when p_verdict ->> 'authority' = 'team' then q.owner_team_id = t.team_id
    when p_verdict ->> 'from_wallet_id' is not null then q.id = p_verdict ->> 'from_wallet_id'
    when p_verdict ->> 'source' = 'team' then q.owner_team_id = t.team_id
    else p_is_transfer and q.owner_type = 'organization' end
  limit 1
$$;

-- Approves a ticket by the first rule of its organization that allows it, and says whether one did.
-- The rule that names the ticket's team goes first.
create function approve_by_rule(v_org organizations, t cost_tickets)
returns boolean language plpgsql as $$
declare
  x approval_rules;
  v_actor text := acting();
  v_code text;
  v_now timestamptz := clock_timestamp();
begin
  -- Nothing is refused for the sake of calls that have gone.
  if exists (select 1 from wallets q where q.org_id = v_org.id and q.kept_nanos > 0
      and may_pay(q, t.user_id, t.team_id)) then
    perform trim_kept(v_org.id);
  end if;
  for x in
    select * from approval_rules q
    where q.org_id = v_org.id and q.archived_at is null and (q.team_id is null or q.team_id = t.team_id)
    order by q.team_id is null, q.id
  loop
    if x.day_ends_at <= v_now then
      update approval_rules q set approved_nanos = 0, approvals = 0,
        day_ends_at = (reporting_window('day', v_org.time_zone, v_now)).ends_at
      where q.id = x.id returning * into x;
    end if;
    continue when t.estimated_cost_nanos > x.max_per_call_nanos
      or x.approved_nanos::numeric + t.estimated_cost_nanos > x.max_per_day_nanos;
    perform set_config('svc.actor', x.id, true);
    v_code := approve_open(v_org, t, jsonb_build_object('by', 'rule', 'approval_rule_id', x.id, 'id', new_id('verdict'),
      'source', x.source, 'note', x.name, 'by_terminal', true));
    perform set_config('svc.actor', coalesce(v_actor, ''), true);
    if v_code is null then
      update approval_rules q set approved_nanos = q.approved_nanos + t.estimated_cost_nanos, approvals = q.approvals + 1
      where q.id = x.id;
      return true;
    end if;
  end loop;
  return false;
end $$;

-- True where a waiting call may have something to hear: its ticket was decided, it can no longer be
-- served, money is there, or it costs nothing by now.
create function waiters_may_go(p_org_id text) returns boolean language sql stable as $$
  select exists (
    select 1 from ticket_waiters w join cost_tickets t on t.id = w.ticket_id
    where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
      and (t.status <> 'open' or t.expires_at <= clock_timestamp() or waiter_has_ended(t, w.need_nanos)
        or ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
          and waiter_is_barred(t, w.need_nanos, 'refuse')))
  ) or exists (
    select 1 from (
      select w.user_id, w.team_id, min(w.need_nanos) as need_nanos, bool_or(w.need_nanos is null) as is_free from ticket_waiters w
      join cost_tickets t on t.id = w.ticket_id
      where w.org_id = p_org_id and w.answer is null and w.until > clock_timestamp()
        and not ((select exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null))
          and waiter_is_barred(t, w.need_nanos, 'ticket'))
      group by 1, 2) as g
    where g.is_free or exists (select 1 from wallets q where q.org_id = p_org_id and q.balance_nanos >= g.need_nanos
      and may_pay(q, g.user_id, g.team_id))
  )
$$;

-- Puts a call into the queue of its open ticket, and holds for it if it is its turn. Invariant: the
-- call leaves the queue with every answer but 402, and with a 402 too if it asked for no wait and
-- had no place.
create function redeem_in_turn(p_org organizations, t cost_tickets, i redeem_item)
returns lane_row language plpgsql as $$
declare
  v_item reserve_item := jsonb_populate_record(null::reserve_item, t.reserve);
  v_need numeric := need_today(p_org, v_item);
  v_is_free boolean := coalesce(v_need = 0, false) and costs_nothing(p_org, v_item);
  v_has_place boolean := coalesce(i.wait_ms, 0) > 0 or exists (select 1 from ticket_waiters q
    where q.org_id = p_org.id and q.request_id = i.request_id and q.until > clock_timestamp() - waiter_grace());
  v_wallet_id text;
  v_row lane_row;
begin
  insert into ticket_waiters (org_id, request_id, ticket_id, redeem, user_id, team_id, need_nanos, since, until)
  values (p_org.id, i.request_id, t.id, to_jsonb(i) || jsonb_build_object('ticket_id', t.id), t.user_id, t.team_id,
    case when not v_is_free then least(coalesce(v_need, 0), 9000000000000000000) end, clock_timestamp(),
    clock_timestamp() + coalesce(i.wait_ms, 0) * interval '1 millisecond')
  on conflict (org_id, request_id) do update set ticket_id = excluded.ticket_id, redeem = excluded.redeem,
    need_nanos = excluded.need_nanos, priced_at = now(), until = excluded.until, answer = null;
  -- Only a call that money is there for needs to know whose turn it is.
  if v_need is null or v_is_free or exists (select 1 from wallets w where w.org_id = p_org.id and w.balance_nanos >= v_need
      and may_pay(w, t.user_id, t.team_id)) then
    select q.wallet_id into v_wallet_id from waiter_turns(p_org.id, null) q where q.request_id = i.request_id;
  end if;
  v_row := redeem_open(p_org.id, t, i, coalesce(v_wallet_id, ''));
  if (v_row.answer).code is distinct from 'insufficient_balance' or not v_has_place then
    delete from ticket_waiters q where q.org_id = p_org.id and q.request_id = i.request_id;
  end if;
  return v_row;
end $$;

-- Balances as a younger call finds them, without what is kept; those of the batch where nothing is.
create function free_balances(f reserve_fact, p_left jsonb)
returns jsonb language sql immutable as $$
  select coalesce(p_left || jsonb_object_agg((v.w).id,
    greatest(coalesce((p_left ->> (v.w).id)::numeric, (v.w).balance_nanos) - (v.w).kept_nanos, -9000000000000000000)::text), p_left)
  from (values (f.user_wallet), (f.team_wallet), (f.org_wallet)) as v (w)
  where (v.w).kept_nanos > 0
$$;

-- True if a call that waits for so much can no longer be served, however much money comes: its
-- organization is suspended, its key has ended or has spent its budget, its person, team or agent
-- is gone, a cap of its agent or the limits of its session are reached. Each waiting call is looked
-- at in each turn, so what costs more stands last, behind a look whether there is such a bound at
-- all. A need of null is of a call that costs nothing.
create function waiter_has_ended(t cost_tickets, p_need_nanos bigint)
returns boolean language sql stable as $$
  select key_has_ended(t)
    or exists (select 1 from organizations o where o.id = t.org_id and o.suspended_at is not null)
    or (t.key_id is not null and exists (select 1 from tokens k where k.id = t.key_id
      and k.max_budget_nanos::numeric - k.spent_nanos - k.held_nanos < p_need_nanos))
    or (t.team_id is not null and exists (select 1 from teams q where q.id = t.team_id and q.archived_at is not null))
    or (t.agent_id is not null and exists (select 1 from agents q where q.id = t.agent_id and q.archived_at is not null))
    or (t.agent_id is not null and exists (select 1 from usage_constraints c where c.agent_id = t.agent_id
        and c.archived_at is null and c.enforcement_mode = 'reject')
      and (judge_caps(jsonb_populate_record(null::reserve_item, t.reserve), p_need_nanos, clock_timestamp(), '{}')).refused_id
        is not null)
    or (t.reserve ?| array['session_max_actions', 'session_max_cost_usd']
      and exists (select 1 from organizations o
        cross join lateral jsonb_populate_record(null::reserve_item,
          case when p_need_nanos is null then t.reserve - 'session_max_cost_usd' else t.reserve end) as i
        cross join lateral quote_reserve_3(o, i) as q
        where o.id = t.org_id and session_is_full(t.org_id, i, q.usd_nanos, '{}')))
$$;

-- The queue of an organization's waiting calls, oldest first, with the wallet that each may take. A
-- call that no wallet covers leaves to younger ones what is not kept of the wallets of its own
-- cascade; one that waits between two calls keeps what is its turn's. Ends after `p_turns_max` that
-- may be taken now.
create function waiter_turns(p_org_id text, p_turns_max integer)
returns table(request_id text, wallet_id text, is_live boolean) language plpgsql stable as $$
declare
  v_turns integer := 0;
  v_has_budgets boolean := exists (select 1 from budgets b where b.org_id = p_org_id and b.archived_at is null);
  w record;
  -- What is left in wallets after the turns so far, without what is kept where a turn found too little.
  v_left jsonb := '{}';
  v_wallet_id text;
  v_nanos numeric;
begin
  for w in
    select q.request_id as name, q.need_nanos, q.until > clock_timestamp() as is_live,
      array_remove(array[uw.id, tw.id, ow.id], null) as wallet_ids,
      array_remove(array[uw.balance_nanos, tw.balance_nanos, ow.balance_nanos], null) as balances,
      array_remove(array[uw.kept_nanos, tw.kept_nanos, ow.kept_nanos], null) as kept
    from ticket_waiters q
    join cost_tickets t on t.id = q.ticket_id and t.status = 'open' and t.expires_at > clock_timestamp()
      and not waiter_has_ended(t, q.need_nanos) and not (v_has_budgets
        and (waiter_is_barred(t, q.need_nanos, 'refuse') or waiter_is_barred(t, q.need_nanos, 'ticket')))
    left join wallets uw on uw.org_id = p_org_id and uw.owner_type = 'user' and uw.owner_user_id = q.user_id
    left join wallets tw on tw.org_id = p_org_id and tw.owner_type = 'team' and tw.owner_team_id = q.team_id
    left join wallets ow on ow.org_id = p_org_id and ow.owner_type = 'organization'
    where q.org_id = p_org_id and q.answer is null and q.until > clock_timestamp() - waiter_grace()
    order by q.since, q.request_id
  loop
    v_wallet_id := null;
    for n in 1 .. cardinality(w.wallet_ids) loop
      v_nanos := coalesce((v_left ->> w.wallet_ids[n])::numeric, w.balances[n]);
      if w.need_nanos is null or v_nanos >= w.need_nanos then
        v_wallet_id := w.wallet_ids[n];
        v_left := v_left || jsonb_build_object(v_wallet_id, (v_nanos - coalesce(w.need_nanos, 0))::text);
        exit;
      end if;
    end loop;
    if v_wallet_id is null then
      v_left := v_left || (select jsonb_object_agg(u.id, least((v_left ->> u.id)::numeric, u.balance_nanos::numeric - u.kept_nanos)::text)
        from unnest(w.wallet_ids, w.balances, w.kept) as u (id, balance_nanos, kept_nanos));
    end if;
    request_id := w.name;
    wallet_id := v_wallet_id;
    is_live := w.is_live;
    return next;
    v_turns := v_turns + (is_live and wallet_id is not null)::integer;
    exit when v_turns >= p_turns_max;
  end loop;
end $$;

-- Says why an approval may not fill a wallet with an amount, from another one if that is named;
-- null if it may.
create function filling_refusal(w wallets, p_from wallets, p_verdict jsonb, p_amount_nanos numeric,
  p_short_nanos numeric)
returns text language sql stable as $$
  select case
    when p_verdict ->> 'from_wallet_id' is not null and p_from.id is null then 'source_not_of_ticket'
    when w.id is null and p_verdict ->> 'wallet_id' is not null then 'wallet_not_of_ticket'
    when w.id is null and p_from.owner_type = 'organization' then 'manual_credit_not_allowed'
    when w.id is null then 'insufficient_balance'
    when p_amount_nanos < p_short_nanos then 'amount_below_shortfall'
    -- A team's money beyond what is missing is an allocation, which is to a person of the team.
    when p_verdict ->> 'authority' = 'team' and p_amount_nanos > p_short_nanos and w.owner_type <> 'user' then 'amount_beyond_missing'
    when p_amount_nanos > 9000000000000000000 or w.balance_nanos::numeric + w.reserved_nanos + p_amount_nanos > 9000000000000000000
      then 'amount_too_large'
    when p_amount_nanos > 0 and p_from.id = w.id and w.owner_type = 'organization' then 'manual_credit_not_allowed'
    when p_amount_nanos > 0 and (p_from.id = w.id or p_amount_nanos > free_for_verdict(p_from, p_verdict)) then 'insufficient_balance' end
$$;

-- Which of those that a ticket names has gone, as a reserve names it: the person, the team or the
-- agent. Null: all are there.
create function gone_member(t cost_tickets) returns text language sql stable as $$
  select case
    when t.user_id is not null and not exists (select 1 from memberships q where q.org_id = t.org_id and q.user_id = t.user_id
      and q.archived_at is null) then 'user_id'
    when t.team_id is not null and not exists (select 1 from teams q where q.id = t.team_id and q.org_id = t.org_id
      and q.archived_at is null) then 'team_id'
    when t.agent_id is not null and not exists (select 1 from agents q where q.id = t.agent_id and q.org_id = t.org_id
      and q.archived_at is null) then 'agent_id' end
$$;

-- Says why nobody may have what a ticket was approved for any more; null if its call may: the
-- person, team or agent that it names has gone, or the person has left the team.
create function leaver_refusal(t cost_tickets) returns text language sql stable as $$
  select case
    when gone_member(t) is not null then 'not_of_organization'
    when t.user_id is not null and t.team_id is not null
      and not exists (select 1 from team_members q where q.team_id = t.team_id and q.user_id = t.user_id) then 'not_team_member' end
$$;

-- What a call hears that an approval holds for, as any other call: of each budget that it leaves at
-- a threshold or beyond, and of each cap that it exceeds. Its hold is counted already.
create function warnings_of_hold(t cost_tickets, r reservations)
returns jsonb language sql stable as $$
  select nullif(coalesce((judge_caps(n.item, case when r.held_nanos > 0 then 0 end, r.created_at, (
      select jsonb_object_agg(c.id, case c.constraint_type when 'cost' then c.cost_nanos else c.responses - 1 end)
      from constraints_at(t.agent_id, null, null, r.created_at) as c))).warnings, '[]')
    || coalesce((select jsonb_agg(budget_warning(b, window_used(b)) order by b.id)
      from budgets_of(t.org_id, t.key_id, t.user_id, t.team_id) as b
      where b.starts_at <= r.created_at and window_used(b) >= b.warns_at_nanos), '[]'), '[]')
  from (select jsonb_populate_record(null::reserve_item, t.reserve) as item) as n
$$;

-- Gives an approved ticket's hold to the call that redeems it; from now on it lives as long as any
-- other hold. While its organization is suspended it stays as it is.
create function claim_approved(t cost_tickets, i redeem_item, a lane_answer)
returns lane_row language plpgsql as $$
declare
  v_row lane_row;
  r reservations;
begin
  select * into r from reservations q where q.id = t.reservation_id and q.status = 'open' and q.expires_at > clock_timestamp();
  a.code := case
    when r.id is null then 'ticket_expired'
    when exists (select 1 from organizations o where o.id = t.org_id and o.suspended_at is not null) then 'organization_suspended'
    when exists (select 1 from tokens k left join token_secrets s on s.id = i.secret_id and s.token_id = k.id
      where k.id = t.key_id and (k.revoked_at <= clock_timestamp() or k.expires_at <= clock_timestamp()
        or s.expires_at <= clock_timestamp() or (i.secret_id is not null and s.id is null))) then 'invalid_credential'
    else leaver_refusal(t) end;
  if a.code is not null then
    a.param := case a.code when 'not_of_organization' then gone_member(t) when 'not_team_member' then 'team_id' end;
    v_row.answer := a;
    return v_row;
  end if;
  update reservations q set request_id = i.request_id, expires_at = clock_timestamp() + q.life_seconds * interval '1 second'
  where q.id = r.id returning * into r;
  perform wake_lifetimes(t.org_id, r.expires_at);
  update cost_tickets q set request_id = i.request_id where q.id = t.id;
  perform resolve_ticket(t.id, 'redeemed', false);
  perform move_waiters(t);
  v_row.answer := repeated_hold(a, r, r.body_sha256, (select w.balance_nanos from wallets w where w.id = r.wallet_id));
  v_row.max_completion_tokens := r.max_completion_tokens;
  v_row.own_keys := r.own_keys;
  v_row.warnings := warnings_of_hold(t, r);
  return v_row;
end $$;

-- Says why a team's admin may not give this approval; null for everybody else. They decide on their
-- team's calls, spend the team's money alone, and raise no budget of the team, of the organization,
-- or of themselves. The organization's wallet may be named if neither the team's nor the asker's
-- covers the call: what it lacks is the team's then.
create function authority_refusal(t cost_tickets, p_verdict jsonb, p_need_nanos numeric)
returns text language plpgsql stable as $$
begin
  if p_verdict ->> 'authority' is distinct from 'team' then
    return null;
  elsif t.team_id is null or not exists (select 1 from team_members m where m.team_id = t.team_id
      and m.user_id = p_verdict ->> 'user_id' and m.role = 'admin') then
    return 'approval_not_allowed';
  elsif p_verdict ->> 'from_wallet_id' is not null and not exists (select 1 from wallets w where w.org_id = t.org_id
      and w.id = p_verdict ->> 'from_wallet_id' and w.owner_team_id = t.team_id) then
    return 'source_not_yours';
  elsif exists (select 1 from wallets w where w.org_id = t.org_id and w.id = p_verdict ->> 'wallet_id' and w.owner_type = 'organization')
      and exists (select 1 from wallets w where w.org_id = t.org_id and w.owner_type <> 'organization'
        and may_pay(w, t.user_id, t.team_id) and free_for_verdict(w, p_verdict) >= p_need_nanos) then
    return 'source_not_yours';
  elsif exists (select 1 from short_budgets(t.org_id, t.key_id, t.user_id, t.team_id, p_need_nanos, clock_timestamp(), '{}') as s
      where s.owner_type in ('team', 'organization') or s.owner_id = p_verdict ->> 'user_id'
        or (s.owner_type = 'key' and t.user_id = p_verdict ->> 'user_id')) then
    return 'budget_not_yours';
  end if;
  return null;
end $$;

-- The wallet that pays for the call, of those that may: the named one, else the fullest. An
-- approval that only raises budgets takes what the call would have taken, and so does each of a
-- team's admin.
create function wallet_to_hold(t cost_tickets, p_verdict jsonb, p_need_nanos numeric,
  p_from_id text)
returns wallets language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and q.id = coalesce(p_verdict ->> 'wallet_id', q.id)
    and may_pay(q, t.user_id, t.team_id)
    and (q.owner_type <> 'team' or exists (select 1 from teams o where o.id = q.owner_team_id and o.archived_at is null))
    and (q.owner_type <> 'user' or exists (select 1 from memberships o where o.org_id = q.org_id and o.user_id = q.owner_user_id
      and o.archived_at is null))
    and (p_verdict ->> 'wallet_id' is not null or q.id is distinct from p_from_id
      or free_for_verdict(q, p_verdict) >= p_need_nanos)
  order by case when (t.cause = 'budget' or p_verdict ->> 'authority' = 'team') and free_for_verdict(q, p_verdict) >= p_need_nanos
      then array_position(array['user', 'team', 'organization'], q.owner_type) else 4 end,
    free_for_verdict(q, p_verdict) desc, array_position(array['organization', 'team', 'user'], q.owner_type) limit 1
$$;

-- The request that a hold is for: of what an approval holds, and no call has taken, the one that
-- asked last.
create function asking_request(r reservations) returns text language sql stable as $$
  select coalesce((select t.reserve ->> 'request_id' from cost_tickets t
    where t.id = r.cost_ticket_id and starts_with(r.request_id, 'ticket:' || t.id || ':')), r.request_id)
$$;

-- The budgets that have no room for a call, the one whose window ends last first; null if each has.
create function budgets_short_for(p_org_id text, p_key_id text, p_user_id text, p_team_id text,
  p_need_nanos numeric, p_left jsonb)
returns jsonb language sql stable as $$
  select jsonb_agg(shown_budget(s.id, s.owner_type, s.owner_id, s.budget_window, s.limit_nanos, s.used_nanos, s.missing_nanos,
    s.resets_at) order by s.resets_at desc nulls first, s.id)
  from short_budgets(p_org_id, p_key_id, p_user_id, p_team_id, p_need_nanos, clock_timestamp(), p_left) as s
$$;

-- What a ticket says of budgets: nothing if it is about money alone. `budget` is the one whose
-- window ends last. While it is open they are those that have no room now, and none once each has
-- room; once it is closed they are those that were kept.
create function ticket_budgets(t cost_tickets, p_left jsonb)
returns jsonb language plpgsql stable as $$
declare
  v_short jsonb;
begin
  if t.cause <> 'budget' then
    return '{}';
  end if;
  v_short := case when t.status = 'open' then budgets_short_for(t.org_id, t.key_id, t.user_id, t.team_id, t.estimated_cost_nanos, p_left) else t.budgets end;
  return jsonb_build_object('cause', 'budget', 'budget', v_short -> 0, 'budgets', coalesce(v_short, '[]'));
end $$;

-- Opens a ticket for a refused reserve, or finds the caller's open one for the same body; however
-- many are open.
create function ticket_for(p_org organizations, i reserve_item, p_held_nanos bigint, p_left jsonb)
returns jsonb language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('ticket');
  t cost_tickets;
  v_answer jsonb;
  v_budgets jsonb := budgets_short_for(p_org.id, i.key_id, i.user_id, i.team_id, p_held_nanos, p_left);
  v_cause text := case when v_budgets is null then 'balance' else 'budget' end;
  -- The same bytes on another route are another request, with another cost.
  v_request text := concat_ws('#', i.request_body_hash, i.family);
begin
  perform ensure_wallet(p_org.id, 'user', i.user_id) where i.user_id is not null;
  perform ensure_wallet(p_org.id, 'team', i.team_id) where i.team_id is not null;
  for t in
    select * from cost_tickets q
    where q.org_id = p_org.id and q.request_body_hash = v_request and q.status = 'open' and q.expires_at <= v_now
  loop
    perform resolve_ticket(t.id, 'expired', false);
  end loop;
  insert into cost_tickets (id, org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash,
    estimated_cost_nanos, currency, reserve, created_at, expires_at, cause, budgets)
  values (v_id, p_org.id, i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.provider, i.model,
    v_request, p_held_nanos, p_org.currency, jsonb_strip_nulls(to_jsonb(i)), v_now,
    v_now + p_org.ticket_ttl_seconds * interval '1 second', v_cause, v_budgets)
  on conflict (org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash)
    where status = 'open'
  do update set estimated_cost_nanos = excluded.estimated_cost_nanos, reserve = excluded.reserve,
    cause = excluded.cause, budgets = excluded.budgets
  returning * into t;
  v_answer := ticket_answer(t, p_left);
  if t.id = v_id then
    perform append_event(p_org.id, 'cost_ticket.created', v_answer || jsonb_build_object('cost_ticket_id', v_id,
      'request_id', i.request_id) || ticket_caller(t) || caller(t.trace, t.user_id, t.key_id, t.team_id));
    perform send_to_workflow(p_org.id, 'costTicket', v_id, null, jsonb_build_object('ticket_id', v_id));
  end if;
  return v_answer;
end $$;

-- Closes a ticket: row, event, and a signal where its workflow may be waiting; a start that is
-- still unsent is dropped instead. A verdict or a deadline that the workflow itself records needs
-- no signal. The event names the call that redeemed the ticket, else the one that opened it. A hold
-- counts already, so that an approval and a redeem keep the budgets of before it.
create function resolve_ticket(p_ticket_id text, p_status text, p_is_told boolean)
returns void language plpgsql as $$
declare
  t cost_tickets;
  v_was text := (select q.status from cost_tickets q where q.id = p_ticket_id);
begin
  update cost_tickets q set status = p_status, resolved_at = clock_timestamp(),
    budgets = case when q.status = 'open' and q.cause = 'budget' and p_status in ('denied', 'expired')
      then coalesce(budgets_short_for(q.org_id, q.key_id, q.user_id, q.team_id, q.estimated_cost_nanos, '{}'), q.budgets) else q.budgets end
  where q.id = p_ticket_id returning * into t;
  perform append_event(t.org_id, 'cost_ticket.resolved', jsonb_strip_nulls(jsonb_build_object('cost_ticket_id', t.id,
      'status', t.status, 'provider', t.provider, 'model', t.model, 'decided_by', t.decided_by,
      'note', t.note, 'credited_nanos', t.credited_nanos::text, 'currency', t.currency, 'reservation_id', t.reservation_id,
      'request_id', t.request_id, 'approval_rule_id', t.approval_rule_id)) || ticket_budgets(t, '{}') || ticket_caller(t)
    || caller(coalesce(trace_of(t.request_id), (select w.trace from ticket_waiters w
      where w.org_id = t.org_id and w.request_id = t.request_id), t.trace), t.user_id, t.key_id, t.team_id));
  if v_was = 'open' and not p_is_told then
    delete from outbox o where o.workflow_id = t.id and o.signal is null and o.attempts = 0;
    if not found then
      perform send_to_workflow(t.org_id, 'costTicket', t.id, 'resolved', jsonb_build_object('ticket_id', t.id));
    end if;
  end if;
end $$;

-- Raises each budget that has no room for a ticket's call by what is missing, once. The ticket
-- keeps how each stood, and by how much its approvals raised it in this window.
create function raise_budgets(t cost_tickets, p_need_nanos numeric, p_verdict jsonb)
returns void language plpgsql as $$
declare
  s record;
  b budgets;
  v_raised jsonb := '[]';
  -- A raise is of the window in which it was decided.
  v_now timestamptz := clock_timestamp();
begin
  for s in
    select * from short_budgets(t.org_id, t.key_id, t.user_id, t.team_id, p_need_nanos, v_now, '{}') q
    where q.on_exceed = 'ticket' order by q.id
  loop
    select * into b from budgets q where q.id = s.id;
    if b.ends_at <= v_now then
      b := begin_window(b.id, v_now);
    end if;
    if s.limit_nanos + s.missing_nanos > 9000000000000000000 then
      raise exception using errcode = 'SV001', message = 'amount_too_large';
    end if;
    update budgets q set raised_nanos = q.raised_nanos + s.missing_nanos where q.id = b.id;
    insert into budget_raises (org_id, budget_id, window_starts_at, budget_window, amount_nanos, cost_ticket_id, decided_by, created_at)
    values (t.org_id, b.id, b.starts_at, b.budget_window, s.missing_nanos, t.id, p_verdict ->> 'by', v_now);
    v_raised := v_raised || (shown_budget(s.id, s.owner_type, s.owner_id, s.budget_window, s.limit_nanos, s.used_nanos,
        s.missing_nanos, s.resets_at)
      || jsonb_build_object('raised_nanos', (select sum(r.amount_nanos) from budget_raises r where r.budget_id = b.id
        and r.window_starts_at = b.starts_at and r.budget_window = b.budget_window and r.cost_ticket_id = t.id)::text));
  end loop;
  update cost_tickets q set budgets = (select jsonb_agg(e order by e ->> 'resets_at' desc nulls first, e ->> 'id')
    from jsonb_array_elements(v_raised) as e)
  where q.id = t.id and v_raised <> '[]';
end $$;

-- What is missing in each wallet that may pay for a ticket's call. `p_left` holds balances that a
-- batch has changed but not yet written. The fullest wallet gives the ticket its balance; ties go
-- to the organization.
create function ticket_wallets(t cost_tickets, p_left jsonb)
returns table(balance_nanos text, shortfall_nanos text, wallet_owner_type text, wallets jsonb)
  language sql stable as $$
  select (array_agg(s.balance_nanos order by s.balance_nanos desc, s.place desc))[1]::text,
    (array_agg(s.shortfall_nanos order by s.balance_nanos desc, s.place desc))[1]::text,
    (array_agg(s.owner_type order by s.balance_nanos desc, s.place desc))[1],
    jsonb_agg(jsonb_build_object('wallet_id', s.id, 'owner_type', s.owner_type, 'balance_nanos', s.balance_nanos::text,
      'shortfall_nanos', s.shortfall_nanos::text) order by s.place)
  from (
    select c.*, case when t.status = 'open' then greatest(t.estimated_cost_nanos::numeric - c.balance_nanos, 0) else 0 end
      as shortfall_nanos
    from (
      select w.id, w.owner_type, coalesce((p_left ->> w.id)::bigint, w.balance_nanos) as balance_nanos,
        array_position(array['user', 'team', 'organization'], w.owner_type) as place
      from wallets w where w.org_id = t.org_id and may_pay(w, t.user_id, t.team_id)) as c) as s
$$;

-- A ticket as gateways see it.
create function ticket_answer(t cost_tickets, p_left jsonb)
returns jsonb language sql stable as $$
  select jsonb_build_object('id', t.id, 'status',
    case when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'expired' else t.status end,
    'provider', t.provider, 'model', t.model,
    'estimated_cost_nanos', t.estimated_cost_nanos::text, 'balance_nanos', w.balance_nanos, 'shortfall_nanos', w.shortfall_nanos,
    'currency', t.currency, 'wallet_owner_type', w.wallet_owner_type, 'wallets', w.wallets, 'created_at', iso_time(t.created_at),
    'expires_at', iso_time(t.expires_at)) || ticket_budgets(t, p_left)
  from ticket_wallets(t, p_left) as w
$$;

-- Why a verdict cannot be recorded; 'repeated' where it is the one already recorded. An approval
-- that its call has redeemed is still that approval.
create function verdict_refusal(t cost_tickets, p_verdict jsonb, p_status text)
returns text language sql stable as $$
  select case
    when t.id is null then 'ticket_not_found'
    when p_verdict ->> 'id' = any (t.verdict_ids) or p_verdict ->> 'asked_under' = any (t.verdict_ids) then 'repeated'
    when t.refused_verdicts ? (p_verdict ->> 'id') then t.refused_verdicts ->> (p_verdict ->> 'id')
    when t.status = p_status and (p_status = 'denied' or t.expires_at > clock_timestamp()) then 'repeated'
    when t.status = 'redeemed' and p_status = 'approved' and t.decided_by is not null then 'repeated'
    when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'ticket_expired'
    when t.status <> 'open' then 'ticket_' || t.status
    when clock_timestamp() > (p_verdict ->> 'valid_until')::timestamptz then 'verdict_too_late' end
$$;

-- Approves an open ticket, whoever does; says why not.
create function approve_open(v_org organizations, t cost_tickets, p_verdict jsonb)
returns text language plpgsql as $$
declare
  w wallets;
  v_from wallets;
  h funded_hold;
  v_item reserve_item := jsonb_populate_record(null::reserve_item, t.reserve - 'secret_id');
  v_need numeric := need_today(v_org, v_item);
  -- A call that costs nothing needs neither money nor room in a budget.
  v_is_free boolean := coalesce(v_need = 0, false) and costs_nothing(v_org, v_item);
  v_short numeric;
  v_amount numeric;
  v_code text;
begin
  v_code := authority_refusal(t, p_verdict, case when not v_is_free then coalesce(v_need, 0) end);
  if v_code is not null then
    return v_code;
  end if;
  v_from := approval_source(t, p_verdict, p_verdict ->> 'source' is not null
    or (v_org.manual_credit = 'platform_only' and not coalesce((p_verdict ->> 'is_platform')::boolean, false)));
  w := wallet_to_hold(t, p_verdict, case when v_is_free then -9000000000000000000 else v_need end, v_from.id);
  v_short := case when v_is_free then 0 else greatest(coalesce(v_need, 0) - free_for_verdict(w, p_verdict), 0) end;
  v_amount := coalesce((p_verdict ->> 'amount_nanos')::numeric, v_short);
  v_code := filling_refusal(w, v_from, p_verdict, v_amount, v_short);
  if v_code is not null then
    return v_code;
  end if;
  h := fund_raise_and_hold(t, w, v_from, v_amount::bigint, case when not v_is_free then coalesce(v_need, 0) end,
    p_verdict);
  if h.code is not null then
    return h.code;
  end if;
  -- The hold is kept for its call until the ticket's own deadline, a day at most.
  update reservations r set expires_at = greatest(r.expires_at, least(t.expires_at, clock_timestamp() + interval '24 hours'))
  where r.id = (h.answer).reservation_id
  returning r.expires_at into t.expires_at;
  update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note',
    credited_nanos = v_amount, transaction_id = h.transaction_id, reservation_id = (h.answer).reservation_id,
    estimated_cost_nanos = (h.answer).reserved_amount_nanos, expires_at = t.expires_at,
    approval_rule_id = p_verdict ->> 'approval_rule_id',
    verdict_ids = q.verdict_ids || array_remove(array[p_verdict ->> 'id', p_verdict ->> 'asked_under'], null)
  where q.id = t.id;
  perform resolve_ticket(t.id, 'approved', p_verdict ->> 'by_terminal' is null);
  -- What was kept for the calls of this ticket is free.
  update wallets x set kept_nanos = least(x.kept_nanos, (select n.all_nanos from waiting_needs(x, 0) as n))
  where x.id = w.id and x.kept_nanos > 0;
  return null;
end $$;

----------------------------------------------------------------------------------------------------
-- Payments
----------------------------------------------------------------------------------------------------

-- How wallets are topped up: the payment providers of the platform, which of them is active, and
-- each organization's rules.

create table payment_providers (
  name text primary key check (name in ('payment_provider_a', 'payment_provider_b')),
  -- False stops new sessions only: those that are open go on, and webhooks are taken.
  enabled boolean not null,
  supported_currencies text[] not null,
  base_url text not null,
  -- Ciphertext by name, each bound to this row and its name (domain/secrets.ts).
  credentials jsonb not null default '{}',
  webhook_secret text,
  -- The webhook secret that was replaced: good until then, since the provider may sign with either
  -- meanwhile.
  previous_webhook_secret text,
  previous_webhook_secret_until timestamptz,
  updated_at timestamptz not null default clock_timestamp(),
  constraint payment_providers_check check ((previous_webhook_secret is null) =
    (previous_webhook_secret_until is null))
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
    check (cardinality(topup_target_scopes) > 0 and topup_target_scopes <@
    '{user,team,organization}'::text[]),
  -- Where a buyer may be sent back to: exact origins.
  return_origins text[] not null,
  updated_at timestamptz not null default clock_timestamp(),
  constraint payment_settings_check check (min_topup_amount_nanos <= max_topup_amount_nanos)
);

create table payment_sessions (
  id text primary key default new_id('pay'),
  org_id text not null references organizations,
  -- Who pays: a person, or a key that stands for nobody.
  user_id text references users,
  created_by text not null,
  provider text not null check (provider in ('payment_provider_a', 'payment_provider_b')),
  surface text not null check (surface in ('console', 'chat')),
  amount_nanos bigint not null check (amount_nanos > 0),
  currency text not null,
  target_wallet_owner_type text not null
    check (target_wallet_owner_type in ('user', 'team', 'organization')),
  wallet_id text not null references wallets,
  return_url text not null,
  cancel_url text not null,
  status text not null default 'created'
    check (status in ('created', 'capturing', 'captured', 'confirming', 'confirmed', 'completed',
    'canceled', 'failed', 'refunded', 'expired')),
  -- Grows with each return to created, so that every try of the buyer is a message of its own.
  attempt integer not null default 1,
  -- Calls that were begun at the provider, committed before each of them.
  provider_calls integer not null default 0,
  -- When the call that is under way began; null once its answer is recorded.
  provider_called_at timestamptz,
  provider_order_id text,
  approval_url text,
  provider_capture_id text,
  captured_nanos bigint,
  captured_currency text,
  -- Paid after the session was canceled, expired or failed.
  is_late boolean not null default false,
  error_code text,
  error_message text,
  -- The provider's own words, for operators only.
  provider_message text,
  credited_nanos bigint not null default 0,
  wallet_transaction_id text,
  -- The provider's newest list of refunds and disputes, and the number of the reading that brought
  -- it.
  refunds jsonb not null default '[]',
  disputes jsonb not null default '[]',
  reading integer not null default 0,
  -- What refunds and disputes have taken from the wallet.
  debited_nanos bigint not null default 0,
  resolution text,
  resolved_by text,
  resolution_note text,
  -- The Idempotency-Key of its creation with its caller, hashed, and the body's hash.
  idempotency text,
  body_sha256 text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  -- Ours is 5 minutes after the provider's.
  expires_at timestamptz not null default clock_timestamp() + '01:00:00'::interval,
  -- When somebody asks the provider next; null where nothing more can come but by webhook.
  next_check_at timestamptz default clock_timestamp() + '00:01:00'::interval,
  checks integer not null default 0,
  -- What people asked for: the number of the newest question, when it was asked, and up to which of
  -- them there is an answer.
  asked integer not null default 0,
  asked_at timestamptz,
  answered integer not null default 0,
  -- When the provider is asked again because it gave no answer, and how often in a row it gave
  -- none.
  ask_again_at timestamptz,
  unanswered integer not null default 0,
  -- Since when the provider says that it does not know the order; null once it answers otherwise.
  gone_since timestamptz,
  -- The key of a capture that the provider says is under way: it is asked again under the same one.
  capture_key text
);
create index payment_sessions_again on payment_sessions (ask_again_at)
where ask_again_at is not null;
create unique index payment_sessions_capture on payment_sessions (provider, provider_capture_id)
where provider_capture_id is not null;
create index payment_sessions_due on payment_sessions (next_check_at)
where next_check_at is not null;
create unique index payment_sessions_idempotency on payment_sessions (idempotency)
where idempotency is not null;
create index payment_sessions_newest on payment_sessions (created_at desc);
create index payment_sessions_open on payment_sessions (org_id, expires_at)
where status = 'created';
create unique index payment_sessions_order on payment_sessions (provider, provider_order_id)
where provider_order_id is not null;
create index payment_sessions_org on payment_sessions (org_id, created_at desc);

-- Webhooks as they came, stored before they are answered. Their content is news: what happened is
-- asked at the provider.
create table payment_events (
  provider text not null,
  id text not null,
  type text not null,
  payment_session_id text references payment_sessions,
  order_id text,
  capture_id text,
  -- The session that the event itself names; it may be none of ours.
  named_session_id text,
  -- Kept only while nobody knows whose it is.
  body text,
  -- unknown: no session of ours is named; it is looked for again, and shown.
  status text not null check (status in ('sent', 'unknown', 'ignored')),
  received_at timestamptz not null default clock_timestamp(),
  constraint payment_events_pkey primary key (provider, id)
);
create index payment_events_age on payment_events (received_at);
create index payment_events_body on payment_events (received_at) where body is not null;
create index payment_events_session on payment_events (payment_session_id)
where payment_session_id is not null;
create index payment_events_unknown on payment_events (received_at) where status = 'unknown';

-- Which ledger entries a payment made. One credit per session; every other entry names its refund
-- or dispute.
create table payment_entries (
  transaction_id text primary key,
  payment_session_id text not null references payment_sessions,
  amount_nanos bigint not null,
  cause_id text
);
create unique index payment_entries_credit on payment_entries (payment_session_id)
where cause_id is null;
create index payment_entries_session on payment_entries (payment_session_id);

-- The state table of a payment session: what may follow each state, and nothing else.
create function payment_moves(p_from text) returns text[] language sql immutable as $$
  select case p_from
    when 'created' then '{capturing,canceled,expired,failed}'
    when 'capturing' then '{captured,created,failed}'
    when 'captured' then '{confirming,failed}'
    when 'confirming' then '{confirmed}'
    when 'confirmed' then '{completed}'
    when 'completed' then '{refunded}'
    when 'refunded' then '{completed}'
    -- Money that came late.
    else '{captured}' end::text[]
$$;

-- The session under its organization's lock, which orders all its moves and money.
create function lock_payment(p_id text) returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  perform lock_organization(q.org_id) from payment_sessions q where q.id = p_id;
  select * into s from payment_sessions q where q.id = p_id;
  return s;
end $$;

-- One event of a payment, as readers of the event routes see it.
create function payment_event(s payment_sessions, p_type text, p_more jsonb)
returns void language sql as $$
  select append_event(s.org_id, p_type, jsonb_build_object('payment_session_id', s.id, 'status', s.status,
    'provider', s.provider, 'user_id', s.user_id, 'wallet_id', s.wallet_id, 'amount_nanos', s.amount_nanos::text,
    'currency', s.currency) || p_more)
$$;

create function fail_payment(p_id text, p_code text, p_message text)
returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  s := move_payment(p_id, 'failed');
  update payment_sessions q set error_code = p_code, error_message = p_message, provider_called_at = null,
    -- Where there is nothing to resume, its key makes a new session.
    idempotency = case when q.provider_order_id is null then null else q.idempotency end
  where q.id = p_id returning * into s;
  perform payment_event(s, 'payment.failed', jsonb_build_object('error_code', p_code, 'error_message', p_message));
  return s;
end $$;

-- Commits that a call to the provider begins. `reading` orders what the answers say: an answer to a
-- question that was asked before another one's answer was recorded is old. A session that waits for
-- its buyer becomes capturing where it is to be taken; only that is a move, and takes the
-- organization's lock.
create function begin_payment_call(p_id text, p_is_capture boolean)
returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  if p_is_capture then
    s := lock_payment(p_id);
    if s.status = 'created' then
      s := move_payment(p_id, 'capturing');
    end if;
  end if;
  update payment_sessions q set provider_calls = q.provider_calls + 1, provider_called_at = clock_timestamp()
  where q.id = p_id returning * into s;
  return s;
end $$;

-- Ends a session that nobody has paid: the buyer's wish, the deadline, or a definite no. Changes
-- nothing where it has moved on.
create function close_payment(p_id text, p_to text, p_code text, p_message text)
returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  s := lock_payment(p_id);
  if s.status <> 'created' and not (s.status = 'capturing' and p_to = 'failed') then
    return s;
  end if;
  if p_to = 'failed' then
    return fail_payment(p_id, p_code, p_message);
  end if;
  s := move_payment(p_id, p_to);
  update payment_sessions q set error_code = p_code, error_message = p_message, provider_called_at = null,
    idempotency = case when q.provider_order_id is null then null else q.idempotency end
  where q.id = p_id returning * into s;
  return s;
end $$;

-- The provider has not got the money: back to the buyer, or to an end that the provider has said.
create function return_payment(s payment_sessions, p_status text)
returns payment_sessions language plpgsql as $$
begin
  if p_status = 'failed' then
    return close_payment(s.id, 'failed', 'declined', 'The payment failed at the provider. Create a new checkout.');
  end if;
  if p_status = 'pending' and s.status = 'created' then
    return move_payment(s.id, 'capturing');
  end if;
  if p_status in ('open', 'declined', 'closed') and s.status = 'capturing' then
    s := move_payment(s.id, 'created');
  end if;
  if p_status = 'declined' and s.status = 'created' then
    update payment_sessions q set error_code = 'declined',
      error_message = 'The payment was declined. The buyer may try again with another means of payment.'
    where q.id = s.id returning * into s;
  end if;
  if p_status = 'closed' then
    s := close_payment(s.id, 'expired', 'session_expired', 'The checkout has ended at the provider. Create a new one.');
    -- It can never be paid any more.
    update payment_sessions q set next_check_at = null where q.id = s.id and q.status in ('expired', 'canceled', 'failed')
      and q.provider_capture_id is null;
    select * into s from payment_sessions q where q.id = s.id;
  end if;
  return s;
end $$;

-- The one credit of a session: captured money of the right amount, or what an operator decided
-- about another one.
create function credit_payment(p_id text, p_amount_nanos bigint default null)
returns payment_sessions language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  s payment_sessions;
  v_entry wallet_transactions;
begin
  s := lock_payment(p_id);
  if s.status <> 'captured' then
    return s;
  end if;
  if (select w.balance_nanos::numeric + w.reserved_nanos + coalesce(p_amount_nanos, s.captured_nanos) > 9000000000000000000
    from wallets w where w.id = s.wallet_id) then
    update payment_sessions q set next_check_at = clock_timestamp() + interval '5 minutes',
      provider_message = 'The wallet cannot hold this much more. Make room in it, or refund the payment.'
    where q.id = p_id returning * into s;
    return s;
  end if;
  s := move_payment(p_id, 'confirming');
  s := move_payment(p_id, 'confirmed');
  select * into v_entry from post_entries(s.org_id, array[(s.wallet_id, 'payment_credit',
    coalesce(p_amount_nanos, s.captured_nanos), 0, null, null, null, null, null, null, s.id,
    'top-up' || case when s.is_late then ', late' else '' end)::ledger_entry]);
  insert into payment_entries (transaction_id, payment_session_id, amount_nanos) values (v_entry.id, s.id, v_entry.amount_nanos);
  update payment_sessions q set credited_nanos = v_entry.amount_nanos, wallet_transaction_id = v_entry.id, error_code = null,
    error_message = null where q.id = p_id;
  s := move_payment(p_id, 'completed');
  perform payment_event(s, 'payment.completed', jsonb_build_object('credited_amount_nanos', s.credited_nanos::text,
    'transaction_id', s.wallet_transaction_id, 'late', s.is_late));
  return bring_debit(s, null);
end $$;

-- When a payment that nobody tells of is asked for: after 1 minute, 5 minutes, 1 hour, then daily
-- for a week; one that is being taken, and a refund that is pending, weekly after that. One that is
-- credited, for refunds and disputes of which no webhook came: after a day, a week and a month.
create function payment_pause(p_status text, p_checks integer)
returns interval language sql immutable as $$
  select case
    when p_status in ('completed', 'refunded') then case p_checks when 0 then interval '1 day' when 1 then interval '7 days'
      when 2 then interval '30 days' end
    when p_checks = 0 then interval '1 minute'
    when p_checks = 1 then interval '5 minutes'
    when p_checks = 2 then interval '1 hour'
    when p_checks < 10 then interval '1 day'
    when p_status in ('capturing', 'pending') then interval '7 days' end
$$;

-- The one guarded update of a session's state. The looks after the credit are counted from the
-- credit, whatever goes back.
create function move_payment(p_id text, p_to text)
returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  update payment_sessions q set status = p_to, updated_at = clock_timestamp(),
    error_code = case p_to when 'capturing' then null else q.error_code end,
    error_message = case p_to when 'capturing' then null else q.error_message end,
    attempt = q.attempt + (q.status = 'capturing' and p_to = 'created')::int,
    checks = case when q.status in ('completed', 'refunded') then q.checks else 0 end,
    -- What ended before it had an order can be paid by nobody.
    next_check_at = case when q.status in ('completed', 'refunded') then q.next_check_at
      when p_to in ('completed', 'refunded') then clock_timestamp() + payment_pause(p_to, 0)
      when p_to in ('canceled', 'expired', 'failed') and q.provider_order_id is null then null
      when p_to in ('captured', 'confirming', 'confirmed') then clock_timestamp()
      else clock_timestamp() + payment_pause(p_to, 0) end,
    ask_again_at = case when p_to in ('canceled', 'expired', 'failed') and q.provider_order_id is null then null
      else q.ask_again_at end
  where q.id = p_id and p_to = any (payment_moves(q.status))
  returning * into s;
  if s.id is null then
    raise exception using errcode = 'SV002', message = 'payment session ' || p_id || ' may not become ' || p_to;
  end if;
  return s;
end $$;

-- What is to be done next for a session, and how long that can wait. The row decides; whoever asks
-- does it. Past the deadline a provider that does not answer is asked at its next check.
create function payment_step(s payment_sessions)
returns table(next text, wait_ms double precision) language sql stable as $$
  select case
      when s.status in ('captured', 'confirming', 'confirmed') then 'credit'
      when s.status = 'created' and s.provider_order_id is null then 'open'
      when s.status in ('created', 'capturing') then 'wait'
      else 'end' end,
    (select greatest(0, extract(epoch from d.due_at - clock_timestamp()) * 1000) from (select least(s.next_check_at, s.ask_again_at,
      case when s.status = 'created' and not (s.expires_at <= clock_timestamp()
        and s.error_code is not distinct from 'provider_unavailable') then s.expires_at end) as due_at) as d
     where d.due_at is not null)
$$;

-- The number of the question that somebody may ask the provider now: that of the one under way, or
-- a new one where the newest is answered and at least `p_pause` old. Null where it is too soon. A
-- question that nobody answered for 30 seconds counts no more.
create function ask_payment(p_id text, p_pause interval) returns integer language plpgsql as $$
declare
  v_asked integer;
begin
  update payment_sessions q set asked = q.asked + 1, asked_at = clock_timestamp()
  where q.id = p_id and (q.answered >= q.asked and (q.asked_at is null or q.asked_at <= clock_timestamp() - p_pause)
    or q.asked_at <= clock_timestamp() - interval '30 seconds')
  returning q.asked into v_asked;
  if v_asked is null then
    select q.asked into v_asked from payment_sessions q where q.id = p_id and q.answered < q.asked;
  end if;
  return v_asked;
end $$;

-- The provider has made the checkout: the first one made is the one that the buyer is shown. Its
-- order is kept also where the session has ended meanwhile, so that it is found if it is paid. Who
-- waited for it is answered; the buyer may ask at once.
create function open_payment(p_id text, p_order_id text, p_approval_url text)
returns payment_sessions language sql as $$
  update payment_sessions q set provider_order_id = coalesce(q.provider_order_id, p_order_id),
    approval_url = coalesce(q.approval_url, p_approval_url), provider_called_at = null, updated_at = clock_timestamp(),
    error_code = case q.status when 'created' then null else q.error_code end,
    error_message = case q.status when 'created' then null else q.error_message end,
    checks = 0, next_check_at = clock_timestamp() + payment_pause(q.status, 0),
    asked_at = null, answered = q.asked, ask_again_at = null, unanswered = 0
  where q.id = p_id
  returning *
$$;

-- The provider has the money. Another amount or currency than asked for is never credited by
-- itself, whatever was decided before.
create function take_payment(s payment_sessions, p_report jsonb)
returns payment_sessions language plpgsql as $$
declare
  v_before text := s.status;
begin
  if s.status = 'created' then
    s := move_payment(s.id, 'capturing');
  end if;
  s := move_payment(s.id, 'captured');
  update payment_sessions q set provider_capture_id = p_report ->> 'capture_id',
    -- Above what a wallet can hold it is another amount than any that was asked for.
    captured_nanos = least((p_report ->> 'amount_nanos')::numeric, 9000000000000000000)::bigint, captured_currency = p_report ->> 'currency',
    is_late = v_before in ('canceled', 'expired', 'failed'), error_code = null, error_message = null, provider_message = null,
    capture_key = null, resolution = null, resolved_by = null, resolution_note = null
  where q.id = s.id returning * into s;
  if s.captured_nanos <> s.amount_nanos or s.captured_currency <> s.currency then
    s := fail_payment(s.id, 'amount_mismatch', 'Asked for ' || trim_scale(s.amount_nanos / 1e9::numeric) || ' ' || s.currency
      || ', the provider took ' || trim_scale(s.captured_nanos / 1e9::numeric) || ' ' || s.captured_currency
      || '. Nothing was credited; a platform admin decides.');
  end if;
  return s;
end $$;

-- What a provider reports, however it was learned: the one place where a payment becomes captured.
-- Safe to run any number of times at once. `p_reading` is `provider_calls` as it was when the
-- question was asked. `p_is_asked`: the money was asked for, so a payment that is still open was
-- not approved. `asked` of the report: up to which question of people it is the answer.
create function record_payment(p_id text, p_report jsonb, p_reading integer, p_is_asked boolean)
returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
  v_status text := p_report ->> 'status';
  v_before text;
  v_is_due boolean;
begin
  s := lock_payment(p_id);
  v_before := s.status;
  v_is_due := s.next_check_at <= clock_timestamp();
  update payment_sessions q set provider_called_at = null, answered = greatest(q.answered, (p_report ->> 'asked')::integer)
  where q.id = p_id returning * into s;
  if p_reading >= s.provider_calls then
    -- Nothing was asked after it: this is the answer that was owed.
    update payment_sessions q set ask_again_at = null, unanswered = 0,
      gone_since = case when v_status = 'gone' then q.gone_since end where q.id = p_id returning * into s;
  end if;
  if v_status = 'captured' and s.provider_capture_id is null then
    s := take_payment(s, p_report);
  elsif p_reading <= s.reading then
    return s;
  else
    s := return_payment(s, v_status);
    if s.status = 'created' and v_status = 'open' and p_is_asked then
      update payment_sessions q set error_code = 'not_approved',
        error_message = 'The buyer has not approved this payment at the provider yet.' where q.id = p_id returning * into s;
    elsif s.status in ('created', 'capturing') and s.error_code = 'provider_unavailable' then
      update payment_sessions q set error_code = null, error_message = null, provider_message = null
      where q.id = p_id returning * into s;
    end if;
  end if;
  -- Only the look that the clock was to make is one of the clock's.
  if s.status = v_before and v_is_due then
    update payment_sessions q set checks = q.checks + 1, next_check_at = clock_timestamp() + payment_pause(q.status, q.checks + 1)
    where q.id = p_id returning * into s;
  end if;
  -- An answer without a capture says nothing of what went back.
  if p_reading > s.reading then
    s := note_claims(s, case when p_report ->> 'capture_id' is null
      then jsonb_build_object('refunds', s.refunds, 'disputes', s.disputes) else p_report end, p_reading);
  end if;
  return s;
end $$;

-- The provider gave no answer that says how things stand: it is asked again after 1 minute, 5
-- minutes, 1 hour, then daily, after the end too, however often people and webhooks find none
-- before. The clock's own looks stay what they are. Where it has not known the order for a day, the
-- payment failed; money that comes all the same is credited. `p_asked`: up to which question people
-- are told so.
create function payment_unanswered(p_id text, p_message text, p_is_gone boolean, p_asked integer)
returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  if p_is_gone then
    -- It may end, and whoever ends a payment takes its organization before its row.
    perform lock_payment(p_id);
  end if;
  update payment_sessions q set provider_called_at = null, provider_message = p_message, answered = greatest(q.answered, p_asked),
    unanswered = q.unanswered + (q.ask_again_at is null or q.ask_again_at <= clock_timestamp())::int,
    ask_again_at = case when q.ask_again_at > clock_timestamp() then q.ask_again_at
      else clock_timestamp() + payment_pause(case q.status when 'capturing' then q.status else 'created' end, q.unanswered) end,
    checks = q.checks + coalesce(q.next_check_at <= clock_timestamp(), false)::int,
    next_check_at = case when q.next_check_at <= clock_timestamp() then clock_timestamp() + payment_pause(q.status, q.checks + 1)
      else q.next_check_at end,
    gone_since = case when p_is_gone then coalesce(q.gone_since, clock_timestamp()) else q.gone_since end,
    error_code = case when q.status in ('created', 'capturing') then 'provider_unavailable' else q.error_code end,
    error_message = case when q.status in ('created', 'capturing')
      then 'The payment provider did not say how this payment stands. It is asked again by itself.' else q.error_message end
  where q.id = p_id returning * into s;
  if p_is_gone and s.status = 'capturing' and s.gone_since <= clock_timestamp() - interval '24 hours' then
    s := close_payment(p_id, 'failed', 'provider_error',
      'The payment provider does not know this payment any more. If it was paid after all, it is credited.');
  end if;
  return s;
end $$;

----------------------------------------------------------------------------------------------------
-- Refunds
----------------------------------------------------------------------------------------------------

-- Money that goes back: our refunds, refunds and disputes at the provider's own site, what
-- operators decide, and the proof.

create table payment_refunds (
  id text primary key default new_id('ref'),
  org_id text not null references organizations,
  payment_session_id text not null references payment_sessions,
  amount_nanos bigint not null check (amount_nanos > 0),
  currency text not null,
  reason text not null,
  requested_by text not null,
  allow_negative boolean not null,
  status text not null default 'pending' check (status in ('pending', 'succeeded', 'failed')),
  -- It has left the wallet.
  debited_at timestamptz,
  -- What of the credit was spent when that refused the refund.
  spent_nanos bigint,
  provider_refund_id text,
  error_code text,
  error_message text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  next_check_at timestamptz default clock_timestamp() + '00:01:00'::interval,
  checks integer not null default 0,
  -- When the provider was first asked for it.
  asked_at timestamptz,
  -- The operator who said how it ended; null if the provider did.
  ended_by text,
  -- Why, in the operator's words.
  end_note text
);
create index payment_refunds_due on payment_refunds (next_check_at)
where next_check_at is not null;
create unique index payment_refunds_one on payment_refunds (payment_session_id)
where status in ('pending', 'succeeded');
create index payment_refunds_session on payment_refunds (payment_session_id);

-- What a refund or dispute has taken of a capture. In another currency than the captured one nobody
-- can say how much that is: then all of it, until a person has looked.
create function claim_amount(s payment_sessions, p_claim jsonb)
returns numeric language sql immutable as $$
  select case when coalesce(p_claim ->> 'currency', s.captured_currency) = s.captured_currency
    then (p_claim ->> 'amount_nanos')::numeric else s.captured_nanos end
$$;

-- Money of another amount or currency that went back is decided about; where it comes back after
-- all, it is not.
create function follow_mismatch(s payment_sessions, p_returned_nanos numeric)
returns payment_sessions language plpgsql as $$
declare
  r payment_refunds;
  v_is_back boolean;
begin
  if s.status <> 'failed' or s.error_code is distinct from 'amount_mismatch' or coalesce(s.resolution, 'refunded') <> 'refunded' then
    return s;
  end if;
  select * into r from payment_refunds q where q.payment_session_id = s.id and q.status in ('pending', 'succeeded');
  v_is_back := r.status = 'succeeded' or r.id is null and p_returned_nanos >= s.captured_nanos;
  if v_is_back and s.resolution is null then
    update payment_sessions q set resolution = 'refunded', resolved_by = coalesce(r.requested_by, 'provider'),
      resolution_note = r.reason, updated_at = clock_timestamp() where q.id = s.id returning * into s;
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', '0', 'cause_id', r.id));
  elsif not coalesce(v_is_back, false) and s.resolution is not null then
    update payment_sessions q set resolution = null, resolved_by = null, resolution_note = null, updated_at = clock_timestamp()
    where q.id = s.id returning * into s;
  end if;
  return s;
end $$;

-- What the wallet gives back of a credit for money that went back: all of it for all. The same
-- number where the credit was what was captured; an operator may have credited another amount, or
-- in another currency.
create function share_of_credit(s payment_sessions, p_amount_nanos numeric)
returns bigint language sql immutable as $$
  select coalesce(least(s.credited_nanos, round(s.credited_nanos * p_amount_nanos / s.captured_nanos)), 0)::bigint
$$;

-- Takes a refund from the wallet before the provider is asked. Where the credit was spent it fails
-- instead, unless the wallet may go below zero.
create function debit_refund(p_refund_id text) returns void language plpgsql as $$
declare
  s payment_sessions;
  r payment_refunds;
  v_spent bigint;
begin
  select * into r from payment_refunds q where q.id = p_refund_id;
  s := lock_payment(r.payment_session_id);
  select * into r from payment_refunds q where q.id = p_refund_id;
  if r.status <> 'pending' or r.debited_at is not null then
    return;
  end if;
  select least(share_of_credit(s, r.amount_nanos), s.credited_nanos - s.debited_nanos) - greatest(w.balance_nanos, 0)
  into v_spent from wallets w where w.id = s.wallet_id;
  if v_spent > 0 and not r.allow_negative then
    update payment_refunds q set status = 'failed', error_code = 'credit_spent', spent_nanos = v_spent,
      updated_at = clock_timestamp(), next_check_at = null where q.id = r.id;
  else
    update payment_refunds q set debited_at = clock_timestamp() where q.id = r.id;
    perform bring_debit(s, r.id);
  end if;
end $$;

-- What the provider answered to our refund. A definite no gives the money back to the wallet.
create function record_refund(p_refund_id text, p_status text, p_provider_refund_id text,
  p_message text)
returns payment_refunds language plpgsql as $$
declare
  s payment_sessions;
  r payment_refunds;
begin
  select * into r from payment_refunds q where q.id = p_refund_id;
  s := lock_payment(r.payment_session_id);
  update payment_refunds q set status = p_status, provider_refund_id = coalesce(p_provider_refund_id, q.provider_refund_id),
    updated_at = clock_timestamp(),
    error_code = case p_status when 'failed' then 'provider_error' end, error_message = p_message,
    checks = q.checks + 1, next_check_at = case p_status when 'pending' then clock_timestamp() + payment_pause('pending', q.checks) end
  where q.id = p_refund_id and q.status in ('pending', p_status) returning * into r;
  if r.id is null then
    select * into r from payment_refunds q where q.id = p_refund_id;
    return r;
  end if;
  if p_status = 'failed' then
    -- The list that we have may be older than this no.
    update payment_sessions q set refunds = (select coalesce(jsonb_agg(c), '[]') from jsonb_array_elements(q.refunds) as c
      where c ->> 'payment_refund_id' is distinct from p_refund_id) where q.id = s.id returning * into s;
  end if;
  perform bring_debit(s, p_refund_id);
  return r;
end $$;

-- What refunds and disputes have taken of a capture: each refund once, by the provider's id or by
-- ours, and of each open or lost dispute what the refunds that it names do not cover. Our own
-- refunds count from their debit on, also where no list shows them yet. `p_is_done`: only refunds
-- that have succeeded. A refund that two disputes name covers the first.
create function payment_loss(s payment_sessions, p_is_done boolean)
returns numeric language sql stable as $$
  with own as (
    select o.id, o.provider_refund_id, o.status = 'succeeded' as is_done,
      case when o.status in ('pending', 'succeeded') and o.debited_at is not null then o.amount_nanos end as amount_nanos
    from payment_refunds o where o.payment_session_id = s.id
  ), listed as (
    select distinct on (coalesce(c.value ->> 'provider_refund_id', c.ordinality::text))
      c.value ->> 'provider_refund_id' as provider_refund_id, o.id as own_id,
      greatest(case when c.value ->> 'status' <> 'failed' then claim_amount(s, c.value) end, o.amount_nanos) as amount_nanos,
      c.value ->> 'status' = 'succeeded' or coalesce(o.is_done, false) as is_done
    from jsonb_array_elements(s.refunds) with ordinality as c
    left join lateral (select q.* from own q
      where q.id = c.value ->> 'payment_refund_id' or q.provider_refund_id = c.value ->> 'provider_refund_id' limit 1) as o on true
    order by coalesce(c.value ->> 'provider_refund_id', c.ordinality::text), c.ordinality desc
  ), refund as (
    select l.provider_refund_id, l.amount_nanos from listed l where l.is_done or not p_is_done
    union all
    select o.provider_refund_id, o.amount_nanos from own o
    where (o.is_done or not p_is_done) and not exists (select 1 from listed l where l.own_id = o.id)
  ), dispute as (
    select distinct on (d ->> 'id') d ->> 'id' as id, claim_amount(s, d) as amount_nanos, coalesce(d -> 'refund_ids', '[]') as refund_ids
    from jsonb_array_elements(s.disputes) as d where d ->> 'status' in ('open', 'lost') order by d ->> 'id'
  )
  select coalesce((select sum(r.amount_nanos) from refund r), 0) + coalesce((select sum(greatest(0, d.amount_nanos - coalesce((
      select sum(r.amount_nanos) from refund r where d.refund_ids @> to_jsonb(r.provider_refund_id)
        and not exists (select 1 from dispute e where e.id < d.id and e.refund_ids @> to_jsonb(r.provider_refund_id))), 0))) from dispute d), 0)
$$;

-- The provider's newest list of refunds and disputes: our own refunds take their state from it,
-- then the wallet follows. A refund is ours by our id, or by the provider's where the list leaves
-- ours out.
create function note_claims(s payment_sessions, p_report jsonb, p_reading integer)
returns payment_sessions language plpgsql as $$
declare
  v_cause text;
  -- A provider that may not be asked for disputes says nothing new of them.
  v_disputes jsonb := coalesce(nullif(p_report -> 'disputes', 'null'), s.disputes);
begin
  -- What is new or changed in the list names the cause.
  select c.id into v_cause from (
    select coalesce(r ->> 'payment_refund_id', r ->> 'provider_refund_id') as id, r as claim from jsonb_array_elements(p_report -> 'refunds') as r
    union all
    select d ->> 'id', d from jsonb_array_elements(v_disputes) as d
  ) as c where not s.refunds || s.disputes @> jsonb_build_array(c.claim) order by c.id limit 1;
  update payment_sessions q set refunds = p_report -> 'refunds', disputes = v_disputes, reading = p_reading,
    provider_called_at = null
  where q.id = s.id returning * into s;
  -- A refund that succeeded can only fail; an older list does not make it pending again.
  update payment_refunds o set status = r ->> 'status', provider_refund_id = coalesce(o.provider_refund_id, r ->> 'provider_refund_id'),
    updated_at = clock_timestamp(), next_check_at = null,
    error_code = case r ->> 'status' when 'failed' then 'provider_error' end,
    error_message = case r ->> 'status' when 'failed' then 'The provider could not carry out the refund.' end
  from jsonb_array_elements(p_report -> 'refunds') as r
  where (o.id = r ->> 'payment_refund_id' or o.provider_refund_id = r ->> 'provider_refund_id')
    and o.payment_session_id = s.id and r ->> 'status' <> 'pending'
    and (o.status = 'pending' or o.status = 'succeeded' and r ->> 'status' = 'failed');
  update payment_refunds o set provider_refund_id = r ->> 'provider_refund_id'
  from jsonb_array_elements(p_report -> 'refunds') as r
  where o.id = r ->> 'payment_refund_id' and o.payment_session_id = s.id and o.provider_refund_id is null;
  return bring_debit(s, v_cause);
end $$;

-- An operator's decision about captured money of another amount or currency: credit it after all,
-- or leave it as it is. A payment that hangs while it is taken can be closed; money that comes all
-- the same is credited.
create function resolve_payment(p_id text, p_resolution text, p_amount_nanos bigint, p_by text,
  p_note text)
returns table(code text) language plpgsql as $$
declare
  s payment_sessions;
  v_is_hanging boolean;
begin
  s := lock_payment(p_id);
  v_is_hanging := s.status = 'capturing' and p_resolution = 'closed';
  code := case
    when v_is_hanging then null
    when s.resolution = p_resolution then 'repeated'
    when s.status <> 'failed' or s.error_code <> 'amount_mismatch' or s.resolution is not null then 'nothing_to_resolve'
    when exists (select 1 from payment_refunds r where r.payment_session_id = p_id and r.status in ('pending', 'succeeded'))
      then 'refund_under_way'
    when p_resolution = 'credited' and p_amount_nanos is null and s.captured_currency <> s.currency then 'amount_needed'
    when p_amount_nanos > s.captured_nanos and s.captured_currency = s.currency then 'amount_not_captured'
    -- Kept for later, the amount that was decided would be lost.
    when p_resolution = 'credited' and (select w.balance_nanos::numeric + w.reserved_nanos + coalesce(p_amount_nanos, s.captured_nanos)
      > 9000000000000000000 from wallets w where w.id = s.wallet_id) then 'wallet_full'
    end;
  if code is null then
    if v_is_hanging then
      perform close_payment(p_id, 'failed', 'provider_error',
        'The payment did not come to an end at the provider. If it was paid after all, it is credited.');
    end if;
    update payment_sessions q set resolution = p_resolution, resolved_by = p_by, resolution_note = p_note,
      updated_at = clock_timestamp() where q.id = p_id;
    if p_resolution = 'credited' then
      perform move_payment(p_id, 'captured');
      perform credit_payment(p_id, p_amount_nanos);
    end if;
  end if;
  return next;
end $$;

-- Brings the wallet to what refunds and disputes have taken. What went back is in what was
-- captured; the wallet gives the same share of what was credited, never more. Run any number of
-- times it changes what changed. `p_cause` is the refund or dispute. Of a refund of ours that
-- leaves the wallet nothing is told here: its provider is asked for it next, and what is answered
-- to that is told.
create function bring_debit(s payment_sessions, p_cause text)
returns payment_sessions language plpgsql as $$
declare
  -- With the buyer already, or withheld by a dispute.
  v_returned numeric := payment_loss(s, true);
  v_target bigint := share_of_credit(s, payment_loss(s, false));
  v_entry wallet_transactions;
  v_before bigint := s.debited_nanos;
  v_is_dispute boolean := s.disputes @> jsonb_build_array(jsonb_build_object('id', p_cause));
  v_is_unasked boolean := exists (select 1 from payment_refunds o where o.id = p_cause and o.checks = 0)
    and not s.refunds @> jsonb_build_array(jsonb_build_object('payment_refund_id', p_cause));
begin
  if v_target <> s.debited_nanos then
    select * into v_entry from post_entries(s.org_id, array[(s.wallet_id,
      case when v_target > s.debited_nanos then 'payment_refund' else 'payment_credit' end, s.debited_nanos - v_target, 0, null,
      null, null, null, null, null, s.id, case when v_target > s.debited_nanos then '' else 'reversed: ' end
        || case when p_cause like 'ref\_%' then 'refund ' when v_is_dispute then 'dispute at the provider '
          else 'refund at the provider ' end || coalesce(p_cause, ''))::ledger_entry]);
    insert into payment_entries (transaction_id, payment_session_id, amount_nanos, cause_id)
    values (v_entry.id, s.id, v_entry.amount_nanos, coalesce(p_cause, 'report'));
    update payment_sessions q set debited_nanos = v_target, updated_at = clock_timestamp() where q.id = s.id returning * into s;
  end if;
  -- Refunded is what the provider has done, to the last of it.
  if s.status = 'completed' and v_returned >= s.captured_nanos then
    s := move_payment(s.id, 'refunded');
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause));
  elsif s.status = 'refunded' and v_returned < s.captured_nanos then
    s := move_payment(s.id, 'completed');
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause,
      'reversed', true));
  elsif v_target > v_before and not v_is_unasked then
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause));
  end if;
  -- An open dispute is looked at daily, whatever webhooks come.
  if s.status in ('completed', 'refunded') and s.disputes @> '[{"status": "open"}]' then
    update payment_sessions q set checks = 0,
      next_check_at = least(q.next_check_at, clock_timestamp() + payment_pause(q.status, 0))
    where q.id = s.id returning * into s;
  end if;
  return follow_mismatch(s, v_returned);
end $$;

-- Notes that a refund is about to be asked for at its provider; true if it was before.
create function ask_refund(p_refund_id text) returns boolean language plpgsql as $$
declare
  v_was_asked boolean;
begin
  select r.asked_at is not null into v_was_asked from payment_refunds r where r.id = p_refund_id for no key update;
  if not v_was_asked then
    update payment_refunds r set asked_at = clock_timestamp() where r.id = p_refund_id;
  end if;
  return v_was_asked;
end $$;

create function request_refund(p_id text, p_reason text, p_by text, p_allow_negative boolean)
returns table(code text, refund_id text) language plpgsql as $$
declare
  s payment_sessions;
  v_left numeric;
begin
  s := lock_payment(p_id);
  -- What is not lost yet, and not promised to a refund that has not left the wallet.
  v_left := s.captured_nanos - payment_loss(s, false) - (select coalesce(sum(r.amount_nanos), 0) from payment_refunds r
    where r.payment_session_id = p_id and r.status = 'pending' and r.debited_at is null);
  select r.id into refund_id from payment_refunds r where r.payment_session_id = p_id and r.status in ('pending', 'succeeded');
  if refund_id is not null then
    -- Asked for anew, into debt if need be, before it has left the wallet.
    update payment_refunds r set allow_negative = true
      where r.id = refund_id and p_allow_negative and not r.allow_negative and r.status = 'pending' and r.debited_at is null;
    code := case when v_left > 0 then 'refunded_in_part' end;
    return next;
    return;
  end if;
  code := case
    when s.status in ('completed', 'captured') or s.status = 'failed' and s.error_code = 'amount_mismatch' and s.resolution is null then
      case when v_left <= 0 then 'nothing_to_refund' end
    when s.status = 'refunded' then 'nothing_to_refund'
    else 'payment_not_refundable' end;
  if code is null then
    insert into payment_refunds (org_id, payment_session_id, amount_nanos, currency, reason, requested_by, allow_negative)
    values (s.org_id, s.id, v_left, s.captured_currency, p_reason, p_by, p_allow_negative) returning id into refund_id;
    insert into outbox (org_id, workflow, workflow_id, input, next_at)
    values (s.org_id, 'paymentRefund', refund_id, jsonb_build_object('payment_refund_id', refund_id),
      clock_timestamp() + interval '5 seconds');
  end if;
  return next;
end $$;

----------------------------------------------------------------------------------------------------
-- Notices
----------------------------------------------------------------------------------------------------

-- What people are told of outside: where to, what happened, and the messages that carry it there.

-- A webhook, a channel of Slack or Teams, or mail to confirmed recipients; of an organization, or
-- of the platform.
create table notice_destinations (
  id text primary key default new_id('nd'),
  -- Null: the platform's.
  org_id text references organizations,
  name text not null,
  channel text not null check (channel in ('webhook', 'slack', 'teams', 'email')),
  -- Where a webhook goes; the address of a Slack or Teams channel is a secret of its own, so only
  -- its host is shown.
  url text,
  host text,
  -- Ciphertext by name, bound to this row (domain/secrets.ts): `secret` of a webhook, `url` of a
  -- Slack or Teams channel.
  credentials jsonb not null default '{}',
  -- What it is told of.
  kinds text[] not null,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Nothing is sent there until a person turns it on again.
  disabled_at timestamptz,
  disabled_reason text,
  archived_at timestamptz
);
create index notice_destinations_org on notice_destinations (org_id, id desc)
where archived_at is null;

-- Whom an email destination writes to: nobody who has not entered a code that was mailed to them.
create table notice_recipients (
  id text primary key default new_id('rcp'),
  destination_id text not null references notice_destinations,
  address text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- The mailed code is of this moment; a new one makes it worthless.
  asked_at timestamptz not null default clock_timestamp(),
  wrong_codes integer not null default 0,
  confirmed_at timestamptz,
  constraint notice_recipients_destination_id_address_key unique (destination_id, address)
);

-- How the sending to a destination stands. Apart from it, because each notice locks this row.
create table notice_queues (
  destination_id text primary key references notice_destinations,
  -- Its workflow has been asked to look and has not looked yet.
  is_woken boolean not null default false,
  -- Sends in a row that failed because of the destination.
  failures integer not null default 0,
  -- When a failed try was counted last: messages that were taken together fail together.
  failed_at timestamptz
);

-- One message to a destination, and how it fares.
create table notice_messages (
  id text primary key default new_id('msg'),
  destination_id text not null references notice_destinations,
  kind text not null,
  notice_count integer not null,
  -- Whom a confirmation is mailed to.
  recipient_id text,
  status text not null default 'waiting' check (status in ('waiting', 'delivered', 'failed')),
  attempts integer not null default 0,
  next_at timestamptz not null default clock_timestamp(),
  give_up_at timestamptz not null default clock_timestamp() + '24:00:00'::interval,
  created_at timestamptz not null default clock_timestamp(),
  attempted_at timestamptz,
  delivered_at timestamptz,
  -- The HTTP status or SMTP reply code of the last try, and what went wrong, in words.
  last_status integer,
  last_error text,
  replayed_at timestamptz,
  -- Who is still to be told, after a try that told others; null: everybody.
  put_off text[],
  -- Who was refused for good in that try.
  refused text[],
  constraint notice_messages_recipient_id_fkey foreign key (recipient_id) references
    notice_recipients(id) on delete cascade
);
create index notice_messages_created on notice_messages (created_at);
create index notice_messages_destination on notice_messages (destination_id, id desc);
create index notice_messages_waiting on notice_messages (destination_id, next_at)
where status = 'waiting';

-- What happened, once for each destination that is told of it, and the message that it left in.
create table notices (
  id text primary key default new_id('ntc'),
  destination_id text not null references notice_destinations,
  -- Whose event it is; `platform` is nobody's.
  org_id text not null,
  kind text not null,
  event_id text,
  cost_ticket_id text,
  payload jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Null: waits to be put into a message.
  message_id text references notice_messages
);
create index notices_destination on notices (destination_id, id desc);
create index notices_message on notices (message_id) where message_id is not null;
create index notices_ticket on notices (cost_ticket_id) where cost_ticket_id is not null;
create index notices_waiting on notices (destination_id, kind, id) where message_id is null;

-- Links by which somebody who is signed in decides on a ticket once. They name ticket and verdict,
-- never a person.
create table ticket_links (
  -- SHA-256 of the 256 bits in the link.
  hash text primary key,
  ticket_id text not null references cost_tickets,
  verdict text not null check (verdict in ('approved', 'denied')),
  message_id text not null references notice_messages,
  created_at timestamptz not null default clock_timestamp(),
  -- Dead since: with its ticket, or the first use.
  ended_at timestamptz,
  used_by text
);
create index ticket_links_message on ticket_links (message_id);
create index ticket_links_ticket on ticket_links (ticket_id) where ended_at is null;

-- Keys whose end was told of.
create table expiring_keys (
  token_id text primary key,
  expires_at timestamptz not null,
  constraint expiring_keys_token_id_fkey foreign key (token_id) references tokens(id) on delete
    cascade
);

-- What is wrong with the workers, until it is well again, so that each is told of once.
create table worker_troubles (
  -- The type of its event and what it is about: `worker.missing export`.
  id text primary key,
  first_seen_at timestamptz not null default clock_timestamp(),
  told_at timestamptz,
  -- Up to where it was told of, if it can grow: the newest message that was given up.
  told_up_to timestamptz
);

-- When an API last asked how the workers are: one of them asks, for all.
create table worker_looks (
  is_one boolean primary key default true check (is_one),
  looked_at timestamptz not null
);

create table notice_codes (
  -- The id of the organization, or `platform`.
  owner text not null,
  -- In small letters.
  address text not null,
  sent_at timestamptz not null default clock_timestamp()
);
create index notice_codes_owner on notice_codes (owner, sent_at);
create index notice_codes_sent on notice_codes (sent_at);

create function open_notice_queue() returns trigger language plpgsql as $$
begin
  insert into notice_queues (destination_id) values (new.id);
  return null;
end $$;

create trigger notice_destinations_queue after insert on notice_destinations
for each row
execute function open_notice_queue();

-- Asks the workflow of a destination to look, once until it does. Whoever writes a notice keeps
-- this row until the commit, so that the workflow, which takes back the wish before it looks, sees
-- the notice.
create function wake_notices(p_destination_id text) returns void language plpgsql as $$
declare
  v_is_woken boolean;
begin
  select q.is_woken into v_is_woken from notice_queues q where q.destination_id = p_destination_id for no key update;
  if not v_is_woken then
    update notice_queues q set is_woken = true where q.destination_id = p_destination_id;
    perform send_to_workflow(coalesce(d.org_id, 'platform'), 'notices', 'notices-' || d.id, 'wakeNotices',
      jsonb_build_object('destination_id', d.id))
    from notice_destinations d where d.id = p_destination_id;
  end if;
end $$;

-- A link is good for its ticket as it is: one that opens again has links of its own.
create function end_ticket_links() returns trigger language plpgsql as $$
begin
  update ticket_links l set ended_at = clock_timestamp() where l.ticket_id = new.id and l.ended_at is null;
  return null;
end $$;

create trigger cost_tickets_end_links after update of status on cost_tickets
for each row when (old.status = 'open' and new.status <> 'open')
execute function end_ticket_links();

-- Takes messages that are due, at most 4, or one while the destination fails; whoever does not say
-- how it went within `p_lease_seconds` leaves them to the next. Those of a destination that is out
-- of use, or past their day, have failed.
create function take_notices(p_destination_id text, p_lease_seconds integer)
returns setof notice_messages language plpgsql as $$
declare
  d notice_destinations;
begin
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(p_destination_id));
  select * into d from notice_destinations q where q.id = p_destination_id;
  perform gather_notices(p_destination_id);
  update notice_messages m set status = 'failed', last_error = case
      when d.archived_at is not null then 'The destination was removed.'
      when d.disabled_at is not null then coalesce(m.last_error, 'The destination is disabled.')
      else coalesce(m.last_error, 'Nobody could send it for a day.') end
  where m.destination_id = p_destination_id and m.status = 'waiting'
    and (d.archived_at is not null or d.disabled_at is not null or m.give_up_at <= clock_timestamp());
  return query
    update notice_messages m set attempts = m.attempts + 1, attempted_at = clock_timestamp(),
      next_at = clock_timestamp() + p_lease_seconds * interval '1 second'
    where m.id in (
      select q.id from notice_messages q
      where q.destination_id = p_destination_id and q.status = 'waiting' and q.next_at <= clock_timestamp()
      order by q.attempts, q.id
      limit (select case when f.failures > 0 then 1 else 4 end from notice_queues f where f.destination_id = p_destination_id))
    returning m.*;
end $$;

-- Milliseconds until something is to be done for a destination: 0 if it is now, null if nothing is.
create function notices_due_in(p_destination_id text)
returns double precision language plpgsql as $$
declare
  v_gathering double precision;
begin
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(p_destination_id));
  v_gathering := gather_notices(p_destination_id);
  -- Of no rows the least is null, and stays out of it.
  return least(v_gathering, (select extract(epoch from greatest(min(m.next_at), clock_timestamp()) - clock_timestamp()) * 1000
    from notice_messages m where m.destination_id = p_destination_id and m.status = 'waiting' having count(*) > 0));
end $$;

-- Asks again for destinations whose notices nobody has looked at for a minute; how many.
create function adopt_notices(p_limit integer) returns integer language plpgsql as $$
declare
  v_count integer;
begin
  with late as (
    select d.id, d.org_id from notice_destinations d
    where (exists (select 1 from notices n where n.destination_id = d.id and n.message_id is null
        and n.created_at < clock_timestamp() - interval '1 minute')
      or exists (select 1 from notice_messages m where m.destination_id = d.id and m.status = 'waiting'
        and m.next_at < clock_timestamp() - interval '1 minute'))
      and not exists (select 1 from outbox o where o.workflow_id = 'notices-' || d.id and o.parked_at is null)
    order by d.id limit p_limit
  ), sent as (
    select send_to_workflow(coalesce(l.org_id, 'platform'), 'notices', 'notices-' || l.id, 'wakeNotices',
      jsonb_build_object('destination_id', l.id)) from late l
  )
  select count(*) into v_count from sent;
  return v_count;
end $$;

-- Tells once of each key that ends within a week; how many.
create function tell_expiring_keys() returns integer language plpgsql as $$
declare
  t tokens;
  v_count integer := 0;
begin
  for t in
    select k.* from tokens k
    where k.purpose = 'key' and k.revoked_at is null and k.org_id is not null
      and k.expires_at > clock_timestamp() and k.expires_at <= clock_timestamp() + interval '7 days'
      -- One that was made for a week or less is not news.
      and k.expires_at > k.created_at + interval '8 days'
      and not exists (select 1 from expiring_keys e where e.token_id = k.id and e.expires_at = k.expires_at)
    limit 200
  loop
    insert into expiring_keys (token_id, expires_at) values (t.id, t.expires_at)
    on conflict (token_id) do update set expires_at = excluded.expires_at;
    perform append_event(t.org_id, 'key.expiring', jsonb_build_object('key_id', t.id, 'name', t.name, 'user_id', t.user_id,
      'team_id', t.team_id, 'expires_at', iso_time(t.expires_at)));
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;

create function tell_new_threshold() returns trigger language plpgsql as $$
begin
  if tg_table_name = 'organizations' then
    perform tell_low_wallets(new.id, null, old.low_balance_threshold_nanos, new.low_balance_threshold_nanos);
  else
    perform tell_low_wallets(new.org_id, new.id,
      (select coalesce(old.low_balance_threshold_nanos, o.low_balance_threshold_nanos) from organizations o where o.id = new.org_id),
      (select coalesce(new.low_balance_threshold_nanos, o.low_balance_threshold_nanos) from organizations o where o.id = new.org_id));
  end if;
  return null;
end $$;

create trigger organizations_tell_threshold after update of low_balance_threshold_nanos on
  organizations
for each row when (new.low_balance_threshold_nanos is distinct from old.low_balance_threshold_nanos)
execute function tell_new_threshold();

create trigger wallets_tell_threshold after update of low_balance_threshold_nanos on wallets
for each row when (new.low_balance_threshold_nanos is distinct from old.low_balance_threshold_nanos)
execute function tell_new_threshold();

-- The kind of notice that an event is; null if nobody is told of it.
create function notice_kind(p_type text, p_payload jsonb)
returns text language sql immutable as $$
  select case p_type
    when 'cost_ticket.created' then 'ticket_created'
    when 'cost_ticket.resolved' then 'ticket_resolved'
    when 'wallet.balance_low' then 'balance_low'
    when 'budget.threshold' then 'budget_threshold'
    when 'payment.completed' then 'payment'
    when 'payment.failed' then 'payment'
    when 'payment.refunded' then case p_payload ->> 'cause' when 'dispute' then 'dispute' else 'refund' end
    when 'key.expiring' then 'key_expiring'
    when 'gateway.config_rejected' then 'gateway_config_rejected'
    when 'gateway.silent' then 'gateway_silent'
    when 'audit.broken' then 'audit_broken'
    when 'worker.missing' then 'worker_missing'
    when 'worker.behind' then 'worker_behind'
    when 'outbox.parked' then 'outbox_parked' end
$$;

-- A message for one notice, or for many of a kind. While its destination fails it waits as the
-- others do.
create function message_of(p_destination_id text, p_kind text, p_notice_ids text[])
returns void language plpgsql as $$
declare
  v_id text := new_id('msg');
  v_next timestamptz;
begin
  select min(m.next_at) into v_next from notice_messages m join notice_queues q on q.destination_id = m.destination_id
  where m.destination_id = p_destination_id and m.status = 'waiting' and q.failures > 0;
  insert into notice_messages (id, destination_id, kind, notice_count, next_at)
  values (v_id, p_destination_id, p_kind, cardinality(p_notice_ids), greatest(clock_timestamp(), v_next));
  update notices n set message_id = v_id where n.id = any(p_notice_ids);
end $$;

-- Says how a try went. `p_outcome`: delivered; refused, which is about this message; or failed,
-- which is about the destination, so that all its messages wait. `p_pause_ms` is the first pause;
-- each further one is twice as long, up to 15 minutes. Messages that were taken together are one
-- failure. One that is delivered may have an error too: a recipient who was not told.
create function note_sent(p_message_id text, p_outcome text, p_status integer, p_error text,
  p_pause_ms integer)
returns void language plpgsql as $$
declare
  m notice_messages;
  v_failures integer;
begin
  select * into m from notice_messages q where q.id = p_message_id;
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(m.destination_id));
  if p_outcome = 'delivered' then
    update notice_messages q set status = 'delivered', delivered_at = clock_timestamp(), last_status = p_status, last_error = p_error
    where q.id = m.id;
    -- It answers again: what waited for that goes now.
    update notice_queues q set failures = 0 where q.destination_id = m.destination_id and q.failures > 0;
    if found then
      update notice_messages q set next_at = clock_timestamp()
      where q.destination_id = m.destination_id and q.status = 'waiting' and q.id <> m.id;
    end if;
    return;
  end if;
  if p_outcome = 'failed' then
    update notice_queues q set failed_at = clock_timestamp(),
      failures = q.failures + case when q.failures > 0 and q.failed_at >= m.attempted_at then 0 else 1 end
    where q.destination_id = m.destination_id
    returning q.failures into v_failures;
  end if;
  update notice_messages q set last_status = case when q.id = m.id then p_status else q.last_status end,
    last_error = case when q.id = m.id then p_error else q.last_error end,
    next_at = greatest(case when q.id = m.id then clock_timestamp() else q.next_at end, clock_timestamp()
      + least(900000, p_pause_ms * power(2, least(coalesce(v_failures, m.attempts), 20) - 1)) * interval '1 millisecond')
  where q.destination_id = m.destination_id and q.status = 'waiting' and (q.id = m.id or v_failures is not null);
end $$;

-- Says that a destination is as good as new: what waits for it goes now.
create function retry_notices(p_destination_id text) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(p_destination_id));
  update notice_queues q set failures = 0 where q.destination_id = p_destination_id;
  update notice_messages m set next_at = clock_timestamp()
  where m.destination_id = p_destination_id and m.status = 'waiting' and m.next_at > clock_timestamp();
  perform wake_notices(p_destination_id);
end $$;

-- What has been folded into all editions, as the ledger and its calls say it.
create function folded_calls()
returns table(edition bigint, day date, key_id text, user_id text, team_id text, agent_id text,
  family text, provider text, model text, tags text[], cost_nanos numeric, requests bigint,
  prompt_tokens numeric, completion_tokens numeric, cached_tokens numeric) language sql stable as $$
  select e.edition, s.day, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model, s.tags, s.cost_nanos, s.requests,
    s.prompt_tokens, s.completion_tokens, s.cached_tokens
  from spend_editions e join spend_cursors c on c.edition = e.edition
  join wallet_transactions t on t.wallet_id = c.wallet_id and t.seq <= c.folded_seq and t.type = 'settlement'
  left join reservations r on r.id = t.reservation_id
  cross join lateral spend_of(t, r, e.time_zone) as s
  where e.state <> 'dropped'
$$;

-- Writes a notice for each destination of the event's organization, or of the platform, that is to
-- be told of it. What a rule decided is told to those alone who were told that the ticket waits.
create function tell_destinations() returns trigger language plpgsql as $$
declare
  v_kind text := notice_kind(new.type, new.payload);
  v_destination_id text;
begin
  for v_destination_id in
    select f.id from (
      select d.id, d.kinds, d.archived_at, d.disabled_at from notice_destinations d where d.org_id = new.org_id
      union all
      select d.id, d.kinds, d.archived_at, d.disabled_at from notice_destinations d where new.org_id = 'platform' and d.org_id is null
    ) as f
    where v_kind = any(f.kinds) and f.archived_at is null and f.disabled_at is null
      and (v_kind <> 'ticket_resolved' or new.payload ->> 'decided_by' is distinct from 'rule'
        or exists (select 1 from notices n where n.cost_ticket_id = new.payload ->> 'cost_ticket_id' and n.destination_id = f.id
          and n.kind = 'ticket_created' and n.message_id is not null))
    order by f.id
  loop
    insert into notices (destination_id, org_id, kind, event_id, cost_ticket_id, payload)
    values (v_destination_id, new.org_id, v_kind, new.id, new.payload ->> 'cost_ticket_id', new.payload);
    perform wake_notices(v_destination_id);
  end loop;
  return null;
end $$;

create trigger events_tell after insert on events
for each row when (new.type in ('cost_ticket.created', 'cost_ticket.resolved', 'wallet.balance_low',
  'budget.threshold', 'payment.completed', 'payment.failed', 'payment.refunded', 'key.expiring',
  'gateway.config_rejected', 'gateway.silent', 'audit.broken', 'worker.missing', 'worker.behind',
  'outbox.parked'))
execute function tell_destinations();

-- Puts the waiting notices of a destination into messages: each into its own, but of a kind that
-- has over 10 in 10 seconds into one. Returns how many milliseconds those that still wait for their
-- 10 seconds have; null if none does.
create function gather_notices(p_destination_id text)
returns double precision language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_kind text;
  v_ids text[];
  v_oldest timestamptz;
  v_recent bigint;
  v_until timestamptz;
  v_next timestamptz;
begin
  for v_kind, v_ids, v_oldest in
    select n.kind, array_agg(n.id order by n.id), min(n.created_at) from notices n
    where n.destination_id = p_destination_id and n.message_id is null group by n.kind order by min(n.id)
  loop
    select coalesce(sum(m.notice_count), 0), max(m.created_at) + interval '10 seconds' into v_recent, v_until
    from notice_messages m
    where m.destination_id = p_destination_id and m.kind = v_kind and m.created_at > v_now - interval '10 seconds'
      and m.id > 'msg_' || lpad(to_hex((extract(epoch from v_now - interval '1 minute') * 1000)::bigint), 12, '0');
    if v_recent + cardinality(v_ids) <= 10 then
      perform message_of(p_destination_id, v_kind, array[i]) from unnest(v_ids) as i;
    elsif v_recent = 0 or v_oldest <= v_now - interval '10 seconds' then
      perform message_of(p_destination_id, v_kind, v_ids);
    else
      v_next := least(v_next, v_until, v_oldest + interval '10 seconds');
    end if;
  end loop;
  return case when v_next is not null then greatest(0, extract(epoch from v_next - clock_timestamp()) * 1000) end;
end $$;

-- A threshold that is set above the balance is crossed by that. A threshold for all is no news of a
-- wallet that never had money, nor is any of one whose person or team is gone.
create function tell_low_wallets(p_org_id text, p_wallet_id text, p_before_nanos bigint,
  p_after_nanos bigint)
returns void language sql as $$
  select append_event(w.org_id, 'wallet.balance_low', jsonb_build_object('wallet_id', w.id, 'owner_type', w.owner_type,
    'currency', w.currency, 'balance_nanos', w.balance_nanos::text, 'reserved_nanos', w.reserved_nanos::text,
    'threshold_nanos', p_after_nanos::text, 'by_threshold', true))
  from wallets w
  where w.org_id = p_org_id and (w.id = p_wallet_id or (p_wallet_id is null and w.low_balance_threshold_nanos is null
      and (w.seq > 0 or w.owner_type = 'organization')))
    and (w.owner_type <> 'team' or exists (select 1 from teams o where o.id = w.owner_team_id and o.archived_at is null))
    and (w.owner_type <> 'user' or exists (select 1 from memberships o where o.org_id = w.org_id and o.user_id = w.owner_user_id
      and o.archived_at is null))
    and w.balance_nanos + w.reserved_nanos < p_after_nanos
    and not coalesce(w.balance_nanos + w.reserved_nanos < p_before_nanos, false)
$$;

-- Keys that end within a week and were not told of, of people who are there. One that was made for
-- a week or less is not news.
create function untold_keys() returns setof tokens language sql stable as $$
  select k.* from tokens k
  where k.purpose = 'key' and k.revoked_at is null and k.org_id is not null
    and k.expires_at > clock_timestamp() and k.expires_at <= clock_timestamp() + interval '7 days'
    and k.expires_at > k.created_at + interval '8 days'
    and (k.user_id is null or exists (select 1 from memberships m where m.org_id = k.org_id and m.user_id = k.user_id
      and m.archived_at is null))
    and not exists (select 1 from expiring_keys e where e.token_id = k.id and e.expires_at = k.expires_at)
$$;

-- Tells once of each key of an organization that ends within a week; how many. Under the
-- organization's lock, as all that writes events of its money: whoever has that and waits for the
-- queue of a destination never waits for this.
create function tell_expiring_keys_2(p_org_id text) returns integer language plpgsql as $$
declare
  t tokens;
  v_count integer := 0;
begin
  perform lock_organization(p_org_id);
  for t in select * from untold_keys() k where k.org_id = p_org_id order by k.id limit 200 loop
    insert into expiring_keys (token_id, expires_at) values (t.id, t.expires_at)
    on conflict (token_id) do update set expires_at = excluded.expires_at;
    perform append_event(t.org_id, 'key.expiring', jsonb_build_object('key_id', t.id, 'name', t.name, 'user_id', t.user_id,
      'team_id', t.team_id, 'expires_at', iso_time(t.expires_at)));
    v_count := v_count + 1;
  end loop;
  return v_count;
end $$;

-- What a destination is reached by, in one value: its address, its secret, and who has confirmed. A
-- try may last ten seconds, and what it was sent to may be another by then: what comes of it says
-- nothing about what the destination is now.
create function notice_target(d notice_destinations) returns text language sql stable as $$
  select md5(jsonb_build_array(d.url, d.host, d.credentials, (select jsonb_agg(r.address order by r.id) from notice_recipients r
    where r.destination_id = d.id and r.confirmed_at is not null))::text)
$$;

-- Says how a try went. `p_outcome`: delivered; refused, which is about this message; or failed,
-- which is about the destination, so that all its messages wait. `p_sent_to` is what
-- `notice_target` said as the message was sent, null if nobody knows: if the destination has
-- another by now, what is said is of this message alone, which goes to the new one as soon as it is
-- due. `p_pause_ms` is the first pause; each further one is twice as long, up to 15 minutes.
-- Messages that were taken together are one failure. One that is delivered may have an error too: a
-- recipient who was not told.
create function note_sent_2(p_message_id text, p_outcome text, p_status integer, p_error text,
  p_pause_ms integer, p_sent_to text)
returns void language plpgsql as $$
declare
  m notice_messages;
  v_failures integer;
  v_is_other boolean;
begin
  select * into m from notice_messages q where q.id = p_message_id;
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(m.destination_id));
  select notice_target(d) <> p_sent_to into v_is_other from notice_destinations d where d.id = m.destination_id;
  if p_outcome = 'delivered' then
    update notice_messages q set status = 'delivered', delivered_at = clock_timestamp(), last_status = p_status, last_error = p_error
    where q.id = m.id;
    if v_is_other then return; end if;
    -- It answers again: what waited for that goes now.
    update notice_queues q set failures = 0 where q.destination_id = m.destination_id and q.failures > 0;
    if found then
      update notice_messages q set next_at = clock_timestamp()
      where q.destination_id = m.destination_id and q.status = 'waiting' and q.id <> m.id;
    end if;
    return;
  end if;
  if v_is_other then
    -- When it is due stands already: who changed the address has asked again, and it may be under way.
    update notice_messages q set last_status = p_status, last_error = p_error where q.id = m.id and q.status = 'waiting';
    return;
  end if;
  if p_outcome = 'failed' then
    update notice_queues q set failed_at = clock_timestamp(),
      failures = q.failures + case when q.failures > 0 and q.failed_at >= m.attempted_at then 0 else 1 end
    where q.destination_id = m.destination_id
    returning q.failures into v_failures;
  end if;
  update notice_messages q set last_status = case when q.id = m.id then p_status else q.last_status end,
    last_error = case when q.id = m.id then p_error else q.last_error end,
    next_at = greatest(case when q.id = m.id then clock_timestamp() else q.next_at end, clock_timestamp()
      + least(900000, p_pause_ms * power(2, least(coalesce(v_failures, m.attempts), 20) - 1)) * interval '1 millisecond')
  where q.destination_id = m.destination_id and q.status = 'waiting' and (q.id = m.id or v_failures is not null);
end $$;

----------------------------------------------------------------------------------------------------
-- Gateways
----------------------------------------------------------------------------------------------------

-- The configuration that gateways take from the control plane in place of their file, and what each
-- of them runs.

create table gateway_configs (
  version bigint generated always as identity primary key,
  -- Any one is a whole configuration; the newest counts. Null: gateways go back to their own files.
  config jsonb,
  note text,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Names it by its content, as gateways do; null for versions of before 1.5, and where there is
  -- none.
  config_hash text,
  -- What it changes of the version before, the first 200 places: [{path, before, after}].
  changes jsonb,
  change_count integer,
  -- Gateways get it by rollouts only. Any other version is for all of them at once.
  is_staged boolean not null default false
);

create table gateways (
  -- Made by the process when it starts.
  id text primary key,
  host text not null,
  software_version text,
  -- What it runs: of the control plane, or null for its own file.
  config_version bigint,
  -- Names the running configuration by its content, wherever it came from.
  config_hash text not null,
  -- The newest version that it refused, and why.
  refused_version bigint,
  error text,
  started_at timestamptz not null,
  seen_at timestamptz not null default clock_timestamp(),
  -- Null: of the version before, which belongs to `default` and is in no rollout.
  group_name text,
  is_draining boolean not null default false,
  -- Calls under way, and those of them that wait for money.
  in_flight integer not null default 0,
  held integer not null default 0,
  -- Of the calls that began with the configuration that it runs, since it took that up.
  counts jsonb,
  -- When its silence was told of.
  silent_at timestamptz
);
create index gateways_group on gateways (group_name, seen_at);
create index gateways_seen on gateways (seen_at);

-- The version that a group runs since a rollout ended there. A version for all that was made after
-- `as_of_version` wins.
create table gateway_groups (
  name text primary key,
  version bigint not null,
  -- The newest version of then.
  as_of_version bigint not null,
  changed_at timestamptz not null default clock_timestamp(),
  constraint gateway_groups_version_fkey foreign key (version) references gateway_configs(version)
    on delete cascade
);

create table config_rollouts (
  id text primary key,
  group_name text not null,
  version bigint not null,
  -- What the group ran before, to which moved gateways return; null: their own files.
  from_version bigint,
  -- The newest version of then: a later one for all supersedes this rollout.
  as_of_version bigint not null,
  -- [1, "25%", "100%"]
  stages jsonb not null,
  soak_s integer not null,
  max_wait_s integer not null,
  apply_s integer not null,
  max_error_ratio double precision not null,
  status text not null default 'running'
    check (status in ('running', 'paused', 'completed', 'rolled_back', 'aborted', 'superseded')),
  -- Why it is paused, or how it ended, in words.
  reason_code text,
  reason text,
  -- Counts from 1; 0 before the first.
  stage integer not null default 0,
  -- All are to be moved at once, without soak and gate.
  is_promoted boolean not null default false,
  stage_began_at timestamptz,
  -- When all gateways that were moved had taken it up; null until then.
  applied_at timestamptz,
  -- Per gateway, its counts as the stage began.
  baselines jsonb not null default '{}',
  -- How the gateways that were not moved did in the last window in which there were some.
  control jsonb,
  -- Since when reports arrive without a gap, as far as the steps have seen.
  reports_since timestamptz,
  stepped_at timestamptz,
  -- When its workflow was last asked for because no step had been taken for long.
  adopted_at timestamptz,
  note text,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  constraint config_rollouts_version_fkey foreign key (version) references gateway_configs(version)
    on delete cascade
);
-- One at a time a group.
create unique index config_rollouts_active on config_rollouts (group_name)
where status in ('running', 'paused');
create index config_rollouts_created on config_rollouts (created_at);

-- The gateways that a rollout has moved. They run its version while it is active; when it ends
-- otherwise than completed, they return to their group's, all in that one step.
create table config_rollout_gateways (
  rollout_id text not null,
  gateway_id text not null,
  host text not null,
  stage integer not null,
  moved_at timestamptz not null default clock_timestamp(),
  constraint config_rollout_gateways_pkey primary key (rollout_id, gateway_id),
  constraint config_rollout_gateways_rollout_id_fkey foreign key (rollout_id) references
    config_rollouts(id) on delete cascade
);

-- What gateways are to run may have changed: APIs whose gateways wait for that look.
create function notify_configs() returns trigger language plpgsql as $$
begin
  perform pg_notify('configs', '');
  return null;
end $$;

create trigger config_rollout_gateways_notify after insert or delete on config_rollout_gateways for
  each statement
execute function notify_configs();

create trigger config_rollouts_notify after insert or delete or update of status on config_rollouts
  for each statement
execute function notify_configs();

create trigger gateway_configs_notify after insert or delete on gateway_configs for each statement
execute function notify_configs();

create trigger gateway_groups_notify after insert or delete or update on gateway_groups for each
  statement
execute function notify_configs();

----------------------------------------------------------------------------------------------------
-- The proof
----------------------------------------------------------------------------------------------------

-- The second proof: what audit() says, and that tickets, their holds and the caps on agents tell
-- one story.
create function audit_2()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit()
  union all
  select 'ticket_pays_for_one_call', null, r.cost_ticket_id || ' has ' || count(*) || ' holds that were charged or are open'
  from reservations r where r.cost_ticket_id is not null and r.status in ('open', 'settled', 'late')
  group by r.cost_ticket_id having count(*) > 1
  union all
  select 'ticket_has_its_hold', null, t.id || ' is ' || t.status || ' without a hold of its own'
  from cost_tickets t left join reservations r on r.id = t.reservation_id and r.cost_ticket_id = t.id
  where t.status in ('approved', 'redeemed') and r.id is null
  union all
  select 'constraint_counts_its_use', null, c.id || ': counted ' || coalesce(u.cost_nanos, 0) || ' and '
    || coalesce(u.responses, 0) || '; what happened is ' || n.cost_nanos || ' and ' || n.responses
  from usage_constraints c
  left join constraint_usage u on u.constraint_id = c.id and u.window_start = c.counted_from
  cross join lateral (
    select coalesce(sum(q.cost_nanos), 0) as cost_nanos, coalesce(sum(q.responses), 0) as responses from (
      select x.cost_nanos, x.responses from reservations r cross join lateral counted_use(c, r) as x
      where r.agent_id = c.agent_id and r.created_at >= c.counted_from and r.created_at < window_end(c.interval, c.counted_from)
      union all
      select i.cost_nanos, i.responses from usage_increments i
      where i.agent_id = c.agent_id and i.created_at >= c.counted_from and i.created_at < window_end(c.interval, c.counted_from)
        and constraint_covers(c, i.provider, i.model)
    ) as q) as n
  where c.archived_at is null and (coalesce(u.cost_nanos, 0) <> n.cost_nanos or coalesce(u.responses, 0) <> n.responses)
$$;

-- The third proof: what audit_2() says, and that payments and the ledger tell one story.
create function audit_3()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  with posted as (
    select e.payment_session_id, sum(e.amount_nanos) filter (where e.cause_id is null) as credited_nanos,
      -coalesce(sum(e.amount_nanos) filter (where e.cause_id is not null), 0) as debited_nanos,
      bool_and(t.id is not null and t.amount_nanos = e.amount_nanos and t.payment_session_id = e.payment_session_id) as is_in_ledger,
      bool_and(t.wallet_id = s.wallet_id) as is_same_wallet
    from payment_entries e left join wallet_transactions t on t.id = e.transaction_id
    join payment_sessions s on s.id = e.payment_session_id
    group by e.payment_session_id
  )
  select * from audit_2()
  union all
  select 'payment_is_credited_once', s.wallet_id, s.id || ' ' || s.status || ': credited ' || s.credited_nanos || ', debited '
    || s.debited_nanos || '; entries say ' || coalesce(p.credited_nanos, 0) || ' and ' || coalesce(p.debited_nanos, 0)
  from payment_sessions s left join posted p on p.payment_session_id = s.id
  where s.credited_nanos <> coalesce(p.credited_nanos, 0) or s.debited_nanos <> coalesce(p.debited_nanos, 0)
    or (s.status in ('completed', 'refunded')) <> (p.credited_nanos is not null)
    or s.debited_nanos not between 0 and s.credited_nanos
    or not coalesce(p.is_in_ledger and p.is_same_wallet, true)
  union all
  select 'payment_entry_has_payment', t.wallet_id, t.id || ' of ' || coalesce(t.payment_session_id, 'no session')
  from wallet_transactions t left join payment_entries e on e.transaction_id = t.id
  where t.type in ('payment_credit', 'payment_refund') and e.transaction_id is null
  union all
  select 'credited_payment_was_captured', s.wallet_id, s.id || ' credited ' || s.credited_nanos || ' ' || s.currency
    || ', captured ' || coalesce(s.captured_nanos, 0) || ' ' || coalesce(s.captured_currency, '')
  from payment_sessions s
  where s.credited_nanos <> 0 and s.resolution is null
    and (s.credited_nanos, s.currency) is distinct from (s.captured_nanos, s.captured_currency)
$$;

-- The fourth proof: what audit_3() says, and that each excess which was charged has its entry, and
-- no other has.
create function audit_4()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_3()
  union all
  select 'excess_is_charged_once', coalesce(x.wallet_id, t.wallet_id), coalesce(x.id || ' ' || x.status || ' of '
    || x.excess_nanos, 'no excess') || ': its entry says ' || coalesce(t.amount_nanos::text, 'nothing')
  from (select * from settlement_excess q where q.status = 'charged' or q.transaction_id is not null) as x
  full join (select * from wallet_transactions q where q.phase = 'excess') as t on t.id = x.transaction_id
  where (x.status, x.reservation_id, x.wallet_id, -x.excess_nanos)
    is distinct from ('charged', t.reservation_id, t.wallet_id, t.amount_nanos)
$$;

create function audit_7()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_6()
  union all
  select 'audit_log_is_whole', null, f.chain || ': ' || f.detail from audit_log_faults() f
$$;

-- The proof, of spend by whatever it can be asked for: each group of a day has the cost, calls and
-- tokens of the ledger, under its tags too.
create function audit_8()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_7()
  union all
  select 'spend_is_folded_calls', null, 'edition ' || edition || ', ' || day || ', ' || concat_ws(' ', key_id, user_id, team_id,
    agent_id, family, provider, model) || ': spend ' || coalesce(d.figures::text, 'nothing') || ', ledger '
    || coalesce(l.figures::text, 'nothing')
  from (
    select f.edition, f.day, f.key_id, f.user_id, f.team_id, f.agent_id, f.family, f.provider, f.model,
      array[sum(f.cost_nanos), sum(f.requests), sum(f.prompt_tokens), sum(f.completion_tokens), sum(f.cached_tokens)] as figures
    from folded_calls() f group by 1, 2, 3, 4, 5, 6, 7, 8, 9
  ) as l
  full join (
    select q.edition, q.day, q.key_id, q.user_id, q.team_id, q.agent_id, q.family, q.provider, q.model,
      array[q.cost_nanos, q.requests, q.prompt_tokens, q.completion_tokens, q.cached_tokens] as figures
    from spend_days q join spend_editions e on e.edition = q.edition and e.state <> 'dropped'
  ) as d using (edition, day, key_id, user_id, team_id, agent_id, family, provider, model)
  where l.figures is distinct from d.figures
  union all
  select 'spend_tags_are_folded_calls', null, 'edition ' || edition || ', ' || day || ', tag ' || tag || ': spend '
    || coalesce(d.figures::text, 'nothing') || ', ledger ' || coalesce(l.figures::text, 'nothing')
  from (
    select f.edition, f.day, u.tag, array[sum(f.cost_nanos), sum(f.requests), sum(f.prompt_tokens), sum(f.completion_tokens),
      sum(f.cached_tokens)] as figures
    from folded_calls() f cross join lateral (
      select distinct coalesce(k.tag, 'other') as tag from unnest(f.tags) as n (tag)
      left join spend_tags k on k.edition = f.edition and k.day = f.day and k.tag = n.tag) as u
    where f.tags is not null group by 1, 2, 3
  ) as l
  full join (
    select q.edition, q.day, q.tag, array[sum(q.cost_nanos), sum(q.requests), sum(q.prompt_tokens), sum(q.completion_tokens),
      sum(q.cached_tokens)] as figures
    from spend_tag_days q join spend_editions e on e.edition = q.edition and e.state <> 'dropped' group by 1, 2, 3
  ) as d using (edition, day, tag)
  where l.figures is distinct from d.figures
$$;

-- The proof, of spend too: what is folded up to the cursors is what the ledger says, by day,
-- provider and model; and hours add up to their days.
create function audit_6()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_5()
  union all
  select 'spend_is_folded_ledger', null, 'edition ' || coalesce(l.edition, d.edition) || ', ' || coalesce(l.day, d.day) || ', '
    || coalesce(l.provider, d.provider) || ' ' || coalesce(l.model, d.model) || ': spend ' || coalesce(d.cost_nanos, 0) || ', ledger '
    || coalesce(l.cost_nanos, 0)
  from (
    select e.edition, local_day(t.created_at, e.time_zone) as day, coalesce(t.provider, '') as provider,
      coalesce(t.model, '') as model, sum(coalesce(t.actual_cost_nanos, 0)) as cost_nanos
    from spend_editions e join spend_cursors c on c.edition = e.edition
    join wallet_transactions t on t.wallet_id = c.wallet_id and t.seq <= c.folded_seq and t.type = 'settlement'
    where e.state <> 'dropped' group by 1, 2, 3, 4
  ) as l
  full join (
    select q.edition, q.day, q.provider, q.model, sum(q.cost_nanos) as cost_nanos from spend_days q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped' group by 1, 2, 3, 4
  ) as d on d.edition = l.edition and d.day = l.day and d.provider = l.provider and d.model = l.model
  where coalesce(l.cost_nanos, 0) <> coalesce(d.cost_nanos, 0)
  union all
  select 'spend_hours_are_days', null, 'edition ' || d.edition || ', ' || d.day || ': hours ' || coalesce(h.cost_nanos, 0) || ', day '
    || d.cost_nanos
  from (
    select q.edition, q.day, sum(q.cost_nanos) as cost_nanos from spend_days q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped'
    where q.day > (now() - interval '33 days')::date group by 1, 2
  ) as d
  left join (
    select q.edition, local_day(q.hour, e.time_zone) as day, sum(q.cost_nanos) as cost_nanos from spend_hours q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped' group by 1, 2
  ) as h on h.edition = d.edition and h.day = d.day
  where d.cost_nanos <> coalesce(h.cost_nanos, 0)
  union all
  select 'spend_within_ledger', c.wallet_id, 'folded to ' || c.folded_seq || ', entries to ' || coalesce(w.seq, 0)
  from spend_cursors c left join wallets w on w.id = c.wallet_id where c.folded_seq > coalesce(w.seq, 0)
$$;

-- The proof: every statement about money that must always hold, checked over all rows of one
-- snapshot.
create function audit()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  with chain as (
    select t.wallet_id, t.seq, t.amount_nanos, t.balance_after_nanos,
      lag(t.balance_after_nanos, 1, 0::bigint) over w as previous_nanos, lag(t.seq, 1, 0::bigint) over w as previous_seq
    from wallet_transactions t window w as (partition by t.wallet_id order by t.seq)
  ), sums as (
    select t.wallet_id, sum(t.amount_nanos) as amount_nanos, max(t.seq) as seq from wallet_transactions t group by t.wallet_id
  ), holds as (
    select r.wallet_id, sum(r.held_nanos) as held_nanos from reservations r where r.status = 'open' group by r.wallet_id
  ), phases as (
    select t.reservation_id, sum(t.amount_nanos) as amount_nanos,
      count(*) filter (where t.phase = 'hold' and t.type = 'reservation') as held,
      count(*) filter (where t.phase = 'close' and t.type = 'settlement') as closed,
      count(*) filter (where t.phase = 'late' and t.type = 'settlement') as late,
      bool_and(t.wallet_id = r.wallet_id) as same_wallet
    from wallet_transactions t left join reservations r on r.id = t.reservation_id
    where t.reservation_id is not null group by t.reservation_id
  ), keys as (
    select r.key_id, sum(coalesce(r.actual_cost_nanos, 0)) as spent_nanos,
      coalesce(sum(r.held_nanos) filter (where r.status = 'open'), 0) as held_nanos
    from reservations r where r.key_id is not null group by r.key_id
  )
  select 'balance_is_sum_of_entries', w.id, 'balance ' || w.balance_nanos || ', entries ' || coalesce(s.amount_nanos, 0)
  from wallets w left join sums s on s.wallet_id = w.id where w.balance_nanos <> coalesce(s.amount_nanos, 0)
  union all
  select 'entry_continues_balance', c.wallet_id, 'seq ' || c.seq || ': ' || c.previous_nanos || ' + ' || c.amount_nanos
    || ' is not ' || c.balance_after_nanos
  from chain c where c.previous_nanos::numeric + c.amount_nanos <> c.balance_after_nanos
  union all
  select 'seq_without_gaps', c.wallet_id, 'seq ' || c.seq || ' follows ' || c.previous_seq
  from chain c where c.seq <> c.previous_seq + 1
  union all
  select 'seq_is_last_entry', w.id, 'wallet at ' || w.seq || ', entries to ' || coalesce(s.seq, 0)
  from wallets w left join sums s on s.wallet_id = w.id where w.seq <> coalesce(s.seq, 0)
  union all
  select 'entry_has_wallet', s.wallet_id, 'entries of a wallet that does not exist'
  from sums s left join wallets w on w.id = s.wallet_id where w.id is null
  union all
  select 'reserved_is_sum_of_holds', w.id, 'reserved ' || w.reserved_nanos || ', open holds ' || coalesce(h.held_nanos, 0)
  from wallets w left join holds h on h.wallet_id = w.id where w.reserved_nanos <> coalesce(h.held_nanos, 0)
  union all
  select 'reservation_has_its_entries', r.wallet_id, r.id || ' ' || r.status || ': entries sum to '
    || coalesce(p.amount_nanos::text, 'nothing')
  from reservations r left join phases p on p.reservation_id = r.id
  where r.status <> 'canceled' and not coalesce(p.same_wallet and p.held = 1 and case r.status
    when 'open' then p.closed = 0 and p.late = 0 and p.amount_nanos = -r.held_nanos
    when 'late' then p.closed = 1 and p.late = 1 and p.amount_nanos = -r.actual_cost_nanos
    else p.closed = 1 and p.late = 0 and p.amount_nanos = -r.actual_cost_nanos end, false)
  union all
  select 'entry_has_reservation', null, p.reservation_id || ' has entries but no reservation'
  from phases p left join reservations r on r.id = p.reservation_id where r.id is null or r.status = 'canceled'
  union all
  select 'transfer_sums_to_zero', min(t.wallet_id), t.transfer_id || ' sums to ' || sum(t.amount_nanos)
  from wallet_transactions t where t.transfer_id is not null group by t.transfer_id
  having sum(t.amount_nanos) <> 0 or count(*) <> 2
  union all
  select 'key_counts_its_spending', null, k.id || ': spent ' || k.spent_nanos || ', held ' || k.held_nanos || '; reservations say '
    || add_spent(0, coalesce(s.spent_nanos, 0)) || ' and ' || coalesce(s.held_nanos, 0)
  from tokens k left join keys s on s.key_id = k.id
  where k.spent_nanos <> add_spent(0, coalesce(s.spent_nanos, 0)) or k.held_nanos <> coalesce(s.held_nanos, 0)
$$;

-- The fifth proof: what audit_4() says, and that each budget has counted what was held and spent in
-- its windows, and was raised by what approvals say.
create function audit_5()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_4()
  union all
  select 'budget_counts', null, w.budget_id || ' from ' || iso_time(w.starts_at) || ': counted ' || w.held_nanos || ' held, '
    || w.spent_nanos || ' spent; is ' || n.held || ', ' || n.spent
  from (
    select b.id as budget_id, b.org_id, b.owner_id, b.starts_at, null::timestamptz as ends_at, b.held_nanos, b.spent_nanos
    from budgets b where b.archived_at is null
    union all
    select b.id, b.org_id, b.owner_id, p.starts_at, p.ends_at, p.held_nanos, p.spent_nanos
    from budget_windows p join budgets b on b.id = p.budget_id where b.archived_at is null
  ) as w
  cross join lateral (
    select coalesce(sum(r.held_nanos) filter (where r.status = 'open'), 0) as held, add_spent(0, coalesce(sum(r.actual_cost_nanos), 0)) as spent
    from reservations r
    where r.id >= 'res_' || lpad(to_hex(floor(extract(epoch from w.starts_at - interval '1 minute') * 1000)::bigint), 12, '0')
      and (w.ends_at is null
        or r.id < 'res_' || lpad(to_hex(floor(extract(epoch from w.ends_at + interval '1 minute') * 1000)::bigint), 12, '0'))
      and r.org_id = w.org_id and r.created_at >= w.starts_at and coalesce(r.created_at < w.ends_at, true)
      and w.owner_id in (r.org_id, r.key_id, r.user_id, r.team_id)
  ) as n
  where (w.held_nanos, w.spent_nanos) is distinct from (n.held, n.spent)
  union all
  select 'budget_raises', null, b.id || ': raised by ' || b.raised_nanos || ', approvals say ' || n.raised
  from budgets b
  cross join lateral (select coalesce(sum(x.amount_nanos), 0) as raised from budget_raises x
    where x.budget_id = b.id and x.created_at >= b.starts_at and x.budget_window = b.budget_window) as n
  where b.raised_nanos <> n.raised
$$;

-- The proof, of spend by hour too: each group of an hour has the cost, calls and tokens of the
-- ledger. Hours are kept for 36 days; the last of these is the margin of a fold that came later
-- than its call.
create function audit_9()
returns table(check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_8()
  union all
  select 'spend_hours_are_folded_calls', null, 'edition ' || edition || ', ' || iso_time(hour) || ', ' || concat_ws(' ', key_id, user_id, team_id,
    agent_id, family, provider, model) || ': spend ' || coalesce(h.figures::text, 'nothing') || ', ledger '
    || coalesce(l.figures::text, 'nothing')
  from (
    select e.edition, s.hour, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model,
      array[sum(s.cost_nanos), sum(s.requests), sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.cached_tokens)] as figures
    from spend_editions e join spend_cursors c on c.edition = e.edition
    join wallet_transactions t on t.wallet_id = c.wallet_id and t.seq <= c.folded_seq and t.type = 'settlement'
      and t.created_at > now() - interval '35 days'
    left join reservations r on r.id = t.reservation_id
    cross join lateral spend_of(t, r, e.time_zone) as s
    where e.state <> 'dropped' and s.hour > now() - interval '35 days' group by 1, 2, 3, 4, 5, 6, 7, 8, 9
  ) as l
  full join (
    select q.edition, q.hour, q.key_id, q.user_id, q.team_id, q.agent_id, q.family, q.provider, q.model,
      array[q.cost_nanos, q.requests, q.prompt_tokens, q.completion_tokens, q.cached_tokens] as figures
    from spend_hours q join spend_editions e on e.edition = q.edition and e.state <> 'dropped'
    where q.hour > now() - interval '35 days'
  ) as h using (edition, hour, key_id, user_id, team_id, agent_id, family, provider, model)
  where l.figures is distinct from h.figures
$$;

----------------------------------------------------------------------------------------------------
-- Exports
----------------------------------------------------------------------------------------------------

-- Object stores that exports are written to: a bucket of an organization, or of the platform, with
-- credentials of its own.

create table export_destinations (
  id text primary key,
  -- Null: the platform's.
  org_id text references organizations,
  -- An origin, which the operator has listed. It is never changed: another one is another
  -- destination, with credentials of its own.
  endpoint text not null,
  region text not null,
  bucket text not null,
  -- Ciphertext by name, bound to this row (domain/secrets.ts).
  credentials jsonb not null,
  created_by text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- No new export goes there; those that did are still read and deleted.
  archived_at timestamptz
);
create index export_destinations_org on export_destinations (org_id, id desc);

create table export_schedules (
  id text primary key default new_id('sched'),
  -- Null: of all organizations.
  org_id text references organizations,
  kinds text[] not null check (cardinality(kinds) > 0),
  format text not null check (format in ('jsonl', 'csv', 'parquet')),
  every text not null check (every in ('day', 'month')),
  -- A window is exported so long after its end.
  lag_minutes integer not null check (lag_minutes >= 15 and lag_minutes <= 10080),
  destination_id text references export_destinations,
  -- The window that is exported next, or now. It moves on once its export is completed: one that
  -- failed is repeated.
  window_from timestamptz not null,
  -- Who made it, and with which key: it falls with their rights.
  created_by text not null,
  created_with text,
  created_at timestamptz not null default clock_timestamp(),
  archived_at timestamptz,
  -- Why it ended by itself.
  ended_reason text,
  -- An IANA name: its windows begin and end with days of this zone.
  time_zone text not null default 'UTC',
  -- Since when it makes no exports, as there is no room for one, and why.
  waiting_since timestamptz,
  waiting_reason text
);
create index export_schedules_org on export_schedules (org_id, id desc);

create table exports (
  id text primary key default new_id('exp'),
  -- Null: of all organizations.
  org_id text references organizations,
  kinds text[] not null check (cardinality(kinds) > 0),
  format text not null check (format in ('jsonl', 'csv', 'parquet')),
  -- The period, half open.
  from_time timestamptz not null,
  to_time timestamptz not null,
  target text not null default 'folder' check (target in ('folder', 's3')),
  -- The bucket of target s3.
  destination_id text references export_destinations,
  schedule_id text references export_schedules,
  status text not null default 'queued'
    check (status in ('queued', 'running', 'completed', 'failed', 'canceled', 'expired')),
  -- Of events and the audit log it holds what could be seen then.
  snapshot pg_snapshot not null,
  -- When its bounds were fixed.
  created_at timestamptz not null default clock_timestamp(),
  -- The person, or the key that stands for nobody; and the key, if there was one.
  created_by text not null,
  created_with text,
  started_at timestamptz,
  -- The last sign of life of its worker.
  progressed_at timestamptz,
  ended_at timestamptz,
  -- When its files are deleted; null until it is completed.
  expires_at timestamptz,
  -- When its files, whole or in part, were deleted.
  cleared_at timestamptz,
  -- When its files were last tried to be deleted: one store that refuses keeps no others waiting.
  clear_tried_at timestamptz,
  error_code text,
  error_message text,
  -- Of a schedule: what its export before could see. Events of earlier times that it could not see
  -- belong to this one.
  events_after pg_snapshot,
  constraint exports_check check (to_time > from_time and (target = 's3') = (destination_id is not
    null))
);
create index exports_org on exports (org_id, id desc);
-- One at a time.
create unique index exports_running on exports (coalesce(org_id, '')) where status = 'running';
create index exports_schedule on exports (schedule_id, id desc) where schedule_id is not null;
create index exports_to_clear on exports (id)
where cleared_at is null and (status in ('failed', 'canceled', 'expired'));
create index exports_to_expire on exports (expires_at) where status = 'completed';
create index exports_unfinished on exports (status, id) where status in ('queued', 'running');

-- The files of an export, also those that are yet to be written. Number 0 is the manifest.
create table export_files (
  export_id text not null references exports,
  n integer not null,
  kind text not null,
  -- Null: of the whole period.
  day date,
  -- The rows so far; after `written_at` all of them. A part without rows has no file.
  rows bigint not null default 0,
  bytes bigint,
  sha256 text,
  first_id text,
  last_id text,
  -- [{currency, type, rows, amount_nanos}]
  sums jsonb,
  written_at timestamptz,
  constraint export_files_pkey primary key (export_id, n)
);

-- The entries of each wallet that belong to an export: those after `from_seq`, up to `to_seq`.
create table export_wallets (
  export_id text not null references exports,
  wallet_id text not null,
  org_id text not null,
  from_seq bigint not null,
  to_seq bigint not null,
  constraint export_wallets_pkey primary key (export_id, wallet_id)
);

-- Rows that go on changing, as they stood when the export was made; gone once it has ended.
create table export_rows (
  export_id text not null,
  kind text not null,
  day date not null,
  id text not null,
  "row" jsonb not null,
  constraint export_rows_pkey primary key (export_id, kind, day, id)
);

-- What identifies the folder that the API and the workers share: the text of its marker file.
create table export_folder (
  is_one boolean primary key default true check (is_one),
  marker text not null
);

-- What people, teams, agents, keys and organizations were called as an export was made: its files
-- name them so, whenever they are written.
create table export_names (
  export_id text not null,
  id text not null,
  name text not null,
  email text,
  constraint export_names_pkey primary key (export_id, id)
);

-- Exports of one organization are moved one after the other.
create function lock_exports(p_org_id text) returns void language sql as $$
  select pg_advisory_xact_lock(hashtextextended('exports of ' || coalesce(p_org_id, ''), 0))
$$;

-- Starts the oldest export that waits, unless one runs; its id. The caller holds lock_exports.
create function start_next_export(p_org_id text) returns text language plpgsql as $$
declare
  v_id text;
begin
  update exports x set status = 'running', started_at = clock_timestamp(), progressed_at = clock_timestamp()
  where x.id = (select q.id from exports q where q.org_id is not distinct from p_org_id and q.status = 'queued' order by q.id limit 1)
    and not exists (select 1 from exports r where r.org_id is not distinct from p_org_id and r.status = 'running')
  returning x.id into v_id;
  if v_id is not null then
    perform send_to_workflow(coalesce(p_org_id, 'platform'), 'exportJob', v_id, null, jsonb_build_object('export_id', v_id));
  end if;
  return v_id;
end $$;

-- Where the window of a schedule ends: the next day or month of its zone.
create function export_window_end(p_every text, p_from timestamptz, p_time_zone text)
returns timestamptz language sql stable as $$
  select (date_trunc(p_every, p_from at time zone p_time_zone) + ('1 ' || p_every)::interval) at time zone p_time_zone
$$;

-- A worker of an older version adds days and months of UTC, whatever the schedule's zone. Its
-- export is refused, and this version's next run makes the right one.
create function require_window() returns trigger language plpgsql as $$
declare
  s export_schedules;
begin
  select * into s from export_schedules q where q.id = new.schedule_id;
  if new.from_time <> s.window_from or new.to_time <> export_window_end(s.every, s.window_from, s.time_zone) then
    raise exception 'The window of % in % is not % to %: update the workers that run schedules.', s.id, s.time_zone, new.from_time,
      new.to_time using errcode = 'check_violation';
  end if;
  return new;
end $$;

create trigger exports_window before insert on exports
for each row when (new.schedule_id is not null)
execute function require_window();

-- The entries of a wallet that come ahead of the first one that was written at a moment or later,
-- between two bounds: the number of the last of them. It does not depend on what is written later,
-- so that the end of one period is the beginning of the next. A clock that was set back gives
-- entries earlier times than those before them; up to ten minutes are allowed for.
create function seq_before(p_wallet_id text, p_time timestamptz, p_low bigint, p_high bigint)
returns bigint language plpgsql stable as $$
declare
  v_low bigint := p_low;
  v_high bigint := p_high;
  v_middle bigint;
  v_first bigint;
begin
  -- Up to an entry of ten minutes before, none can be of the moment or later.
  while v_low < v_high loop
    v_middle := v_low + (v_high - v_low + 1) / 2;
    if (select t.created_at < p_time - interval '10 minutes' from wallet_transactions t
        where t.wallet_id = p_wallet_id and t.seq = v_middle) then
      v_low := v_middle;
    else
      v_high := v_middle - 1;
    end if;
  end loop;
  select t.seq into v_first from wallet_transactions t
  where t.wallet_id = p_wallet_id and t.seq > v_low and t.seq <= p_high and t.created_at >= p_time order by t.seq limit 1;
  return coalesce(v_first - 1, p_high);
end $$;

----------------------------------------------------------------------------------------------------
-- Who changed what
----------------------------------------------------------------------------------------------------

-- Every hand is recorded: each change of keys, roles, members, teams, agents, prices, rates,
-- settings and configuration leaves an audit event in its own transaction, by triggers, so that no
-- way to a change leaves one out. Kept for ever.

create table audit_events (
  id text primary key default new_id('aud'),
  created_at timestamptz not null default clock_timestamp(),
  -- Null: the change concerns the whole platform.
  org_id text,
  -- The person, or the key that stands for nobody; null if the installation acted by itself.
  actor text,
  -- The access key that was used; null for a person with a JWT.
  key_id text,
  request_id text,
  action text not null,
  object_id text not null,
  -- What was changed; of a secret only that it was. Null: there was nothing before, or is nothing
  -- after.
  before jsonb,
  after jsonb,
  -- By it an export leaves out what is committed after its making. Events of before belong to this
  -- migration's transaction.
  transaction_id xid8 not null default pg_current_xact_id(),
  -- A person, a key that stands for nobody, the platform's key, or a program.
  actor_type text not null check (actor_type in ('user', 'key', 'platform', 'system')),
  -- The name of the program, terminal or identity provider that acted; null for people and keys.
  system text,
  -- The session that the person had signed in with: the key that was used.
  session_id text
);
create index audit_events_action on audit_events (action, coalesce(org_id, 'platform'), id collate
  ucs_basic desc);
create index audit_events_actor on audit_events (coalesce(actor, system), coalesce(org_id,
  'platform'), id collate ucs_basic desc);
create index audit_events_actor_type on audit_events (actor_type, coalesce(org_id, 'platform'), id
  collate ucs_basic desc);
-- The log is read by its chains; a platform admin also finds an actor, an object or an action in
-- all of them. Their order is not that of the primary key: read by that one, a filter would look at
-- all rows between those that it finds.
create index audit_events_chain on audit_events (coalesce(org_id, 'platform'), id collate ucs_basic
  desc);
create index audit_events_noun on audit_events (split_part(action, '.', 1), coalesce(org_id,
  'platform'), id collate ucs_basic desc);
create index audit_events_object on audit_events (object_id, coalesce(org_id, 'platform'), id
  collate ucs_basic desc);
create index audit_events_org on audit_events (org_id, id desc);
create index audit_events_session on audit_events (session_id, id collate ucs_basic desc)
where session_id is not null;

-- Where an audit event stands in the chain of its organization, or of the platform: after which,
-- and what both come to.
create table audit_links (
  -- The id of the organization, or `platform`.
  chain text not null,
  -- Without gaps.
  seq bigint not null,
  event_id text not null,
  -- Empty for the first.
  prev_hash text not null,
  -- SHA-256 of `audit_text`.
  hash text not null,
  constraint audit_links_pkey primary key (chain, seq),
  constraint audit_links_event unique (event_id)
);

-- Where a chain ends: the newest rows cannot be taken away unnoticed.
create table audit_heads (
  chain text primary key,
  seq bigint not null,
  hash text not null
) with (fillfactor = 50);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'Rows of % are kept as they were written.', tg_table_name using errcode = 'restrict_violation';
end $$;

create trigger audit_events_kept before delete or update on audit_events for each statement
execute function refuse_change();

create trigger audit_events_whole before truncate on audit_events for each statement
execute function refuse_change();

create trigger audit_heads_whole before delete or truncate on audit_heads for each statement
execute function refuse_change();

create trigger audit_links_kept before delete or update on audit_links for each statement
execute function refuse_change();

create trigger audit_links_whole before truncate on audit_links for each statement
execute function refuse_change();

-- Who acts, by the rows of then: ids alone do not say it.
create function actor_type(p_actor text, p_key_id text) returns text language sql stable as $$
  select case
    when p_actor is null then 'system'
    when exists (select 1 from tokens t where t.id = coalesce(p_key_id, p_actor) and t.org_id is null) then 'platform'
    when exists (select 1 from users u where u.id = p_actor) then 'user'
    when p_actor like 'key\_%' then 'key'
    else 'system' end
$$;

-- Writes an audit event in the name of who acts. A person has a session if the key that they used
-- is one.
create function write_audit_event(p_org_id text, p_action text, p_object_id text, p_before jsonb,
  p_after jsonb)
returns void language sql as $$
  insert into audit_events (org_id, actor, actor_type, system, key_id, session_id, request_id, action, object_id, before, after)
  select p_org_id, a.actor, a.actor_type,
    case a.actor_type when 'system' then coalesce(a.actor, nullif(current_setting('application_name'), ''), 'svc') end,
    a.key_id, (select t.id from tokens t where t.id = a.key_id and t.purpose = 'session'),
    nullif(current_setting('svc.request_id', true), ''), p_action, p_object_id, p_before, p_after
  from (
    select acting() as actor, k.key_id, actor_type(acting(), k.key_id) as actor_type
    from (select nullif(current_setting('svc.key_id', true), '') as key_id) as k
  ) as a
$$;

-- What is hashed of an event: its chain and place, the hash before it, and all that it says, as the
-- text of a JSON list.
create function audit_text(e audit_events, p_chain text, p_seq bigint, p_prev_hash text)
returns text language sql stable as $$
  select jsonb_build_array(p_chain, p_seq, p_prev_hash, e.id,
    to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), e.org_id, e.actor_type, e.actor, e.system, e.key_id,
    e.session_id, e.request_id, e.action, e.object_id, e.before, e.after)::text
$$;

create function audit_hash(e audit_events, p_chain text, p_seq bigint, p_prev_hash text)
returns text language sql stable as $$
  select encode(sha256(convert_to(audit_text(e, p_chain, p_seq, p_prev_hash), 'UTF8')), 'hex')
$$;

-- Takes the rows of all chains of this transaction, in their order: two transactions that write
-- into the same chains in other orders wait for each other, and neither for ever. Its events have
-- ids of its time, within a minute; one that is missed is locked later.
create function lock_chains()
returns void language plpgsql
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_transaction constant xid8 := pg_current_xact_id();
  v_chains text[];
begin
  if current_setting('svc.chains_of', true) = v_transaction::text then
    return;
  end if;
  v_chains := array(select distinct coalesce(e.org_id, 'platform') from audit_events e
    where e.id > 'aud_' || lpad(to_hex(((extract(epoch from transaction_timestamp()) - 60) * 1000)::bigint), 12, '0')
      and e.transaction_id = v_transaction);
  insert into audit_heads (chain, seq, hash) select c.chain, 0, ''
  from (select q.chain from unnest(v_chains) as q (chain) order by q.chain) as c
  where not exists (select 1 from audit_heads h where h.chain = c.chain) on conflict do nothing;
  perform 1 from audit_heads h where h.chain = any(v_chains) order by h.chain for no key update;
  perform set_config('svc.chains_of', v_transaction::text, true);
end $$;

-- Links an event into its chain as its transaction commits: the rows of chains are the last locks
-- that a change takes, all at once and in their order, so that it can wait for nothing that holds
-- it up in turn. A change of money or people has the organization's lock by then.
create function link_audit_event()
returns trigger language plpgsql
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_chain constant text := coalesce(new.org_id, 'platform');
  l audit_links;
begin
  perform lock_chains();
  insert into audit_heads (chain, seq, hash) select v_chain, 0, ''
  where not exists (select 1 from audit_heads q where q.chain = v_chain) on conflict do nothing;
  perform 1 from audit_heads q where q.chain = v_chain for no key update;
  select * into l from audit_links q where q.chain = v_chain order by q.seq desc limit 1;
  l.seq := coalesce(l.seq, 0) + 1;
  l.prev_hash := coalesce(l.hash, '');
  insert into audit_links (chain, seq, event_id, prev_hash, hash)
  values (v_chain, l.seq, new.id, l.prev_hash, audit_hash(new, v_chain, l.seq, l.prev_hash));
  return null;
end $$;

create constraint trigger audit_events_link after insert on audit_events deferrable initially
  deferred
for each row
execute function link_audit_event();

-- Moves the end of a chain, once for all links of a transaction: each of them but the last has one
-- behind it by then.
create function move_audit_head()
returns trigger language plpgsql
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
begin
  update audit_heads q set seq = new.seq, hash = new.hash
  where q.chain = new.chain and not exists (select 1 from audit_links l where l.chain = new.chain and l.seq = new.seq + 1);
  return null;
end $$;

create constraint trigger audit_links_head after insert on audit_links deferrable initially deferred
for each row
execute function move_audit_head();

-- The sealed members of a row that a change has touched, by name: `{"credentials": {"changed":
-- true}}`. A webhook's address is one.
create function changed_secrets(p_old jsonb, p_new jsonb)
returns jsonb language sql immutable as $$
  select coalesce(jsonb_object_agg(m.name, jsonb_build_object('changed', true)), '{}')
  from (
    select name, case when p_old -> name not in ('null', '{}') then p_old -> name end as was,
      case when p_new -> name not in ('null', '{}') then p_new -> name end as is_now
    from unnest('{credentials,webhook_secret,previous_webhook_secret,url}'::text[]) as name
  ) as m
  where m.was is distinct from m.is_now
$$;

-- What a new version takes the place of, as an audit event shows it; null for the first.
create function replaced_version(p_table text, p_row jsonb)
returns jsonb language plpgsql stable as $$
begin
  if p_table = 'model_prices' then
    return (select shown_row(to_jsonb(p)) from model_prices p
      where p.id = p_row ->> 'id' and p.version_id <> p_row ->> 'version_id' order by p.version_id desc limit 1);
  elsif p_table = 'gateway_configs' then
    return (select jsonb_build_object('version', c.version, 'config_hash', c.config_hash, 'is_staged', c.is_staged)
      from gateway_configs c where c.version < (p_row ->> 'version')::bigint order by c.version desc limit 1);
  end if;
  return null;
end $$;

-- A key's new value: of both only the beginning is told, which people know them by.
create function record_rotation() returns trigger language plpgsql as $$
begin
  perform write_audit_event(t.org_id, 'key.rotated', t.id, jsonb_build_object('prefix', (select s.prefix from token_secrets s
      where s.token_id = new.token_id and s.id <> new.id order by s.id desc limit 1)),
    jsonb_build_object('name', t.name, 'prefix', new.prefix, 'value', jsonb_build_object('changed', true)))
  from tokens t
  where t.id = new.token_id and exists (select 1 from token_secrets s where s.token_id = new.token_id and s.id <> new.id);
  return null;
end $$;

create trigger token_secrets_record after insert on token_secrets
for each row
execute function record_rotation();

-- Writes the audit event of one step of a row that lives on. Arguments: the action, the column that
-- names the object, and the columns that are shown.
create function record_step() returns trigger language plpgsql as $$
declare
  v_names constant text[] := tg_argv[2:];
  v_new constant jsonb := to_jsonb(new);
  v_before jsonb;
begin
  if tg_op = 'UPDATE' then
    select jsonb_object_agg(m.key, m.value) into v_before from jsonb_each(shown_row(to_jsonb(old))) as m where m.key = any(v_names);
  end if;
  perform write_audit_event(v_new ->> 'org_id', tg_argv[0], v_new ->> tg_argv[1], v_before,
    (select jsonb_object_agg(m.key, m.value) from jsonb_each(shown_row(v_new)) as m where m.key = any(v_names)));
  return null;
end $$;

create trigger budget_raises_record after insert on budget_raises
for each row when (new.decided_by <> 'rule')
execute function record_step('budget.raised', 'budget_id', 'window_starts_at', 'budget_window',
  'amount_nanos', 'cost_ticket_id');

create trigger exports_canceled after update of status on exports
for each row when (old.status <> new.status and new.status = 'canceled')
execute function record_step('export.canceled', 'id', 'status');

create trigger exports_created after insert on exports
for each row when (new.schedule_id is null)
execute function record_step('export.created', 'id', 'status', 'kinds', 'format', 'from_time',
  'to_time', 'target', 'destination_id');

-- One that is completed is deleted by hand: both change at once.
create trigger exports_deleted after update of status on exports
for each row when (old.status = 'completed' and new.status = 'expired' and old.expires_at is
  distinct from new.expires_at)
execute function record_step('export.deleted', 'id', 'status', 'expires_at');

create trigger payment_refunds_changed after update of allow_negative on payment_refunds
for each row when (old.allow_negative is distinct from new.allow_negative)
execute function record_step('payment_refund.changed', 'id', 'status', 'allow_negative');

create trigger payment_refunds_ended after update of ended_by on payment_refunds
for each row when (old.ended_by is null and new.ended_by is not null)
execute function record_step('payment_refund.ended', 'id', 'status', 'ended_by', 'end_note');

create trigger payment_refunds_failed after update of status on payment_refunds
for each row when (old.status <> 'failed' and new.status = 'failed')
execute function record_step('payment_refund.failed', 'id', 'status', 'error_code',
  'error_message');

create trigger payment_refunds_record after insert on payment_refunds
for each row
execute function record_step('payment_refund.created', 'id', 'payment_session_id', 'status',
  'amount_nanos', 'currency', 'reason', 'allow_negative');

create trigger payment_refunds_succeeded after update of status on payment_refunds
for each row when (old.status = 'pending' and new.status = 'succeeded')
execute function record_step('payment_refund.succeeded', 'id', 'status', 'provider_refund_id');

create trigger payment_sessions_canceled after update of status on payment_sessions
for each row when (old.status <> new.status and new.status = 'canceled')
execute function record_step('payment.canceled', 'id', 'status');

create trigger payment_sessions_created after insert on payment_sessions
for each row
execute function record_step('payment.created', 'id', 'status', 'provider', 'surface',
  'amount_nanos', 'currency', 'wallet_id', 'user_id');

create trigger payment_sessions_resolved after update of resolution on payment_sessions
for each row when (old.resolution is distinct from new.resolution)
execute function record_step('payment.resolved', 'id', 'status', 'error_code', 'resolution',
  'resolution_note');

create trigger settlement_excess_charged after update of status on settlement_excess
for each row when (old.status = 'open' and new.status = 'charged')
execute function record_step('settlement_excess.charged', 'id', 'status', 'excess_nanos',
  'currency', 'wallet_id', 'note', 'transaction_id');

create trigger settlement_excess_dropped after update of status on settlement_excess
for each row when (old.status = 'open' and new.status = 'dropped')
execute function record_step('settlement_excess.dropped', 'id', 'status', 'excess_nanos',
  'currency', 'wallet_id', 'note');

-- Writes the audit event of money that came into a wallet by hand or by a payment, or that a refund
-- took.
create function record_entry() returns trigger language plpgsql as $$
declare
  w wallets;
begin
  select * into w from wallets q where q.id = new.wallet_id;
  perform write_audit_event(new.org_id,
    case new.type when 'credit' then 'wallet.credited' when 'payment_credit' then 'payment.credited'
      else case when new.amount_nanos < 0 then 'payment.debited' else 'payment.returned' end end,
    case new.type when 'credit' then w.id else coalesce(new.payment_session_id, w.id) end,
    jsonb_build_object('balance_nanos', (new.balance_after_nanos - new.amount_nanos)::text),
    jsonb_strip_nulls(jsonb_build_object('balance_nanos', new.balance_after_nanos::text, 'amount_nanos', new.amount_nanos::text,
      'currency', w.currency, 'wallet_id', w.id, 'owner_type', w.owner_type, 'owner_id', coalesce(w.owner_team_id, w.owner_user_id),
      'transaction_id', new.id, 'description', new.description)));
  return null;
end $$;

create trigger wallet_transactions_record after insert on wallet_transactions
for each row when (new.type in ('payment_credit', 'payment_refund', 'credit'))
execute function record_entry();

-- The first row of each chain that is not as it was written, or that is missing.
create function audit_log_faults()
returns table(chain text, seq bigint, detail text) language sql stable as $$
  with links as (
    select l.chain, l.seq, l.event_id, l.prev_hash, l.hash, lag(l.seq, 1, 0::bigint) over w as previous_seq,
      lag(l.hash, 1, '') over w as previous_hash
    from audit_links l window w as (partition by l.chain order by l.seq)
  ), faults as (
    select l.chain, l.seq, case
        when l.seq <> l.previous_seq + 1 then 'row ' || l.previous_seq + 1 || ' is missing'
        when e.id is null then 'row ' || l.seq || ': its event ' || l.event_id || ' is missing'
        when l.prev_hash <> l.previous_hash then 'row ' || l.seq || ' does not follow the row before it'
        when l.hash <> audit_hash(e, l.chain, l.seq, l.prev_hash) or l.chain <> coalesce(e.org_id, 'platform')
          then 'row ' || l.seq || ': ' || l.event_id || ' is not as it was written' end as detail
    from links l left join audit_events e on e.id = l.event_id
    union all
    select coalesce(h.chain, l.chain), greatest(h.seq, l.seq) + 1, case
        when h.chain is null then 'nothing says where it ends'
        when coalesce(l.seq, 0) < h.seq then 'row ' || coalesce(l.seq, 0) + 1 || ' is missing: the chain ends at ' || h.seq
        else 'it ends at ' || h.seq || ', and rows go on to ' || l.seq end
    from audit_heads h
    full join (select distinct on (q.chain) q.chain, q.seq, q.hash from audit_links q order by q.chain, q.seq desc) as l
      on l.chain = h.chain
    where h.seq is distinct from l.seq or h.hash is distinct from l.hash
    union all
    select coalesce(e.org_id, 'platform'), null, e.id || ' stands in no chain'
    from audit_events e where not exists (select 1 from audit_links l where l.event_id = e.id)
  )
  select distinct on (f.chain) f.chain, f.seq, f.detail from faults f where f.detail is not null order by f.chain, f.seq, f.detail
$$;

-- Writes the audit event of a transfer, once for both of its entries: money that goes up, from a
-- person to the team or from there to the organization, is taken back from whoever had it.
create function record_transfer(p_out wallet_transactions, p_in wallet_transactions)
returns void language plpgsql as $$
declare
  v_from wallets;
  v_to wallets;
  v_is_reclaim boolean;
  v_floors constant text[] := '{user,team,organization}';
begin
  select * into v_from from wallets q where q.id = p_out.wallet_id;
  select * into v_to from wallets q where q.id = p_in.wallet_id;
  v_is_reclaim := array_position(v_floors, v_to.owner_type) > array_position(v_floors, v_from.owner_type);
  perform write_audit_event(p_in.org_id, case when v_is_reclaim then 'wallet.reclaimed' else 'wallet.allocated' end,
    case when v_is_reclaim then v_from.id else v_to.id end,
    jsonb_build_object('from_balance_nanos', (p_out.balance_after_nanos - p_out.amount_nanos)::text,
      'to_balance_nanos', (p_in.balance_after_nanos - p_in.amount_nanos)::text),
    jsonb_strip_nulls(jsonb_build_object('from_balance_nanos', p_out.balance_after_nanos::text,
      'to_balance_nanos', p_in.balance_after_nanos::text, 'amount_nanos', p_in.amount_nanos::text, 'currency', v_to.currency,
      'from_wallet_id', v_from.id, 'to_wallet_id', v_to.id, 'transfer_id', p_in.transfer_id, 'description', p_in.description)));
end $$;

-- A row as an audit event shows it: money is decimal text, as in events; what changes by itself and
-- what is secret are left out.
create function shown_row(p_row jsonb) returns jsonb language sql immutable as $$
  select jsonb_object_agg(m.key, case
    when m.key not like '%\_nanos' or m.value = 'null' then m.value
    when jsonb_typeof(m.value) = 'array' then (select coalesce(jsonb_agg(a #>> '{}'), '[]') from jsonb_array_elements(m.value) as a)
    else to_jsonb(m.value #>> '{}') end)
  from jsonb_each(p_row - '{updated_at,last_used_at,spent_nanos,held_nanos,balance_nanos,reserved_nanos,seq,lifetimes_next_at,
    counted_from,config,changes,credentials,webhook_secret,previous_webhook_secret,hash,url,warns_at_nanos,emits_at_nanos,emitted_pct,
    refusal_told,past_until,approved_nanos,approvals,day_ends_at}'::text[]) as m
$$;

-- Writes the audit event of a row: `<noun>.<verb>`, with the members that were changed. Arguments:
-- the noun, and the column that names the object, if there are several. A row that ends (archived,
-- revoked, retired) is its noun's end, not a change.
create function record_change() returns trigger language plpgsql as $$
declare
  v_old jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  v_new jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  v_row jsonb := coalesce(v_new, v_old);
  v_shown jsonb := shown_row(v_old);
  v_before jsonb := v_shown;
  v_after jsonb := shown_row(v_new) || changed_secrets(coalesce(v_old, '{}'), coalesce(v_new, '{}'));
  v_ended constant text[] := '{archived_at,revoked_at,retired_at}';
  v_verb text := case tg_op when 'INSERT' then 'created' when 'DELETE' then 'ended' else 'changed' end;
begin
  if tg_op = 'UPDATE' then
    select coalesce(jsonb_object_agg(m.key, m.value), '{}') into v_before from jsonb_each(v_before) as m
    where v_after -> m.key is distinct from m.value;
    select coalesce(jsonb_object_agg(m.key, m.value), '{}') into v_after from jsonb_each(v_after) as m
    where v_shown -> m.key is distinct from m.value;
    if v_before = '{}' and v_after = '{}' then
      return null;
    end if;
    if exists (select 1 from unnest(v_ended) as name where v_old ->> name is null and v_new ->> name is not null) then
      v_verb := 'ended';
    elsif exists (select 1 from unnest(v_ended) as name where v_old ->> name is not null and v_new ->> name is null) then
      v_verb := 'created';
    end if;
  elsif tg_op = 'INSERT' then
    v_before := replaced_version(tg_table_name, v_new);
  end if;
  if tg_table_name = 'memberships' and v_verb = 'created' then
    v_after := v_after || (select jsonb_build_object('name', u.name, 'email', u.email, 'issuer', u.issuer, 'subject', u.subject)
      from users u where u.id = new.user_id);
  elsif tg_table_name = 'team_members' and v_verb = 'changed' then
    v_after := v_after || jsonb_build_object('team_id', new.team_id);
  end if;
  perform write_audit_event(
    case tg_table_name
      when 'organizations' then v_row ->> 'id'
      when 'team_members' then (select t.org_id from teams t where t.id = v_row ->> 'team_id')
      else v_row ->> 'org_id' end,
    tg_argv[0] || '.' || v_verb, coalesce(v_row ->> tg_argv[1], tg_argv[0]), v_before, v_after);
  return null;
end $$;

create trigger agents_record after insert or delete or update on agents
for each row
execute function record_change('agent', 'id');

create trigger approval_rules_record after insert or update of name, team_id, max_per_call_nanos,
  max_per_day_nanos, source, archived_at on approval_rules
for each row
execute function record_change('approval_rule', 'id');

create trigger budgets_record after insert or update of limit_nanos, budget_window, on_exceed,
  thresholds, archived_at on budgets
for each row
execute function record_change('budget', 'id');

create trigger exchange_rates_record after insert or delete or update on exchange_rates
for each row
execute function record_change('exchange_rate', 'currency');

create trigger export_destinations_record after insert or delete or update on export_destinations
for each row
execute function record_change('export_destination', 'id');

create trigger export_schedules_record after insert or delete or update of kinds, format, every,
  lag_minutes, destination_id, archived_at on export_schedules
for each row
execute function record_change('export_schedule', 'id');

create trigger gateway_configs_record after insert or delete or update on gateway_configs
for each row
execute function record_change('gateway_config', 'version');

create trigger identities_record after insert or delete on identities
for each row
execute function record_change('identity', 'id');

create trigger identity_issuers_record after insert or update on identity_issuers
for each row
execute function record_change('identity_issuer', 'id');

create trigger member_key_settings_record after insert or delete or update on member_key_settings
for each row
execute function record_change('member_key_settings', 'org_id');

create trigger memberships_record after insert or delete or update on memberships
for each row
execute function record_change('member', 'user_id');

create trigger model_prices_record after insert or delete or update on model_prices
for each row
execute function record_change('price', 'id');

create trigger notice_destinations_record after insert or delete or update of name, url, host,
  credentials, kinds, disabled_at, archived_at on notice_destinations
for each row
execute function record_change('notice_destination', 'id');

create trigger one_time_codes_record after insert on one_time_codes
for each row when (new.purpose = 'invitation')
execute function record_change('invitation', 'user_id');

create trigger one_time_codes_record_session after insert on one_time_codes
for each row when (new.purpose = 'session')
execute function record_change('sign_in_code', 'user_id');

create trigger organizations_record after insert or update of name, currency, reserve_buffer_pct,
  low_balance_threshold_nanos, reservation_ttl_seconds, ticket_ttl_seconds,
  default_max_completion_tokens, manual_credit, wallet_user_topup_enabled, time_zone,
  own_key_factor_min, price_factor, archived_at on organizations
for each row
execute function record_change('organization', 'id');

create trigger organizations_suspend after update of suspended_at on organizations
for each row
execute function record_change('organization', 'id');

create trigger payment_config_record after insert or delete or update on payment_config
for each row
execute function record_change('payment_config', '');

create trigger payment_providers_record after insert or delete or update on payment_providers
for each row
execute function record_change('payment_provider', 'name');

create trigger payment_settings_record after insert or delete or update on payment_settings
for each row
execute function record_change('payment_settings', 'org_id');

create trigger price_imports_record after insert or update on price_imports
for each row
execute function record_change('price_import', 'id');

create trigger provider_keys_record after insert or delete or update of credentials, version,
  price_factor, own_keys, revoked_at on provider_keys
for each row
execute function record_change('provider_key', 'id');

create trigger sessions_record after insert or update of revoked_at on tokens
for each row when (new.purpose = 'session')
execute function record_change('session', 'id');

create trigger team_members_record after insert or delete or update on team_members
for each row
execute function record_change('team_member', 'user_id');

create trigger teams_record after insert or delete or update on teams
for each row
execute function record_change('team', 'id');

create trigger tokens_gone after delete on tokens
for each row when (old.purpose = 'key')
execute function record_change('key', 'id');

create trigger tokens_limit after update of rpm, tpm, max_parallel_requests on tokens
for each row
execute function record_change('key', 'id');

create trigger tokens_record after insert or update of name, scopes, user_id, team_id, agent_id,
  allowed_models, max_budget_nanos, include_cost, created_by, expires_at, revoked_at on tokens
for each row when (new.purpose = 'key' and (new.revoked_at is null or new.revoked_at is distinct
  from new.expires_at))
execute function record_change('key', 'id');

create trigger usage_constraints_record after insert or delete or update on usage_constraints
for each row
execute function record_change('usage_constraint', 'id');

create trigger wallets_record after update of low_balance_threshold_nanos on wallets
for each row
execute function record_change('wallet', 'id');

-- Writes the audit event of a verdict. What the verdict writes is set ahead of the status, and an
-- open ticket has none of it.
create function record_verdict() returns trigger language plpgsql as $$
declare
  v_names constant text[] := tg_argv[1:];
  v_after jsonb := (select jsonb_object_agg(m.key, m.value) from jsonb_each(shown_row(to_jsonb(new))) as m
    where m.key = any(v_names));
begin
  perform write_audit_event(new.org_id, tg_argv[0], new.id,
    (select jsonb_object_agg(m.key, case m.key when 'status' then to_jsonb(old.status) when 'currency' then m.value else 'null' end)
      from jsonb_each(v_after) as m), v_after);
  return null;
end $$;

create trigger cost_tickets_approved after update of status on cost_tickets
for each row when (old.status = 'open' and new.status = 'approved' and new.decided_by is not null
  and new.decided_by <> 'rule')
execute function record_verdict('cost_ticket.approved', 'status', 'credited_nanos', 'currency',
  'transaction_id', 'reservation_id', 'note');

create trigger cost_tickets_denied after update of status on cost_tickets
for each row when (old.status = 'open' and new.status = 'denied' and new.decided_by is not null)
execute function record_verdict('cost_ticket.denied', 'status', 'note');

----------------------------------------------------------------------------------------------------
-- Money for owners who are there
----------------------------------------------------------------------------------------------------

-- No approval fills a wallet that nobody can spend: that of an archived team, or of a person who
-- has left. Webhooks that name no session keep their body, with a buyer's name in it, for the three
-- days in which it is of use.
