-- Top-ups through a hosted checkout: sessions, what providers told of them, and the one credit of each.

create table payment_sessions (
  id text primary key default new_id('pay'),
  org_id text not null references organizations,
  -- Who pays: a person, or a key that stands for nobody.
  user_id text references users,
  created_by text not null,
  provider text not null check (provider in ('payment_provider_a', 'payment_provider_b')),
  surface text not null check (surface in ('console', 'chat')),
  amount_nanos bigint not null check (amount_nanos > 0),
  currency text not null,
  target_wallet_owner_type text not null check (target_wallet_owner_type in ('user', 'team', 'organization')),
  wallet_id text not null references wallets,
  return_url text not null,
  cancel_url text not null,
  status text not null default 'created' check (status in ('created', 'capturing', 'captured', 'confirming', 'confirmed',
    'completed', 'canceled', 'failed', 'refunded', 'expired')),
  -- Grows with each return to created, so that every try of the buyer is a message of its own.
  attempt integer not null default 1,
  -- Calls that were begun at the provider, committed before each of them.
  provider_calls integer not null default 0,
  -- When the call that is under way began; null once its answer is recorded.
  provider_called_at timestamptz,
  provider_order_id text,
  approval_url text,
  provider_capture_id text,
  captured_nanos bigint,
  captured_currency text,
  -- Paid after the session was canceled, expired or failed.
  is_late boolean not null default false,
  error_code text,
  error_message text,
  -- The provider's own words, for operators only.
  provider_message text,
  credited_nanos bigint not null default 0,
  wallet_transaction_id text,
  -- The provider's newest list of refunds and disputes, and the number of the reading that brought it.
  refunds jsonb not null default '[]',
  disputes jsonb not null default '[]',
  reading integer not null default 0,
  -- What refunds and disputes have taken from the wallet.
  debited_nanos bigint not null default 0,
  resolution text,
  resolved_by text,
  resolution_note text,
  -- The Idempotency-Key of its creation with its caller, hashed, and the body's hash.
  idempotency text,
  body_sha256 text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  -- Ours is 5 minutes after the provider's.
  expires_at timestamptz not null default clock_timestamp() + interval '1 hour',
  -- When somebody asks the provider next; null where nothing more can come but by webhook.
  next_check_at timestamptz default clock_timestamp() + interval '1 minute',
  checks integer not null default 0
);
create unique index payment_sessions_order on payment_sessions (provider, provider_order_id) where provider_order_id is not null;
create unique index payment_sessions_capture on payment_sessions (provider, provider_capture_id) where provider_capture_id is not null;
create unique index payment_sessions_idempotency on payment_sessions (idempotency) where idempotency is not null;
create index payment_sessions_org on payment_sessions (org_id, created_at desc);
create index payment_sessions_newest on payment_sessions (created_at desc);
create index payment_sessions_due on payment_sessions (next_check_at) where next_check_at is not null;

-- Webhooks as they came, stored before they are answered. Their content is news: what happened is asked at the provider.
create table payment_events (
  provider text not null,
  id text not null,
  type text not null,
  payment_session_id text references payment_sessions,
  order_id text,
  capture_id text,
  -- The session that the event itself names; it may be none of ours.
  named_session_id text,
  -- Kept only while nobody knows whose it is.
  body text,
  -- unknown: no session of ours is named; it is looked for again, and shown.
  status text not null check (status in ('sent', 'unknown', 'ignored')),
  received_at timestamptz not null default clock_timestamp(),
  primary key (provider, id)
);
create index payment_events_session on payment_events (payment_session_id) where payment_session_id is not null;
create index payment_events_age on payment_events (received_at);
create index payment_events_unknown on payment_events (received_at) where status = 'unknown';

-- Which ledger entries a payment made. One credit per session; every other entry names its refund or dispute.
create table payment_entries (
  transaction_id text primary key,
  payment_session_id text not null references payment_sessions,
  amount_nanos bigint not null,
  cause_id text
);
create unique index payment_entries_credit on payment_entries (payment_session_id) where cause_id is null;
create index payment_entries_session on payment_entries (payment_session_id);

