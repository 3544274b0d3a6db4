-- Reserve, settle, extend, expire: the two-phase cycle of every priced request, and the ticket that a refusal opens.

create table reservations (
  id text primary key,
  org_id text not null,
  request_id text not null,
  -- open -> settled | released | expired; expired -> late. `canceled` is a tombstone: a request_id that may never hold.
  status text not null check (status in ('open', 'settled', 'released', 'expired', 'late', 'canceled')),
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
  check (status = 'canceled' or num_nulls(wallet_id, price_version_id, held_nanos, expires_at) = 0)
) with (fillfactor = 80);
create unique index reservations_request on reservations (org_id, request_id);
create index reservations_due on reservations (org_id, expires_at) where status = 'open';
create index reservations_session on reservations (org_id, session_id) where session_id is not null;

create table cost_tickets (
  id text primary key default new_id('ticket'),
  org_id text not null references organizations,
  status text not null default 'open' check (status in ('open', 'approved', 'denied', 'redeemed', 'expired')),
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
  resolved_at timestamptz
);
-- The same caller with the same body finds its open ticket again.
create unique index cost_tickets_open on cost_tickets (org_id, key_id, user_id, team_id, agent_id, session_id, provider,
  model, request_body_hash) nulls not distinct where status = 'open';
create index cost_tickets_org on cost_tickets (org_id, created_at desc);

-- One answer of reserve or settle; `code` is null where it went well. Refusals are rows, so that neighbours go on.
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

-- Expires every overdue hold of an organization, each once: a settlement of +held with cost 0, and an event.
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
  perform append_event(p_org_id, 'reservation.expired', jsonb_build_object('reservation_id', e.id,
    'request_id', e.request_id, 'agent_id', e.agent_id, 'wallet_id', e.wallet_id, 'held_nanos', e.held_nanos::text,
    'currency', e.currency))
  from unnest(v_expired) as e;
  return cardinality(v_expired);
end $$;

-- What reservationLifetimes does each time it wakes: expires what is overdue and returns the milliseconds to the next
-- deadline. Null ends the workflow: nothing is open, and the next hold wakes it again.
create function sweep_holds(p_org_id text) returns double precision language plpgsql
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

-- Moves open holds to now + their life, at most 24 h after the reserve. Invariant: no money moves.
create function extend(p_org_id text, p_reservation_ids text[])
returns table (reservation_id text, status text, expires_at timestamptz) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz;
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  update reservations r
  set expires_at = greatest(r.expires_at,
    least(r.created_at + interval '24 hours', v_now + r.life_seconds * interval '1 second'))
  where r.org_id = p_org_id and r.status = 'open' and r.id = any (p_reservation_ids);
  return query
    select i.id, case when r.id is null or r.status = 'canceled' then 'unknown' when r.status = 'open' then 'extended'
      when r.status in ('expired', 'late') then 'expired' else 'settled' end, r.expires_at
    from unnest(p_reservation_ids) with ordinality as i (id, n)
    left join reservations r on r.id = i.id and r.org_id = p_org_id
    order by i.n;
end $$;

-- The answer of a repeated settle: what the first one did.
create function settled_answer(p_n integer, r reservations) returns lane_answer language sql stable as $$
  select ('settle', p_n, null, null, case when r.status <> 'canceled' then r.id end,
    case r.status when 'canceled' then 'released' else r.status end, r.wallet_id, r.wallet_owner_type, r.currency,
    r.estimated_nanos, r.held_nanos, coalesce(r.actual_cost_nanos, 0),
    case when r.status in ('settled', 'released') then greatest(r.held_nanos - r.actual_cost_nanos, 0) else 0 end,
    t.balance_after_nanos, t.id, r.expires_at, null)::lane_answer
  from (select 1) as always
  left join wallet_transactions t on t.reservation_id = r.id
    and t.phase = case r.status when 'late' then 'late' else 'close' end
$$;

create type settle_item as (
  reservation_id text,
  request_id text,
  outcome text,
  provider text,
  model text,
  usage jsonb,
  usage_source text
);

-- One settle item with what was decided of it; `code` is null where the reservation is to be closed now.
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
  usage_source text
);

