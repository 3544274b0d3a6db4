-- Lists of a hundred thousand rows are searched and ordered by indexes; an organization can be suspended.

-- What a row is found by: its organization, its words (runs of letters and digits, in lower case), and further marks, such as
-- the models of a key. One index holds all of them, so that a search reads what it finds and nothing of other organizations.
-- Indexes are made without a search path: it calls nothing of ours.
create function search_words(p_org_id text, p_texts text[], p_marks text[]) returns tsvector language sql immutable as $$
  select array_to_tsvector(array['o ' || coalesce(p_org_id, '')]
    || array(select distinct 'w ' || left(w.word, 100)
      from regexp_split_to_table(lower(array_to_string(p_texts, ' ')), '[^[:alnum:]]+') as w (word) where w.word <> '')
    || array(select distinct 'm ' || m.mark from unnest(p_marks) as m (mark) where m.mark is not null))
$$;

create function quoted_lexeme(p_text text) returns text language sql immutable as $$
  select '''' || replace(replace(p_text, '\', '\\'), '''', '''''') || ''''
$$;

-- The question for it: every word of `p_q` begins a word of the row, and the row bears one of `p_marks`. Null asks for neither.
create function search_for(p_org_id text, p_q text, p_marks text[]) returns tsquery language sql immutable as $$
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

-- The same question asked of one row, without an index: for lists of which much is found, where reading in the list's order ends
-- sooner than finding all. Its cost and its yield are told to the planner as those of a filter that most rows pass.
create function has_words(p_texts text[], p_q text) returns boolean language plpgsql immutable cost 1 as $$
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

-- Name and e-mail of the person, so that a list of members is ordered and searched without a look at every person.
alter table memberships add column name text, add column email text;
alter table memberships disable trigger memberships_record;
update memberships m set name = u.name, email = u.email from users u where u.id = m.user_id;
alter table memberships enable trigger memberships_record;
alter table memberships alter column name set not null;

-- A person who is just being renamed is waited for.
create function name_membership() returns trigger language plpgsql as $$
begin
  select u.name, u.email into new.name, new.email from users u where u.id = new.user_id for share;
  return new;
end $$;

create trigger memberships_name before insert on memberships for each row execute function name_membership();

create function rename_memberships() returns trigger language plpgsql as $$
begin
  update memberships m set name = new.name, email = new.email where m.user_id = new.id;
  return null;
end $$;

create trigger users_rename after update of name, email on users
for each row when (new.name is distinct from old.name or new.email is distinct from old.email)
execute function rename_memberships();

create index memberships_created on memberships (org_id, created_at, user_id) where archived_at is null;
create index team_members_created on team_members (team_id, created_at, user_id);
create index memberships_by_name on memberships (org_id, lower(name), user_id) where archived_at is null;
create index memberships_words on memberships using gin (search_words(org_id, array[name, email], array['role ' || role]))
  with (fastupdate = off) where archived_at is null;

create index teams_org on teams (org_id, id);
create index teams_by_name on teams (org_id, lower(name), id);
create index teams_words on teams using gin (search_words(org_id, array[name], '{}')) with (fastupdate = off);

create index agents_org on agents (org_id, id);
create index agents_by_name on agents (org_id, lower(name), id);
create index agents_words on agents using gin (search_words(org_id, array[name], '{}')) with (fastupdate = off);

create index organizations_by_name on organizations (lower(name), id);
create index organizations_words on organizations using gin (search_words('', array[name], '{}')) with (fastupdate = off);

create index tokens_by_id on tokens (org_id, id);
create index tokens_ends on tokens (org_id, coalesce(expires_at, 'infinity'), id) where revoked_at is null;
create index tokens_living on tokens (org_id, id) where revoked_at is null;
create index tokens_by_name on tokens (org_id, lower(name), id);
create index tokens_by_end on tokens (org_id, coalesce(expires_at, 'infinity'), id);
create index tokens_user on tokens (org_id, user_id, id) where user_id is not null;
create index tokens_team on tokens (org_id, team_id, id) where team_id is not null;
create index tokens_agent on tokens (org_id, agent_id, id) where agent_id is not null;
-- A key without a list may call every model, as one whose list is a star. Keys are also found by their kind.
create function token_marks(p_token_type text, p_allowed_models text[]) returns text[] language sql immutable as $$
  select array['type ' || p_token_type] || case p_token_type when 'gateway'
    then array(select 'model ' || m from unnest(coalesce(p_allowed_models, '{*}')) as m) else '{}' end
$$;

create index tokens_words on tokens using gin (search_words(org_id, array[name], token_marks(token_type, allowed_models)))
  with (fastupdate = off);

create index wallets_by_id on wallets (org_id, id);

-- Its keys are refused from then on; its money stays as it is.
alter table organizations add column suspended_at timestamptz, add column suspended_for text;

create trigger organizations_suspend after update of suspended_at on organizations
for each row execute function record_change('organization', 'id');

-- Says why an item may hold nothing, however much money there is; null if money alone decides. `p_room` is the rest of the
-- key's budget and `p_made` are the holds of this batch so far. Caps on agents are judged afterwards, by judge_caps.
create or replace function reserve_refusal(p_org organizations, f reserve_fact, q quote, p_rate numeric, p_held_nanos numeric,
  p_room_nanos bigint, p_made reservations[]) returns text language sql stable as $$
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

