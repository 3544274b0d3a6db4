-- A payment that its provider does not know any more waits for nobody who records the same payment. The bounds of open tickets stand
-- in one place, and nothing of them is kept for longer than it is of use.

-- The provider gave no answer that says how things stand: it is asked again after 1 minute, 5 minutes, 1 hour, then daily, after
-- the end too, however often people and webhooks find none before. The clock's own looks stay what they are. Where it has not
-- known the order for a day, the payment failed; money that comes all the same is credited. `p_asked`: up to which question
-- people are told so.
create or replace function payment_unanswered(p_id text, p_message text, p_is_gone boolean, p_asked integer) returns payment_sessions
language plpgsql as $$
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

-- How many cost tickets of a key or an organization may be open at one time.
create function open_tickets_max(p_param text) returns integer language sql immutable as $$
  select case p_param when 'key_id' then 50 when 'org_id' then 500 end
$$;

-- The bound that one more ticket of this item would exceed, as {param, open, resets_at}; null if there is room. A call without
-- a key is bounded by its organization alone.
create or replace function exceeded_bound(p_org_id text, i reserve_item) returns jsonb language sql stable as $$
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

-- Says in one event for all refusals of ten minutes that a key or an organization has as many tickets open as it may have.
create or replace function tell_bound(p_org_id text, i reserve_item, p_bound jsonb) returns void language plpgsql as $$
declare
  v_key_id text := case p_bound ->> 'param' when 'key_id' then i.key_id end;
  v_now timestamptz := clock_timestamp();
begin
  delete from ticket_bounds b where b.org_id = p_org_id and b.told_at <= v_now - interval '10 minutes';
  insert into ticket_bounds (org_id, key_id, told_at) values (p_org_id, v_key_id, v_now) on conflict (org_id, key_id) do nothing;
  if found then
    perform append_event(p_org_id, 'cost_ticket.exceeded', jsonb_build_object('key_id', v_key_id,
        'open_tickets', p_bound -> 'open', 'resets_at', iso_time((p_bound ->> 'resets_at')::timestamptz),
        'request_id', i.request_id, 'agent_id', i.agent_id)
      || caller(trace_of(i.request_id), i.user_id, i.key_id, i.team_id));
  end if;
end $$;
