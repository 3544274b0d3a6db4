-- The ledger. For every wallet, always: sum(amount) = balance, previous balance_after + amount = balance_after,
-- seq without gaps, reserved = sum of open holds. `balance` is what can be spent now: a hold has already left it.

create table wallets (
  id text primary key default new_id('wal'),
  org_id text not null references organizations,
  owner_type text not null check (owner_type in ('organization', 'team', 'user')),
  owner_team_id text references teams,
  owner_user_id text references users,
  currency text not null,
  balance_nanos bigint not null default 0,
  reserved_nanos bigint not null default 0 check (reserved_nanos >= 0),
  seq bigint not null default 0,
  low_balance_threshold_nanos bigint,
  created_at timestamptz not null default clock_timestamp(),
  -- Holds count too, so that giving one back always fits.
  constraint wallets_bound check (balance_nanos >= -9000000000000000000
    and balance_nanos::numeric + reserved_nanos <= 9000000000000000000),
  check (case owner_type
    when 'organization' then owner_team_id is null and owner_user_id is null
    when 'team' then owner_team_id is not null and owner_user_id is null
    else owner_user_id is not null and owner_team_id is null end)
) with (fillfactor = 50);
create unique index wallets_organization on wallets (org_id) where owner_type = 'organization';
create unique index wallets_team on wallets (org_id, owner_team_id) where owner_type = 'team';
create unique index wallets_user on wallets (org_id, owner_user_id) where owner_type = 'user';

-- No foreign keys here and on reservations: each would lock and re-read a row per entry; the audit proves them instead.
create table wallet_transactions (
  id text primary key,
  wallet_id text not null,
  org_id text not null,
  seq bigint not null,
  type text not null check (type in ('credit', 'reservation', 'settlement', 'allocation_in', 'allocation_out',
    'payment_credit', 'payment_refund')),
  amount_nanos bigint not null,
  balance_after_nanos bigint not null,
  provider text,
  model text,
  reservation_id text,
  -- hold, close (settlement or expiry), late (settled after expiry).
  phase text check (phase in ('hold', 'close', 'late')),
  actual_cost_nanos bigint,
  transfer_id text,
  payment_session_id text,
  description text,
  created_at timestamptz not null
);
create unique index wallet_transactions_seq on wallet_transactions (wallet_id, seq);
create unique index wallet_transactions_phase on wallet_transactions (reservation_id, phase) where reservation_id is not null;

-- The functions that callers use (credit, transfer, lane, extend, sweep_holds) set how their statements are planned: each
-- lookup probes an index, and the plan is made once, also where the tables were empty when it was made. What they call
-- inherits it.

-- The one lock: every money function first takes the organization's wallet row. It orders wallets, keys' budgets,
-- caps, tickets and sessions of the organization, so that no two of its functions can deadlock.
create function lock_organization(p_org_id text) returns organizations language plpgsql as $$
declare
  v_org organizations;
begin
  perform 1 from wallets where org_id = p_org_id and owner_type = 'organization' for no key update;
  -- Read after the lock, so that settings and lifetimes_next_at are the newest.
  select * into v_org from organizations where id = p_org_id;
  return v_org;
end $$;

-- A wallet of a known owner is made on first use with balance 0. Null where the owner is not of this organization.
create function ensure_wallet(p_org_id text, p_owner_type text, p_owner_id text) returns wallets language plpgsql as $$
declare
  v_wallet wallets;
begin
  insert into wallets (org_id, owner_type, owner_team_id, owner_user_id, currency)
  select o.id, p_owner_type,
    case p_owner_type when 'team' then p_owner_id end,
    case p_owner_type when 'user' then p_owner_id end, o.currency
  from organizations o
  where o.id = p_org_id and case p_owner_type
    when 'organization' then true
    when 'team' then exists (select 1 from teams t where t.id = p_owner_id and t.org_id = p_org_id)
    else exists (select 1 from memberships m where m.org_id = p_org_id and m.user_id = p_owner_id) end
  on conflict do nothing;
  select * into v_wallet from wallets w
  where w.org_id = p_org_id and w.owner_type = p_owner_type and case p_owner_type
    when 'organization' then true
    when 'team' then w.owner_team_id = p_owner_id
    else w.owner_user_id = p_owner_id end;
  return v_wallet;
end $$;

create type ledger_entry as (
  wallet_id text,
  type text,
  amount_nanos bigint,
  -- What the entry adds to or takes from the wallet's open holds.
  reserved_nanos bigint,
  reservation_id text,
  phase text,
  provider text,
  model text,
  actual_cost_nanos bigint,
  transfer_id text,
  payment_session_id text,
  description text
);

-- The only place that changes a balance. Under the organization's lock it appends entries in the given order,
-- moves each wallet once, and writes one wallet.balance_low where balance + reserved crosses the threshold downwards.
create function post_entries(p_org_id text, p_entries ledger_entry[]) returns setof wallet_transactions
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_low record;
begin
  return query
    insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
      reservation_id, phase, actual_cost_nanos, transfer_id, payment_session_id, description, created_at)
    select new_id('txn'), w.id, p_org_id, w.seq + row_number() over so_far, e.type, e.amount_nanos,
      (w.balance_nanos + sum(e.amount_nanos) over so_far)::bigint, e.provider, e.model, e.reservation_id, e.phase,
      e.actual_cost_nanos, e.transfer_id, e.payment_session_id, e.description, v_now
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

-- Adds money to one wallet. Invariant: one entry, whose amount is what the balance grew by.
create function credit(p_org_id text, p_wallet_id text, p_amount_nanos bigint, p_description text)
returns wallet_transactions language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_entry wallet_transactions;
begin
  perform lock_organization(p_org_id);
  select * into v_entry from post_entries(p_org_id, array[(p_wallet_id, 'credit', p_amount_nanos, 0, null, null, null,
    null, null, null, null, p_description)::ledger_entry]);
  return v_entry;
end $$;

-- Moves money between two wallets of one organization. Invariant: the two entries of a transfer sum to zero.
-- No row where the giving wallet does not cover the amount.
create function transfer(p_org_id text, p_from text, p_to text, p_amount_nanos bigint, p_note text)
returns setof wallet_transactions language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  v_transfer text := new_id('xfer');
begin
  perform lock_organization(p_org_id);
  if (select w.balance_nanos from wallets w where w.id = p_from) < p_amount_nanos then
    return;
  end if;
  return query select * from post_entries(p_org_id, array[
    (p_from, 'allocation_out', -p_amount_nanos, 0, null, null, null, null, null, v_transfer, null, p_note)::ledger_entry,
    (p_to, 'allocation_in', p_amount_nanos, 0, null, null, null, null, null, v_transfer, null, p_note)::ledger_entry]);
end $$;
