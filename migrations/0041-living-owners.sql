-- No approval fills a wallet that nobody can spend: that of an archived team, or of a person who has left. Webhooks that name
-- no session keep their body, with a buyer's name in it, for the three days in which it is of use.

create or replace function wallet_to_fund(t cost_tickets, p_verdict jsonb, p_need_nanos numeric, p_is_transfer boolean) returns wallets
language sql stable as $$
  select q from wallets q
  where q.org_id = t.org_id and q.id = coalesce(p_verdict ->> 'wallet_id', q.id)
    and (q.owner_type = 'organization' or q.owner_team_id = t.team_id or q.owner_user_id = t.user_id)
    and (q.owner_type <> 'team' or exists (select 1 from teams o where o.id = q.owner_team_id and o.archived_at is null))
    and (q.owner_type <> 'user' or exists (select 1 from memberships o where o.org_id = q.org_id and o.user_id = q.owner_user_id
      and o.archived_at is null))
    and (p_verdict ->> 'wallet_id' is not null or not p_is_transfer or q.owner_type <> 'organization'
      or q.balance_nanos >= p_need_nanos)
  order by q.balance_nanos desc, array_position(array['organization', 'team', 'user'], q.owner_type) limit 1
$$;

create index payment_events_body on payment_events (received_at) where body is not null;