-- Reads the items with their reservations and frozen prices. Items are independent: a reservation comes once a batch.
create function judge_settlements(p_org_id text, p_items jsonb) returns settlement[] language sql stable as $$
  select array_agg((e.n::integer,
    case
      when r.id is null and i.outcome = 'canceled' and i.request_id is not null
        and exists (select 1 from organizations o where o.id = p_org_id) then 'tombstone'
      when r.id is null then 'not_found'
      when r.status not in ('open', 'expired') then 'repeated'
      when p.version_id is null then 'price_not_frozen'
      when cost.nanos > 9000000000000000000 then 'amount_too_large'
    end,
    r.reservation, i.request_id,
    case
      when r.status = 'expired' then 'late'
      when i.outcome <> 'completed' and cost.nanos = 0 then 'released'
      else 'settled'
    end,
    cost.nanos, chosen.provider, chosen.model, i.outcome, i.usage, i.usage_source)::settlement order by e.n)
  from jsonb_array_elements(p_items) with ordinality as e (value, n)
  cross join lateral jsonb_populate_record(null::settle_item, e.value) as i
  left join lateral (select q.id from reservations q where q.org_id = p_org_id and q.request_id = i.request_id limit 1)
    as named on i.reservation_id is null
  left join lateral (select q as reservation, q.* from reservations q where q.id = coalesce(i.reservation_id, named.id) limit 1)
    as r on r.org_id = p_org_id
  cross join lateral (select coalesce(i.provider, r.provider) as provider, coalesce(i.model, r.model) as model) as chosen
  left join lateral (select v as price, v.version_id from model_prices v where v.version_id = case
      when chosen.provider = r.provider and chosen.model = r.model then r.price_version_id
      else (select f ->> 'price_version_id' from jsonb_array_elements(r.fallbacks) as f
        where f ->> 'provider' = chosen.provider and f ->> 'model' = chosen.model limit 1) end limit 1) as p on true
  cross join lateral (select case
    -- What failed or was canceled before any use costs nothing, not even the price per request.
    when i.outcome <> 'completed' and not exists (select 1 from jsonb_each_text(i.usage) as u where u.value::numeric > 0)
      then 0
    else round(usage_cost(p.price, jsonb_populate_record(null::usage_counts, i.usage)) * r.exchange_rate) end as nanos) as cost
$$;

-- The ledger entries that close reservations: the hold comes back and the cost goes, or after expiry the cost alone.
create function closing_entries(p_closing settlement[]) returns ledger_entry[] language sql immutable as $$
  select array_agg(((s.reservation).wallet_id, 'settlement',
    case s.status when 'late' then -s.cost_nanos else (s.reservation).held_nanos - s.cost_nanos end,
    case s.status when 'late' then 0 else -(s.reservation).held_nanos end,
    (s.reservation).id, case s.status when 'late' then 'late' else 'close' end, s.provider, s.model, s.cost_nanos,
    null, null, case s.status when 'late' then 'settled after expiry' end)::ledger_entry order by s.n)
  from unnest(p_closing) as s
$$;

-- Settles holds to their real cost. Invariant: each reservation is closed once and charged once, whatever is repeated;
-- the wallet may go into debt, other holds stay as they are. Canceling an unknown request_id leaves a tombstone.
create function settle(p_org_id text, p_items jsonb) returns setof lane_answer language plpgsql as $$
declare
  v_now timestamptz;
  v_items settlement[];
  v_closing settlement[];
