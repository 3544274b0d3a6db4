-- The proof: every statement about money that must always hold, checked over all rows of one snapshot.
create function audit() returns table (check_name text, wallet_id text, detail text) language sql stable as $$
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
  from chain c where c.previous_nanos + c.amount_nanos <> c.balance_after_nanos
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
    || coalesce(s.spent_nanos, 0) || ' and ' || coalesce(s.held_nanos, 0)
  from tokens k left join keys s on s.key_id = k.id
  where k.spent_nanos <> coalesce(s.spent_nanos, 0) or k.held_nanos <> coalesce(s.held_nanos, 0)
$$;
