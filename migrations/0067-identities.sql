-- Identity providers, and whom their tokens stand for. A person is known by issuer and subject, and by nothing else: not by e-mail,
-- and not by our ids unless the issuer is read so.

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
create unique index identity_issuers_client on identity_issuers (issuer, client_id) where archived_at is null;

-- An admin of one organization can bind a subject to a person in that organization only: elsewhere it stands for nobody.
create table identities (
  id text not null default new_id('idn'),
  issuer_id text not null references identity_issuers,
  org_id text not null references organizations,
  subject text not null,
  user_id text not null references users,
  -- Who invited, and the credential that they did it with; null if the person was made when they first signed in.
  created_by text,
  created_with text,
  created_at timestamptz not null default clock_timestamp(),
  constraint identities_pkey primary key (issuer_id, subject, org_id),
  constraint identities_id_key unique (id)
);
create index identities_user on identities (org_id, user_id);

-- Values that a person shows once: a sign-in that an operator's terminal made, or an invitation to bind a subject to a member.
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

create trigger identity_issuers_record after insert or update on identity_issuers
for each row execute function record_change('identity_issuer', 'id');
create trigger identities_record after insert or delete on identities
for each row execute function record_change('identity', 'id');
create trigger one_time_codes_record after insert on one_time_codes
for each row when (new.purpose = 'invitation') execute function record_change('invitation', 'user_id');
create trigger one_time_codes_record_session after insert on one_time_codes
for each row when (new.purpose = 'session') execute function record_change('sign_in_code', 'user_id');

-- Id tokens that somebody has signed in by: each is good once.
create table used_id_tokens (
  -- SHA-256 of what its issuer signed.
  hash text primary key,
  used_at timestamptz not null default clock_timestamp()
);
create index used_id_tokens_used on used_id_tokens (used_at);

create table sign_in_tries (
  address text primary key,
  tries timestamptz[] not null default '{}',
  last_at timestamptz not null default clock_timestamp()
);
create index sign_in_tries_last on sign_in_tries (last_at);

-- Counts a try to sign in from an address. Null if it may go on; else when the next one may, once so many came within a minute.
create function try_sign_in(p_address text, p_most integer) returns timestamptz language plpgsql as $$
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