begin
  perform lock_organization(p_org_id);
  v_now := clock_timestamp();
  v_items := judge_settlements(p_org_id, p_items);
  v_closing := array(select s from unnest(v_items) as s where s.code is null);

  return query
    with tombstones as (
      insert into reservations (id, org_id, request_id, status, created_at, outcome)
      select new_id('res'), p_org_id, s.request_id, 'canceled', v_now, 'canceled'
      from unnest(v_items) as s where s.code = 'tombstone' returning *
    )
    select a.* from unnest(v_items) as s
    join tombstones t on s.code = 'tombstone' and t.request_id = s.request_id
    cross join lateral settled_answer(s.n, t::reservations) as a;
  return query
    select a.* from unnest(v_items) as s cross join lateral settled_answer(s.n, s.reservation) as a
    where s.code = 'repeated';
  return query
    select 'settle', s.n, s.code, case s.code when 'price_not_frozen' then 'model' when 'amount_too_large' then 'usage' end,
      (s.reservation).id, null::text, null::text, null::text, null::text, null::bigint, null::bigint, null::bigint,
      null::bigint, null::bigint, null::text, null::timestamptz, null::jsonb
    from unnest(v_items) as s where s.code in ('not_found', 'price_not_frozen', 'amount_too_large');
  if cardinality(v_closing) = 0 then
    return;
  end if;

  update tokens t set held_nanos = t.held_nanos - d.held_nanos, spent_nanos = t.spent_nanos + d.cost_nanos
  from (select (s.reservation).key_id, sum(s.cost_nanos) as cost_nanos,
      coalesce(sum((s.reservation).held_nanos) filter (where s.status <> 'late'), 0) as held_nanos
    from unnest(v_closing) as s group by 1) as d
  where t.id = d.key_id;
  update reservations r
  set status = s.status, closed_at = v_now, actual_cost_nanos = s.cost_nanos, outcome = s.outcome, usage = s.usage,
    usage_source = s.usage_source
  from unnest(v_closing) as s where r.id = (s.reservation).id;
  -- Entries come back in the order they were given, so the two lists are zipped, not joined.
  return query
    select 'settle', z.n, null::text, null::text, (z.reservation).id, z.status, (z.reservation).wallet_id,
      (z.reservation).wallet_owner_type, (z.reservation).currency, (z.reservation).estimated_nanos,
      (z.reservation).held_nanos, z.cost_nanos::bigint,
      case z.status when 'late' then 0 else greatest((z.reservation).held_nanos - z.cost_nanos, 0)::bigint end,
      z.balance_after_nanos, z.entry_id, (z.reservation).expires_at, null::jsonb
    from rows from (post_entries(p_org_id, closing_entries(v_closing)), unnest(v_closing)) as z (entry_id, wallet_id, org_id,
      seq, type, amount_nanos, balance_after_nanos, provider, model, reservation_id, phase, actual_cost_nanos, transfer_id,
      payment_session_id, description, created_at, n, code, reservation, request_id, status, cost_nanos, chosen_provider,
      chosen_model, outcome, usage, usage_source);
end $$;

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
  session_max_cost_usd numeric
);

-- What a reserve may cost at most by today's prices: the dearest of the model and its fallbacks, each price frozen.
create type quote as (code text, param text, usd_nanos numeric, price_version_id text, fallbacks jsonb);

create function quote_reserve(i reserve_item, p_default_max_completion integer) returns quote language plpgsql stable as $$
declare
  v_quote quote;
  v_candidate record;
  v_price model_prices;
  v_usd numeric;
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
    v_usd := usage_cost(v_price, (i.estimated_prompt_tokens,
      coalesce(i.max_completion_tokens, least(v_price.max_output_tokens, p_default_max_completion)),
      null, null, null, null, null, null, i.characters, i.seconds, null)::usage_counts);
    v_quote.usd_nanos := greatest(v_quote.usd_nanos, v_usd);
    if v_candidate.n = 0 then
      v_quote.price_version_id := v_price.version_id;
    else
      v_quote.fallbacks := coalesce(v_quote.fallbacks, '[]') || jsonb_build_object('provider', v_candidate.provider,
        'model', v_candidate.model, 'price_version_id', v_price.version_id);
    end if;
  end loop;
  return v_quote;
end $$;

-- A refused reserve opens a ticket, or finds the caller's open one for the same body. `p_left` holds balances that the
-- batch has changed but not yet written. The fullest wallet gives the ticket its balance; ties go to the organization.
create function open_ticket(p_org organizations, i reserve_item, p_held_nanos bigint, p_left jsonb) returns jsonb
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_id text := new_id('ticket');
  v_ticket cost_tickets;
  v_answer jsonb;