-- The state table of a payment session: what may follow each state, and nothing else.
create function payment_moves(p_from text) returns text[] language sql immutable as $$
  select case p_from
    when 'created' then '{capturing,canceled,expired,failed}'
    when 'capturing' then '{captured,created,failed}'
    when 'captured' then '{confirming,failed}'
    when 'confirming' then '{confirmed}'
    when 'confirmed' then '{completed}'
    when 'completed' then '{refunded}'
    when 'refunded' then '{completed}'
    -- Money that came late.
    else '{captured}' end::text[]
$$;

-- When a payment that nobody tells of is asked for: after 1 minute, 5 minutes, 1 hour, then daily for a week. One that is
-- credited, for refunds and disputes of which no webhook came: after a day, a week and a month.
create function payment_pause(p_status text, p_checks integer) returns interval language sql immutable as $$
  select case
    when p_status in ('completed', 'refunded') then case p_checks when 0 then interval '1 day' when 1 then interval '7 days'
      when 2 then interval '30 days' end
    when p_checks = 0 then interval '1 minute'
    when p_checks = 1 then interval '5 minutes'
    when p_checks = 2 then interval '1 hour'
    when p_checks < 10 then interval '1 day' end
$$;

-- The session under its organization's lock, which orders all its moves and money.
create function lock_payment(p_id text) returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  perform lock_organization(q.org_id) from payment_sessions q where q.id = p_id;
  select * into s from payment_sessions q where q.id = p_id;
  return s;
end $$;

-- The one guarded update of a session's state.
create function move_payment(p_id text, p_to text) returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  update payment_sessions q set status = p_to, updated_at = clock_timestamp(),
    error_code = case p_to when 'capturing' then null else q.error_code end,
    error_message = case p_to when 'capturing' then null else q.error_message end,
    attempt = q.attempt + (q.status = 'capturing' and p_to = 'created')::int,
    checks = 0,
    -- What ended before it had an order can be paid by nobody.
    next_check_at = case when p_to in ('completed', 'refunded') then clock_timestamp() + payment_pause(p_to, 0)
      when p_to in ('canceled', 'expired', 'failed') and q.provider_order_id is null then null
      when p_to in ('captured', 'confirming', 'confirmed') then clock_timestamp()
      else clock_timestamp() + payment_pause(p_to, 0) end
  where q.id = p_id and p_to = any (payment_moves(q.status))
  returning * into s;
  if s.id is null then
    raise exception using errcode = 'SV002', message = 'payment session ' || p_id || ' may not become ' || p_to;
  end if;
  return s;
end $$;

-- One event of a payment, as readers of the event routes see it.
create function payment_event(s payment_sessions, p_type text, p_more jsonb) returns void language sql as $$
  select append_event(s.org_id, p_type, jsonb_build_object('payment_session_id', s.id, 'status', s.status,
    'provider', s.provider, 'user_id', s.user_id, 'wallet_id', s.wallet_id, 'amount_nanos', s.amount_nanos::text,
    'currency', s.currency) || p_more)
$$;

create function fail_payment(p_id text, p_code text, p_message text) returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  s := move_payment(p_id, 'failed');
  update payment_sessions q set error_code = p_code, error_message = p_message, provider_called_at = null,
    -- Where there is nothing to resume, its key makes a new session.
    idempotency = case when q.provider_order_id is null then null else q.idempotency end
  where q.id = p_id returning * into s;
  perform payment_event(s, 'payment.failed', jsonb_build_object('error_code', p_code, 'error_message', p_message));
  return s;
end $$;

-- What is to be done next for a session, and how long that can wait. The row decides; whoever asks does it. Past the deadline a
-- provider that does not answer is asked at its next check.
create function payment_step(s payment_sessions) returns table (next text, wait_ms double precision) language sql stable as $$
  select case
      when s.status in ('captured', 'confirming', 'confirmed') then 'credit'
      when s.status = 'created' and s.provider_order_id is null then 'open'
      when s.status in ('created', 'capturing') then 'wait'
      else 'end' end,
    (select greatest(0, extract(epoch from d.due_at - clock_timestamp()) * 1000) from (select least(s.next_check_at,
      case when s.status = 'created' and not (s.expires_at <= clock_timestamp()
        and s.error_code is not distinct from 'provider_unavailable') then s.expires_at end) as due_at) as d
     where d.due_at is not null)
