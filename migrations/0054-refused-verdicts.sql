-- A verdict counts once, also one that was refused: sent again it is refused with the same code, whatever has changed since. Its
-- person was told no, and whoever reads Temporal's history could send it again while it is valid.

alter table cost_tickets add column refused_verdicts jsonb not null default '{}';
comment on column cost_tickets.refused_verdicts is 'The verdicts that were refused, each by its id with the code; the newest 200.';

-- Notes that a verdict was refused.
create function note_refused_verdict(p_ticket_id text, p_verdict jsonb, p_code text) returns void language sql as $$
  update cost_tickets q set refused_verdicts = case
      when (select count(*) from jsonb_object_keys(q.refused_verdicts)) < 200 then q.refused_verdicts else '{}' end
    || jsonb_build_object(p_verdict ->> 'id', p_code)
  where q.id = p_ticket_id and p_verdict ->> 'id' is not null and not q.refused_verdicts ? (p_verdict ->> 'id')
    and p_code not in ('repeated', 'ticket_not_found')
$$;

-- Why a verdict cannot be recorded; 'repeated' where it is the one already recorded. An approval
-- that its call has redeemed is still that approval.
create or replace function verdict_refusal(t cost_tickets, p_verdict jsonb, p_status text)
returns text language sql stable as $$
  select case
    when t.id is null then 'ticket_not_found'
    when p_verdict ->> 'id' = any (t.verdict_ids) then 'repeated'
    when t.refused_verdicts ? (p_verdict ->> 'id') then t.refused_verdicts ->> (p_verdict ->> 'id')
    when t.status = p_status and (p_status = 'denied' or t.expires_at > clock_timestamp()) then 'repeated'
    when t.status = 'redeemed' and p_status = 'approved' and t.decided_by is not null then 'repeated'
    when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'ticket_expired'
    when t.status <> 'open' then 'ticket_' || t.status
    when clock_timestamp() > (p_verdict ->> 'valid_until')::timestamptz then 'verdict_too_late' end
$$;

-- Records a person's yes: credits what is missing and holds it, in one step. The row that it
-- answers has a `code` if it is refused. `valid_until` keeps a verdict that arrives late, after its
-- sender was told to look again, from changing anything.
create or replace function approve_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table(code text, message text, ticket_id text) language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_org organizations;
  t cost_tickets;
  w wallets;
  h funded_hold;
  v_need numeric;
  v_short numeric;
  v_amount numeric;
  v_is_transfer boolean;
begin
  v_org := lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := verdict_refusal(t, p_verdict, 'approved');
  if code is null then
    v_need := need_today(v_org, jsonb_populate_record(null::reserve_item, t.reserve - 'secret_id'));
    v_is_transfer := v_org.manual_credit = 'platform_only' and not (p_verdict ->> 'is_platform')::boolean;
    w := wallet_to_fund(t, p_verdict, v_need, v_is_transfer);
    v_short := greatest(coalesce(v_need, 0) - w.balance_nanos, 0);
    v_amount := coalesce((p_verdict ->> 'amount_nanos')::numeric, v_short);
    code := funding_refusal(w, p_org_id, p_verdict, v_amount, v_short, v_is_transfer);
  end if;
  if code is null then
    h := fund_and_hold(t, w, v_amount::bigint, v_is_transfer, p_verdict ->> 'note');
    code := h.code;
  end if;
  if code is not null then
    perform note_refused_verdict(t.id, p_verdict, code);
    return next;
    return;
  end if;

  -- The hold is kept for its call until the ticket's own deadline, a day at most.
  update reservations r set expires_at = greatest(r.expires_at, least(t.expires_at, clock_timestamp() + interval '24 hours'))
  where r.id = (h.answer).reservation_id
  returning r.expires_at into t.expires_at;
  update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note',
    credited_nanos = v_amount, transaction_id = h.transaction_id, reservation_id = (h.answer).reservation_id,
    estimated_cost_nanos = (h.answer).reserved_amount_nanos, expires_at = t.expires_at,
    verdict_ids = array_append(q.verdict_ids, p_verdict ->> 'id')
  where q.id = t.id;
  perform resolve_ticket(t.id, 'approved', p_verdict ->> 'by_terminal' is null);
  return next;
end $$;

-- Records a person's no.
create or replace function deny_ticket(p_org_id text, p_ticket_id text, p_verdict jsonb)
returns table(code text, message text, ticket_id text) language plpgsql as $$
declare
  t cost_tickets;
begin
  perform lock_organization(p_org_id);
  ticket_id := p_ticket_id;
  select * into t from cost_tickets q where q.id = p_ticket_id and q.org_id = p_org_id;
  code := verdict_refusal(t, p_verdict, 'denied');
  if code is null then
    update cost_tickets q set decided_by = p_verdict ->> 'by', decided_at = clock_timestamp(), note = p_verdict ->> 'note'
    where q.id = t.id;
    perform resolve_ticket(t.id, 'denied', p_verdict ->> 'by_terminal' is null);
  else
    perform note_refused_verdict(t.id, p_verdict, code);
  end if;
  return next;
end $$;