begin
  perform ensure_wallet(p_org.id, 'user', i.user_id) where i.user_id is not null;
  perform ensure_wallet(p_org.id, 'team', i.team_id) where i.team_id is not null;
  with expired as (
    update cost_tickets t set status = 'expired', resolved_at = v_now
    where t.org_id = p_org.id and t.request_body_hash = i.request_body_hash and t.status = 'open' and t.expires_at <= v_now
    returning t.id, t.agent_id
  )
  select max(append_event(p_org.id, 'cost_ticket.resolved', jsonb_build_object('cost_ticket_id', e.id, 'agent_id', e.agent_id,
    'status', 'expired'))::text) into v_answer from expired e;
  insert into cost_tickets (id, org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash,
    estimated_cost_nanos, currency, reserve, created_at, expires_at)
  values (v_id, p_org.id, i.key_id, i.user_id, i.team_id, i.agent_id, i.session_id, i.provider, i.model,
    i.request_body_hash, p_held_nanos, p_org.currency, to_jsonb(i), v_now,
    v_now + p_org.ticket_ttl_seconds * interval '1 second')
  on conflict (org_id, key_id, user_id, team_id, agent_id, session_id, provider, model, request_body_hash)
    where status = 'open'
  do update set estimated_cost_nanos = excluded.estimated_cost_nanos, reserve = excluded.reserve
  returning * into v_ticket;

  with cascade as (
    select w.id, w.owner_type, coalesce((p_left ->> w.id)::bigint, w.balance_nanos) as balance_nanos,
      array_position(array['user', 'team', 'organization'], w.owner_type) as place
    from wallets w
    where w.org_id = p_org.id
      and (w.owner_type = 'organization' or w.owner_team_id = i.team_id or w.owner_user_id = i.user_id)
  ), fullest as (
    select c.owner_type, c.balance_nanos from cascade c order by c.balance_nanos desc, c.place desc limit 1
  )
  select jsonb_build_object('id', v_ticket.id, 'status', v_ticket.status, 'provider', v_ticket.provider,
    'model', v_ticket.model, 'estimated_cost_nanos', p_held_nanos::text, 'balance_nanos', f.balance_nanos::text,
    'shortfall_nanos', (p_held_nanos - f.balance_nanos)::text, 'currency', v_ticket.currency,
    'wallet_owner_type', f.owner_type, 'wallets', (
      select jsonb_agg(jsonb_build_object('wallet_id', c.id, 'owner_type', c.owner_type, 'balance_nanos',
        c.balance_nanos::text, 'shortfall_nanos', (p_held_nanos - c.balance_nanos)::text) order by c.place) from cascade c),
    'created_at', iso_time(v_ticket.created_at), 'expires_at', iso_time(v_ticket.expires_at))
  into v_answer from fullest f;
  if v_ticket.id = v_id then
    perform append_event(p_org.id, 'cost_ticket.created', v_answer || jsonb_build_object('cost_ticket_id', v_id,
      'request_id', i.request_id, 'agent_id', i.agent_id));
  end if;
  return v_answer;
end $$;

-- True where the session's earlier reserves, those of this batch included, leave no room for one more of this size.
create function session_is_full(p_org_id text, i reserve_item, p_usd_nanos numeric, p_made reservations[]) returns boolean
language sql stable as $$
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

-- The answer of a repeated reserve: the same hold for the same body; a tombstone or another body is refused.
create function repeated_hold(a lane_answer, r reservations, p_body_sha256 text, p_balance_nanos bigint) returns lane_answer
language plpgsql immutable as $$
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

create function new_hold(i reserve_item, p_org organizations, q quote, p_now timestamptz) returns reservations
language plpgsql volatile as $$
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
  r.provider := i.provider;
  r.model := i.model;
  r.price_version_id := q.price_version_id;
  r.fallbacks := q.fallbacks;
  r.currency := p_org.currency;
  r.life_seconds := p_org.reservation_ttl_seconds;
  r.created_at := p_now;
  r.expires_at := p_now + p_org.reservation_ttl_seconds * interval '1 second';
  return r;
end $$;

-- Writes a batch's holds with their entries, keys' holds and last use, and wakes the organization's lifetimes workflow
-- where none runs or the new deadline comes before the one it sleeps to.
create function write_holds(p_org organizations, p_holds reservations[], p_entries ledger_entry[], p_now timestamptz)
returns void language plpgsql as $$
declare
  v_next timestamptz := p_holds[1].expires_at;
begin
  insert into reservations select * from unnest(p_holds);
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