$$;

-- Commits that a call to the provider begins. `reading` orders what the answers say: an answer to a question that was asked
-- before another one's answer was recorded is old. A session that waits for its buyer becomes capturing where it is to be taken;
-- only that is a move, and takes the organization's lock.
create function begin_payment_call(p_id text, p_is_capture boolean) returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  if p_is_capture then
    s := lock_payment(p_id);
    if s.status = 'created' then
      s := move_payment(p_id, 'capturing');
    end if;
  end if;
  update payment_sessions q set provider_calls = q.provider_calls + 1, provider_called_at = clock_timestamp()
  where q.id = p_id returning * into s;
  return s;
end $$;

-- The provider has made the checkout: the first one made is the one that the buyer is shown. Its order is kept also where the
-- session has ended meanwhile, so that it is found if it is paid.
create function open_payment(p_id text, p_order_id text, p_approval_url text) returns payment_sessions language sql as $$
  update payment_sessions q set provider_order_id = coalesce(q.provider_order_id, p_order_id),
    approval_url = coalesce(q.approval_url, p_approval_url), provider_called_at = null, updated_at = clock_timestamp(),
    error_code = case q.status when 'created' then null else q.error_code end,
    error_message = case q.status when 'created' then null else q.error_message end,
    checks = 0, next_check_at = clock_timestamp() + payment_pause(q.status, 0)
  where q.id = p_id
  returning *
$$;

-- Ends a session that nobody has paid: the buyer's wish, the deadline, or a definite no. Changes nothing where it has moved on.
create function close_payment(p_id text, p_to text, p_code text, p_message text) returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  s := lock_payment(p_id);
  if s.status <> 'created' and not (s.status = 'capturing' and p_to = 'failed') then
    return s;
  end if;
  if p_to = 'failed' then
    return fail_payment(p_id, p_code, p_message);
  end if;
  s := move_payment(p_id, p_to);
  update payment_sessions q set error_code = p_code, error_message = p_message, provider_called_at = null,
    idempotency = case when q.provider_order_id is null then null else q.idempotency end
  where q.id = p_id returning * into s;
  return s;
end $$;

-- The provider has the money. Another amount or currency than asked for is never credited by itself.
create function take_payment(s payment_sessions, p_report jsonb) returns payment_sessions language plpgsql as $$
declare
  v_before text := s.status;
begin
  if s.status = 'created' then
    s := move_payment(s.id, 'capturing');
  end if;
  s := move_payment(s.id, 'captured');
  update payment_sessions q set provider_capture_id = p_report ->> 'capture_id',
    -- Above what a wallet can hold it is another amount than any that was asked for.
    captured_nanos = least((p_report ->> 'amount_nanos')::numeric, 9000000000000000000)::bigint, captured_currency = p_report ->> 'currency',
    is_late = v_before in ('canceled', 'expired', 'failed'), error_code = null, error_message = null, provider_message = null
  where q.id = s.id returning * into s;
  if s.captured_nanos <> s.amount_nanos or s.captured_currency <> s.currency then
    s := fail_payment(s.id, 'amount_mismatch', 'Asked for ' || trim_scale(s.amount_nanos / 1e9::numeric) || ' ' || s.currency
      || ', the provider took ' || trim_scale(s.captured_nanos / 1e9::numeric) || ' ' || s.captured_currency
      || '. Nothing was credited; a platform admin decides.');
  end if;
  return s;
end $$;

-- The provider has not got the money: back to the buyer, or to an end that the provider has said.
create function return_payment(s payment_sessions, p_status text) returns payment_sessions language plpgsql as $$
begin
  if p_status = 'failed' then
    return close_payment(s.id, 'failed', 'declined', 'The payment failed at the provider. Create a new checkout.');
  end if;
  if p_status = 'pending' and s.status = 'created' then
    return move_payment(s.id, 'capturing');
  end if;
  if p_status in ('open', 'declined', 'closed') and s.status = 'capturing' then
    s := move_payment(s.id, 'created');
  end if;
  if p_status = 'declined' and s.status = 'created' then
    update payment_sessions q set error_code = 'declined',
      error_message = 'The payment was declined. The buyer may try again with another means of payment.'
    where q.id = s.id returning * into s;
  end if;
  if p_status = 'closed' then
    s := close_payment(s.id, 'expired', 'session_expired', 'The checkout has ended at the provider. Create a new one.');
    -- It can never be paid any more.
    update payment_sessions q set next_check_at = null where q.id = s.id and q.status in ('expired', 'canceled', 'failed')
      and q.provider_capture_id is null;
    select * into s from payment_sessions q where q.id = s.id;
  end if;
  return s;
