-- A hold that lapses although a call had it says so: its gateway never told how the call ended.

-- Expires every overdue hold of an organization, each once: a settlement of +held with cost 0, and an event that says
-- whether a call had the hold and its end was never told; what an approval held for a call that never came is not that.
create or replace function expire_holds(p_org_id text) returns integer language plpgsql as $$
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
    'currency', e.currency, 'unsettled', not exists (select 1 from cost_tickets t where t.id = e.cost_ticket_id
      and t.request_id is distinct from e.request_id)))
  from unnest(v_expired) as e;
  return cardinality(v_expired);
end $$;
