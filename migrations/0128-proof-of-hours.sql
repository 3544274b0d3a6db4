-- The proof, of spend by hour too: each group of an hour has the cost, calls and tokens of the ledger. Hours are kept for 36 days; the last of these is the margin of
-- a fold that came later than its call.
create function audit_9() returns table (check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_8()
  union all
  select 'spend_hours_are_folded_calls', null, 'edition ' || edition || ', ' || iso_time(hour) || ', ' || concat_ws(' ', key_id, user_id, team_id,
    agent_id, family, provider, model) || ': spend ' || coalesce(h.figures::text, 'nothing') || ', ledger '
    || coalesce(l.figures::text, 'nothing')
  from (
    select e.edition, s.hour, s.key_id, s.user_id, s.team_id, s.agent_id, s.family, s.provider, s.model,
      array[sum(s.cost_nanos), sum(s.requests), sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.cached_tokens)] as figures
    from spend_editions e join spend_cursors c on c.edition = e.edition
    join wallet_transactions t on t.wallet_id = c.wallet_id and t.seq <= c.folded_seq and t.type = 'settlement'
      and t.created_at > now() - interval '35 days'
    left join reservations r on r.id = t.reservation_id
    cross join lateral spend_of(t, r, e.time_zone) as s
    where e.state <> 'dropped' and s.hour > now() - interval '35 days' group by 1, 2, 3, 4, 5, 6, 7, 8, 9
  ) as l
  full join (
    select q.edition, q.hour, q.key_id, q.user_id, q.team_id, q.agent_id, q.family, q.provider, q.model,
      array[q.cost_nanos, q.requests, q.prompt_tokens, q.completion_tokens, q.cached_tokens] as figures
    from spend_hours q join spend_editions e on e.edition = q.edition and e.state <> 'dropped'
    where q.hour > now() - interval '35 days'
  ) as h using (edition, hour, key_id, user_id, team_id, agent_id, family, provider, model)
  where l.figures is distinct from h.figures
$$;
