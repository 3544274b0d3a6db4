-- The proof, of spend too: what is folded up to the cursors is what the ledger says, by day, provider and model; and hours add up to
-- their days.
create function audit_6() returns table (check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_5()
  union all
  select 'spend_is_folded_ledger', null, 'edition ' || coalesce(l.edition, d.edition) || ', ' || coalesce(l.day, d.day) || ', '
    || coalesce(l.provider, d.provider) || ' ' || coalesce(l.model, d.model) || ': spend ' || coalesce(d.cost_nanos, 0) || ', ledger '
    || coalesce(l.cost_nanos, 0)
  from (
    select e.edition, (t.created_at at time zone e.time_zone)::date as day, coalesce(t.provider, '') as provider,
      coalesce(t.model, '') as model, sum(coalesce(t.actual_cost_nanos, 0)) as cost_nanos
    from spend_editions e join spend_cursors c on c.edition = e.edition
    join wallet_transactions t on t.wallet_id = c.wallet_id and t.seq <= c.folded_seq and t.type = 'settlement'
    where e.state <> 'dropped' group by 1, 2, 3, 4
  ) as l
  full join (
    select q.edition, q.day, q.provider, q.model, sum(q.cost_nanos) as cost_nanos from spend_days q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped' group by 1, 2, 3, 4
  ) as d on d.edition = l.edition and d.day = l.day and d.provider = l.provider and d.model = l.model
  where coalesce(l.cost_nanos, 0) <> coalesce(d.cost_nanos, 0)
  union all
  select 'spend_hours_are_days', null, 'edition ' || d.edition || ', ' || d.day || ': hours ' || coalesce(h.cost_nanos, 0) || ', day '
    || d.cost_nanos
  from (
    select q.edition, q.day, sum(q.cost_nanos) as cost_nanos from spend_days q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped'
    where q.day > (now() - interval '33 days')::date group by 1, 2
  ) as d
  left join (
    select q.edition, (q.hour at time zone e.time_zone)::date as day, sum(q.cost_nanos) as cost_nanos from spend_hours q
    join spend_editions e on e.edition = q.edition and e.state <> 'dropped' group by 1, 2
  ) as h on h.edition = d.edition and h.day = d.day
  where d.cost_nanos <> coalesce(h.cost_nanos, 0)
  union all
  select 'spend_within_ledger', c.wallet_id, 'folded to ' || c.folded_seq || ', entries to ' || coalesce(w.seq, 0)
  from spend_cursors c left join wallets w on w.id = c.wallet_id where c.folded_seq > coalesce(w.seq, 0)
$$;
