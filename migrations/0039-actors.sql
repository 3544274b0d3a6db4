-- Who moved money: each entry that a person or key makes by hand names them.

alter table wallet_transactions add column actor text;
comment on column wallet_transactions.actor is
'The person, or the key that stands for nobody, who made the entry by hand; null for calls, clocks and providers.';

-- Who acts in this transaction, as the API, a verdict or a terminal says it; null if none does.
create function acting() returns text language sql stable as $$
  select nullif(current_setting('svc.actor', true), '')
$$;

-- The only place that changes a balance. Under the organization's lock it appends entries in the given order, moves each wallet
-- once, and writes one wallet.balance_low if balance + reserved crosses the threshold downwards. An entry that closes a call is
-- nobody's, also if a person's step finds a hold overdue.
create or replace function post_entries(p_org_id text, p_entries ledger_entry[]) returns setof wallet_transactions
language plpgsql as $$
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
      select e.wallet_id, sum(e.amount_nanos)::bigint as amount_nanos, sum(e.reserved_nanos)::bigint as reserved_nanos,
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
        w.balance_nanos + w.reserved_nanos as after_nanos,
        w.balance_nanos + w.reserved_nanos - m.amount_nanos - m.reserved_nanos as before_nanos,
        w.low_balance_threshold_nanos
    )
    select m.*, coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos) as threshold_nanos
    from moved m join organizations o on o.id = p_org_id
    where m.before_nanos >= coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
      and m.after_nanos < coalesce(m.low_balance_threshold_nanos, o.low_balance_threshold_nanos)
  loop
    perform append_event(p_org_id, 'wallet.balance_low', jsonb_build_object('wallet_id', v_low.id,
      'owner_type', v_low.owner_type, 'currency', v_low.currency, 'balance_nanos', v_low.balance_nanos::text,
      'reserved_nanos', v_low.reserved_nanos::text, 'threshold_nanos', v_low.threshold_nanos::text));
  end loop;
end $$;

-- The entries of a settle have one more column, which the zipped rows name.
create or replace function settle_3(p_org_id text, p_items jsonb) returns setof lane_answer language plpgsql as $$
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

  update tokens t set held_nanos = t.held_nanos - d.held_nanos, spent_nanos = t.spent_nanos + d.cost_nanos
  from (select (s.reservation).key_id, sum(s.cost_nanos) as cost_nanos,
      coalesce(sum((s.reservation).held_nanos) filter (where s.status <> 'late'), 0) as held_nanos
    from unnest(v_closing) as s group by 1) as d
  where t.id = d.key_id;
  update reservations r
  set status = s.status, closed_at = v_now, actual_cost_nanos = s.cost_nanos, outcome = s.outcome, usage = s.usage,
    usage_source = s.usage_source, settled_provider = s.provider, settled_model = s.model
  from unnest(v_closing) as s where r.id = (s.reservation).id;
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

-- Fills a wallet and holds a ticket's cost in it. Invariant: both happen or neither; if a key, budget or cap refuses the hold,
-- the credit has never been.
create or replace function fund_and_hold(t cost_tickets, w wallets, p_amount_nanos bigint, p_is_transfer boolean, p_note text)
returns funded_hold language plpgsql as $$
declare
  v_entry wallet_transactions;
  v_answer lane_answer;
  v_words text := 'approved cost ticket ' || t.id || coalesce(' by ' || acting(), '') || coalesce(': ' || p_note, '');
begin
  if p_amount_nanos > 0 and p_is_transfer then
    select q.* into v_entry from transfer(t.org_id, (select o.id from wallets o where o.org_id = t.org_id
      and o.owner_type = 'organization'), w.id, p_amount_nanos, v_words) q where q.wallet_id = w.id;
  elsif p_amount_nanos > 0 then
    v_entry := credit(t.org_id, w.id, p_amount_nanos, v_words);
  end if;
  select (r.answer).* into v_answer from reserve_2(t.org_id, jsonb_build_array(t.reserve - 'secret_id'
    || jsonb_strip_nulls(jsonb_build_object('request_id', 'ticket:' || t.id || ':' || new_id('hold'),
      'cost_ticket_id', t.id, 'wallet_id', w.id)))) r;
  if v_answer.code is not null then
    raise exception using errcode = 'SV001', message = v_answer.code;
  end if;
  return (null, v_entry.id, v_answer)::funded_hold;
exception when sqlstate 'SV001' then
  return (sqlerrm, null, null)::funded_hold;
end $$;
