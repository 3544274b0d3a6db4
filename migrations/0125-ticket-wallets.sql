-- A list of tickets reads what is missing in their wallets as columns: to build an object of each ticket cost several times what
-- finding it does.

-- What is missing in each wallet that may pay for a ticket's call. `p_left` holds balances that a batch has changed but not yet
-- written. The fullest wallet gives the ticket its balance; ties go to the organization.
create function ticket_wallets(t cost_tickets, p_left jsonb)
returns table(balance_nanos text, shortfall_nanos text, wallet_owner_type text, wallets jsonb) language sql stable as $$
  select (array_agg(s.balance_nanos order by s.balance_nanos desc, s.place desc))[1]::text,
    (array_agg(s.shortfall_nanos order by s.balance_nanos desc, s.place desc))[1]::text,
    (array_agg(s.owner_type order by s.balance_nanos desc, s.place desc))[1],
    jsonb_agg(jsonb_build_object('wallet_id', s.id, 'owner_type', s.owner_type, 'balance_nanos', s.balance_nanos::text,
      'shortfall_nanos', s.shortfall_nanos::text) order by s.place)
  from (
    select c.*, case when t.status = 'open' then greatest(t.estimated_cost_nanos::numeric - c.balance_nanos, 0) else 0 end
      as shortfall_nanos
    from (
      select w.id, w.owner_type, coalesce((p_left ->> w.id)::bigint, w.balance_nanos) as balance_nanos,
        array_position(array['user', 'team', 'organization'], w.owner_type) as place
      from wallets w where w.org_id = t.org_id and may_pay(w, t.user_id, t.team_id)) as c) as s
$$;

-- A ticket as gateways see it.
create or replace function ticket_answer(t cost_tickets, p_left jsonb)
returns jsonb language sql stable as $$
  select jsonb_build_object('id', t.id, 'status',
    case when t.status in ('open', 'approved') and t.expires_at <= clock_timestamp() then 'expired' else t.status end,
    'provider', t.provider, 'model', t.model,
    'estimated_cost_nanos', t.estimated_cost_nanos::text, 'balance_nanos', w.balance_nanos, 'shortfall_nanos', w.shortfall_nanos,
    'currency', t.currency, 'wallet_owner_type', w.wallet_owner_type, 'wallets', w.wallets, 'created_at', iso_time(t.created_at),
    'expires_at', iso_time(t.expires_at)) || ticket_budgets(t, p_left)
  from ticket_wallets(t, p_left) as w
$$;
