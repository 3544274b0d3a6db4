-- The audit log: who acted, in which session, and a chain of hashes for each organization, so that a row that is changed or gone is
-- found. Rows outlive what they name.

alter table audit_events
  add column actor_type text check (actor_type in ('user', 'key', 'platform', 'system')),
  add column system text,
  add column session_id text;
comment on column audit_events.actor_type is 'A person, a key that stands for nobody, the platform''s key, or a program.';
comment on column audit_events.system is 'The name of the program, terminal or identity provider that acted; null for people and keys.';
comment on column audit_events.session_id is 'The session that the person had signed in with: the key that was used.';

-- Who acts, by the rows of then: ids alone do not say it.
create function actor_type(p_actor text, p_key_id text) returns text language sql stable as $$
  select case
    when p_actor is null then 'system'
    when exists (select 1 from tokens t where t.id = coalesce(p_key_id, p_actor) and t.org_id is null) then 'platform'
    when exists (select 1 from users u where u.id = p_actor) then 'user'
    when p_actor like 'key\_%' then 'key'
    else 'system' end
$$;

alter table audit_events disable trigger audit_events_kept;
update audit_events e set actor_type = a.actor_type, system = case a.actor_type when 'system' then coalesce(e.actor, 'svc') end,
  session_id = (select t.id from tokens t where t.id = e.key_id and t.purpose = 'session')
from (select q.id, actor_type(q.actor, q.key_id) as actor_type from audit_events q) as a where a.id = e.id;
alter table audit_events enable trigger audit_events_kept;
alter table audit_events alter column actor_type set not null;

-- The log is read by its chains; a platform admin also finds an actor, an object or an action in all of them.
-- Their order is not that of the primary key: read by that one, a filter would look at all rows between those that it finds.
create index audit_events_chain on audit_events (coalesce(org_id, 'platform'), id collate "C" desc);
create index audit_events_actor on audit_events (coalesce(actor, system), coalesce(org_id, 'platform'), id collate "C" desc);
create index audit_events_object on audit_events (object_id, coalesce(org_id, 'platform'), id collate "C" desc);
create index audit_events_action on audit_events (action, coalesce(org_id, 'platform'), id collate "C" desc);
create index audit_events_noun on audit_events (split_part(action, '.', 1), coalesce(org_id, 'platform'), id collate "C" desc);
create index audit_events_actor_type on audit_events (actor_type, coalesce(org_id, 'platform'), id collate "C" desc);
create index audit_events_session on audit_events (session_id, id collate "C" desc) where session_id is not null;

-- Writes an audit event in the name of who acts. A person has a session if the key that they used is one.
create or replace function write_audit_event(p_org_id text, p_action text, p_object_id text, p_before jsonb, p_after jsonb) returns void
language sql as $$
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

-- Where an audit event stands in the chain of its organization, or of the platform: after which, and what both come to.
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

-- What is hashed of an event: its chain and place, the hash before it, and all that it says, as the text of a JSON list.
create function audit_text(e audit_events, p_chain text, p_seq bigint, p_prev_hash text) returns text language sql stable as $$
  select jsonb_build_array(p_chain, p_seq, p_prev_hash, e.id,
    to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), e.org_id, e.actor_type, e.actor, e.system, e.key_id,
    e.session_id, e.request_id, e.action, e.object_id, e.before, e.after)::text
$$;

create function audit_hash(e audit_events, p_chain text, p_seq bigint, p_prev_hash text) returns text language sql stable as $$
  select encode(sha256(convert_to(audit_text(e, p_chain, p_seq, p_prev_hash), 'UTF8')), 'hex')
$$;

-- Takes the rows of all chains of this transaction, in their order: two transactions that write into the same chains in other orders
-- wait for each other, and neither for ever. Its events have ids of its time, within a minute; one that is missed is locked later.
create function lock_chains() returns void language plpgsql
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

-- Links an event into its chain as its transaction commits: the rows of chains are the last locks that a change takes, all at once and
-- in their order, so that it can wait for nothing that holds it up in turn. A change of money or people has the organization's lock by
-- then.
create function link_audit_event() returns trigger language plpgsql
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

-- Moves the end of a chain, once for all links of a transaction: each of them but the last has one behind it by then.
create function move_audit_head() returns trigger language plpgsql
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
begin
  update audit_heads q set seq = new.seq, hash = new.hash
  where q.chain = new.chain and not exists (select 1 from audit_links l where l.chain = new.chain and l.seq = new.seq + 1);
  return null;
end $$;

-- What was written before there were chains.
do $$
declare
  e audit_events;
  v_chain text;
  v_seq bigint;
  v_prev text;
  v_hash text;
begin
  for e in select * from audit_events q order by coalesce(q.org_id, 'platform'), q.id loop
    if v_chain is distinct from coalesce(e.org_id, 'platform') then
      v_chain := coalesce(e.org_id, 'platform');
      v_seq := 0;
      v_prev := '';
    end if;
    v_seq := v_seq + 1;
    v_hash := audit_hash(e, v_chain, v_seq, v_prev);
    insert into audit_links (chain, seq, event_id, prev_hash, hash) values (v_chain, v_seq, e.id, v_prev, v_hash);
    v_prev := v_hash;
  end loop;
  insert into audit_heads (chain, seq, hash) select distinct on (l.chain) l.chain, l.seq, l.hash from audit_links l
  order by l.chain, l.seq desc;
end $$;

create constraint trigger audit_events_link after insert on audit_events deferrable initially deferred
for each row execute function link_audit_event();
create constraint trigger audit_links_head after insert on audit_links deferrable initially deferred
for each row execute function move_audit_head();
create trigger audit_links_kept before update or delete on audit_links for each statement execute function refuse_change();
create trigger audit_links_whole before truncate on audit_links for each statement execute function refuse_change();
create trigger audit_heads_whole before delete or truncate on audit_heads for each statement execute function refuse_change();
