-- Why a verdict cannot be recorded; 'repeated' where it is the one already recorded. An approval
-- that its call has redeemed is still that approval.
create or replace function verdict_refusal(t cost_tickets, p_verdict jsonb, p_status text)
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
create or replace function approve_open(v_org organizations, t cost_tickets, p_verdict jsonb)
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