-- Holds for one item, under the organization's lock, if it is a usual one: reserve_2 would answer it with a hold and tell
-- nobody. Null, and nothing is written, if that is not sure; then reserve_2 decides. Invariant: whatever this holds, reserve_2
-- would hold alike, row for row.
create or replace function reserve_alone(p_org_id text, p_item jsonb) returns item_answer language plpgsql as $$
declare
  i reserve_item := jsonb_populate_record(null::reserve_item, p_item);
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('res');
  v_is_usual boolean;
  v_currency text;
  v_price_version_id text;
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
begin
  if p_item ?| '{wallet_id,cost_ticket_id,fallbacks,service_tier,region,session_max_actions,session_max_cost_usd}'
      or p_item ?| '{characters,seconds,web_searches,file_searches,containers,pages,image_output_tokens}' then
    return null;
  end if;
  -- What the tables know, and what it comes to. Each row is found by its key, however small its table was when this was planned.
  select coalesce(f.is_usual and f.held_nanos <= f.room_nanos, false), f.currency, f.version_id, f.rate, f.estimated_nanos,
    f.held_nanos, f.completion_tokens,
    case when f.user_nanos >= f.held_nanos then f.user_wallet_id when f.team_nanos >= f.held_nanos then f.team_wallet_id
      when f.org_nanos >= f.held_nanos then f.org_wallet_id end,
    case when f.user_nanos >= f.held_nanos then 'user' when f.team_nanos >= f.held_nanos then 'team' else 'organization' end,
    f.reservation_ttl_seconds, v_now + f.reservation_ttl_seconds * interval '1 second', f.lifetimes_next_at
  into v_is_usual, v_currency, v_price_version_id, v_rate, v_estimated_nanos, v_held_nanos, v_completion_tokens, v_wallet_id,
    v_owner_type, v_life_seconds, v_expires_at, v_sweep_at
  from (
    select o.currency, x.rate, o.reservation_ttl_seconds, o.lifetimes_next_at, p.version_id, c.completion_tokens,
      ceil(usd.nanos * x.rate) as estimated_nanos, amount_to_hold(usd.nanos, x.rate, o.reserve_buffer_pct) as held_nanos,
      uw.id as user_wallet_id, uw.balance_nanos - uw.kept_nanos as user_nanos,
      tw.id as team_wallet_id, tw.balance_nanos - tw.kept_nanos as team_nanos,
      ow.id as org_wallet_id, ow.balance_nanos - ow.kept_nanos as org_nanos,
      -- The least that the key's budget and the agent's caps leave; a count of answers leaves all or nothing.
      least(9000000000000000000, k.max_budget_nanos - k.spent_nanos - k.held_nanos, (
        select min(case
          when q.constraint_type = 'cost' then q.max_value * 1000000000 - coalesce(u.cost_nanos, 0)
          when q.max_value >= coalesce(u.responses, 0) + 1 then 9000000000000000000
          else -1 end)
        from usage_constraints q
        left join lateral (select * from constraint_usage o where o.constraint_id = q.id
          and o.window_start = window_start(q.interval, v_now) limit 1) as u on true
        where q.agent_id = i.agent_id and q.archived_at is null and constraint_covers(q, i.provider, i.model))) as room_nanos,
      is_flat(p) and o.suspended_at is null
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
    cross join lateral (select coalesce(i.max_completion_tokens, least(p.max_output_tokens, o.default_max_completion_tokens))
      as completion_tokens) as c
    cross join lateral (select token_cost(p, i.estimated_prompt_tokens, c.completion_tokens) as nanos) as usd
    where o.id = p_org_id
    offset 0
  ) as f;
  if v_wallet_id is null or not v_is_usual then
    return null;
  end if;

  insert into reservations (id, org_id, request_id, status, body_sha256, request_body_hash, wallet_id, wallet_owner_type,
    key_id, user_id, team_id, agent_id, session_id, family, provider, model, price_version_id, exchange_rate, currency,
    estimated_nanos, held_nanos, life_seconds, created_at, expires_at, max_completion_tokens)
  values (v_id, p_org_id, i.request_id, 'open', body_digest(p_item), i.request_body_hash, v_wallet_id, v_owner_type,
    i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.family, i.provider, i.model, v_price_version_id, v_rate,
    v_currency, v_estimated_nanos, v_held_nanos, v_life_seconds, v_now, v_expires_at, v_completion_tokens)
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
  if i.key_id is not null then
    update tokens k set held_nanos = k.held_nanos + v_held_nanos,
      last_used_at = case when k.last_used_at > v_now - interval '1 minute' then k.last_used_at else v_now end
    where k.id = i.key_id;
  end if;
  if v_sweep_at is null or v_expires_at < v_sweep_at then
    perform wake_lifetimes(p_org_id, v_expires_at);
  end if;
  return ('reserve', 1, null, null, v_id, null, v_wallet_id, v_owner_type, v_currency, v_estimated_nanos, v_held_nanos,
    null, null, v_balance_nanos, null, v_expires_at, null, v_completion_tokens, null, null)::item_answer;
end $$;