-- The lookups are lateral with a limit, so that each is one probe of one index whatever the planner knows of the tables.
-- Holds the estimated cost of requests, in the given order. Invariant: a hold is paid by one wallet, the first of user,
-- team and organization whose balance covers it; the sum of holds never exceeds what was available; a request_id
-- holds once. Decisions are made on balances read under the lock and written together at the end.
create function reserve(p_org_id text, p_items jsonb) returns setof lane_answer language plpgsql as $$
declare
  v_org organizations;
  v_now timestamptz;
  v_rate numeric;
  item record;
  v_quote quote;
  v_held numeric;
  v_wallet_id text;
  v_balance bigint;
  -- Balances of wallets and room of keys as this batch leaves them, by id.
  v_left jsonb := '{}';
  v_room bigint;
  v_made reservations[] := '{}';
  v_hold reservations;
  v_entries ledger_entry[] := '{}';
  a lane_answer;
begin
  v_org := lock_organization(p_org_id);
  v_now := clock_timestamp();
  -- Overdue holds are given back before anything is refused for want of them.
  if exists (select 1 from reservations r where r.org_id = p_org_id and r.status = 'open' and r.expires_at <= v_now) then
    perform expire_holds(p_org_id);
  end if;
  v_rate := rate_of(v_org.currency);

  for item in
    select e.n::integer as n, i::reserve_item as body, r.earlier,
      -- jsonb has one text for one content, whatever the order of its keys.
      encode(sha256(convert_to(jsonb_strip_nulls(e.value - '{request_id,secret_id}'::text[])::text, 'utf8')), 'hex') as body_sha256,
      h.balance_after_nanos as earlier_balance_nanos,
      i.user_id is not null and m.user_id is null as user_unknown,
      i.team_id is not null and t.id is null as team_unknown,
      i.agent_id is not null and g.id is null as agent_unknown,
      i.key_id is not null and k.id is null as key_unknown,
      k.revoked_at <= v_now or k.expires_at <= v_now or s.expires_at <= v_now
        or (i.secret_id is not null and s.id is null) as key_invalid,
      k.max_budget_nanos - k.spent_nanos - k.held_nanos as key_room_nanos,
      uw.id as user_wallet_id, uw.balance_nanos as user_nanos,
      tw.id as team_wallet_id, tw.balance_nanos as team_nanos,
      ow.id as org_wallet_id, ow.balance_nanos as org_nanos
    from jsonb_array_elements(p_items) with ordinality as e (value, n)
    cross join lateral jsonb_populate_record(null::reserve_item, e.value) as i
    left join lateral (select q as earlier, q.id from reservations q where q.org_id = p_org_id
      and q.request_id = i.request_id limit 1) as r on true
    left join lateral (select * from wallet_transactions q where q.reservation_id = r.id and q.phase = 'hold' limit 1) as h on true
    left join lateral (select * from memberships q where q.org_id = p_org_id and q.user_id = i.user_id limit 1)
      as m on m.archived_at is null
    left join lateral (select * from teams q where q.id = i.team_id limit 1) as t on t.org_id = p_org_id and t.archived_at is null
    left join lateral (select * from agents q where q.id = i.agent_id limit 1) as g on g.org_id = p_org_id and g.archived_at is null
    left join lateral (select * from tokens q where q.id = i.key_id limit 1) as k on k.org_id = p_org_id
    left join lateral (select * from token_secrets q where q.id = i.secret_id limit 1) as s on s.token_id = k.id
    left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'user'
      and q.owner_user_id = i.user_id limit 1) as uw on true
    left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'team'
      and q.owner_team_id = i.team_id limit 1) as tw on true
    left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'organization' limit 1) as ow on true
    order by e.n
  loop
    a := null;
    a.op := 'reserve';
    a.n := item.n;
    if (item.earlier).id is not null then
      a := repeated_hold(a, item.earlier, item.body_sha256, item.earlier_balance_nanos);
      return next a;
      continue;
    end if;

    v_quote := quote_reserve(item.body, v_org.default_max_completion_tokens);
    v_held := ceil(ceil(v_quote.usd_nanos * v_rate) * (1 + v_org.reserve_buffer_pct / 100));
    v_room := coalesce((v_left ->> (item.body).key_id)::bigint, item.key_room_nanos);
    a.code := case
      when v_org.id is null then 'unknown_org'
      when item.user_unknown or item.team_unknown or item.agent_unknown or item.key_unknown then 'not_of_organization'
      when item.key_invalid then 'invalid_credential'
      when v_quote.code is not null then v_quote.code
      when v_rate is null then 'exchange_rate_missing'
      when v_held > 9000000000000000000 then 'amount_too_large'
      when ((item.body).session_max_actions is not null or (item.body).session_max_cost_usd is not null)
        and session_is_full(p_org_id, item.body, v_quote.usd_nanos, v_made) then 'session_limit_exceeded'
      when v_held > v_room then 'key_budget_exceeded' end;
    if a.code is not null then
      a.param := case
        when v_org.id is null then 'org_id'
        when item.user_unknown then 'user_id'
        when item.team_unknown then 'team_id'
        when item.agent_unknown then 'agent_id'
        when item.key_unknown then 'key_id'
        when a.code = 'amount_too_large' then 'estimated_prompt_tokens'
        else v_quote.param end;
      return next a;
      continue;
    end if;

    a.estimated_cost_nanos := ceil(v_quote.usd_nanos * v_rate);
    a.reserved_amount_nanos := v_held;
    a.currency := v_org.currency;
    v_wallet_id := null;
    if coalesce((v_left ->> item.user_wallet_id)::bigint, item.user_nanos) >= v_held then
      v_wallet_id := item.user_wallet_id;
      v_balance := coalesce((v_left ->> v_wallet_id)::bigint, item.user_nanos);
      a.wallet_owner_type := 'user';
    elsif coalesce((v_left ->> item.team_wallet_id)::bigint, item.team_nanos) >= v_held then
      v_wallet_id := item.team_wallet_id;
      v_balance := coalesce((v_left ->> v_wallet_id)::bigint, item.team_nanos);
      a.wallet_owner_type := 'team';
    elsif coalesce((v_left ->> item.org_wallet_id)::bigint, item.org_nanos) >= v_held then
      v_wallet_id := item.org_wallet_id;
      v_balance := coalesce((v_left ->> v_wallet_id)::bigint, item.org_nanos);
      a.wallet_owner_type := 'organization';
    end if;
    if v_wallet_id is null then
      a.code := 'insufficient_balance';
      a.cost_ticket := open_ticket(v_org, item.body, v_held::bigint, v_left);
      return next a;
      continue;
    end if;

    v_balance := v_balance - v_held;
    v_left := v_left || jsonb_build_object(v_wallet_id, v_balance::text);
    if v_room is not null then
      v_left := v_left || jsonb_build_object((item.body).key_id, (v_room - v_held)::text);
    end if;
    v_hold := new_hold(item.body, v_org, v_quote, v_now);
    v_hold.body_sha256 := item.body_sha256;
    v_hold.wallet_id := v_wallet_id;
    v_hold.wallet_owner_type := a.wallet_owner_type;
    v_hold.exchange_rate := v_rate;
    v_hold.estimated_nanos := a.estimated_cost_nanos;
    v_hold.held_nanos := v_held;
    v_made := array_append(v_made, v_hold);
    v_entries := array_append(v_entries, (v_wallet_id, 'reservation', -v_held, v_held, v_hold.id, 'hold', v_hold.provider,
      v_hold.model, null, null, null, null)::ledger_entry);
    a.reservation_id := v_hold.id;
    a.wallet_id := v_wallet_id;
    a.balance_after_nanos := v_balance;
    a.expires_at := v_hold.expires_at;
    return next a;
  end loop;
  if cardinality(v_made) > 0 then
    perform write_holds(v_org, v_made, v_entries, v_now);
  end if;
end $$;

-- One commit for what waits in one organization's lane: settlements first, they give money back.
create function lane(p_org_id text, p_settlements jsonb, p_reserves jsonb) returns setof lane_answer language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
begin
  if jsonb_array_length(p_settlements) > 0 then
    return query select * from settle(p_org_id, p_settlements);
  end if;
  if jsonb_array_length(p_reserves) > 0 then
    return query select * from reserve(p_org_id, p_reserves);
  end if;
end $$;