end $$;

-- What a provider reports, however it was learned: the one place where a payment becomes captured. Safe to run any number of
-- times at once. `p_reading` is `provider_calls` as it was when the question was asked. `p_is_asked`: the money was asked for,
-- so a payment that is still open was not approved.
create function record_payment(p_id text, p_report jsonb, p_reading integer, p_is_asked boolean) returns payment_sessions
language plpgsql as $$
declare
  s payment_sessions;
  v_status text := p_report ->> 'status';
  v_before text;
begin
  s := lock_payment(p_id);
  v_before := s.status;
  update payment_sessions q set provider_called_at = null where q.id = p_id returning * into s;
  if v_status = 'captured' and s.provider_capture_id is null then
    s := take_payment(s, p_report);
  elsif p_reading <= s.reading then
    return s;
  else
    s := return_payment(s, v_status);
    if s.status = 'created' and v_status = 'open' and p_is_asked then
      update payment_sessions q set error_code = 'not_approved',
        error_message = 'The buyer has not approved this payment at the provider yet.' where q.id = p_id returning * into s;
    elsif s.status in ('created', 'capturing') and s.error_code = 'provider_unavailable' then
      update payment_sessions q set error_code = null, error_message = null, provider_message = null
      where q.id = p_id returning * into s;
    end if;
  end if;
  if s.status = v_before and s.next_check_at is not null then
    update payment_sessions q set checks = q.checks + 1, next_check_at = clock_timestamp() + payment_pause(q.status, q.checks + 1)
    where q.id = p_id returning * into s;
  end if;
  -- An answer without a capture says nothing of what went back.
  if p_reading > s.reading then
    s := note_claims(s, case when p_report ->> 'capture_id' is null
      then jsonb_build_object('refunds', s.refunds, 'disputes', s.disputes) else p_report end, p_reading);
  end if;
  return s;
end $$;

-- The one credit of a session: captured money of the right amount, or what an operator decided about another one.
create function credit_payment(p_id text, p_amount_nanos bigint default null) returns payment_sessions language plpgsql
set enable_seqscan = off set enable_material = off set plan_cache_mode = force_generic_plan as $$
declare
  s payment_sessions;
  v_entry wallet_transactions;
begin
  s := lock_payment(p_id);
  if s.status <> 'captured' then
    return s;
  end if;
  if (select w.balance_nanos::numeric + w.reserved_nanos + coalesce(p_amount_nanos, s.captured_nanos) > 9000000000000000000
    from wallets w where w.id = s.wallet_id) then
    update payment_sessions q set next_check_at = clock_timestamp() + interval '5 minutes',
      provider_message = 'The wallet cannot hold this much more. Make room in it, or refund the payment.'
    where q.id = p_id returning * into s;
    return s;
  end if;
  s := move_payment(p_id, 'confirming');
  s := move_payment(p_id, 'confirmed');
  select * into v_entry from post_entries(s.org_id, array[(s.wallet_id, 'payment_credit',
    coalesce(p_amount_nanos, s.captured_nanos), 0, null, null, null, null, null, null, s.id,
    'top-up' || case when s.is_late then ', late' else '' end)::ledger_entry]);
  insert into payment_entries (transaction_id, payment_session_id, amount_nanos) values (v_entry.id, s.id, v_entry.amount_nanos);
  update payment_sessions q set credited_nanos = v_entry.amount_nanos, wallet_transaction_id = v_entry.id, error_code = null,
    error_message = null where q.id = p_id;
  s := move_payment(p_id, 'completed');
  perform payment_event(s, 'payment.completed', jsonb_build_object('credited_amount_nanos', s.credited_nanos::text,
    'transaction_id', s.wallet_transaction_id, 'late', s.is_late));
  return bring_debit(s, null);
end $$;
