-- Money that goes back: our refunds, refunds and disputes at the provider's own site, what operators decide, and the proof.

create table payment_refunds (
  id text primary key default new_id('ref'),
  org_id text not null references organizations,
  payment_session_id text not null references payment_sessions,
  amount_nanos bigint not null check (amount_nanos > 0),
  currency text not null,
  reason text not null,
  requested_by text not null,
  allow_negative boolean not null,
  status text not null default 'pending' check (status in ('pending', 'succeeded', 'failed')),
  -- It has left the wallet.
  debited_at timestamptz,
  -- What of the credit was spent when that refused the refund.
  spent_nanos bigint,
  provider_refund_id text,
  error_code text,
  error_message text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  next_check_at timestamptz default clock_timestamp() + interval '1 minute',
  checks integer not null default 0
);
create unique index payment_refunds_one on payment_refunds (payment_session_id) where status in ('pending', 'succeeded');
create index payment_refunds_session on payment_refunds (payment_session_id);
create index payment_refunds_due on payment_refunds (next_check_at) where next_check_at is not null;

-- What a refund or dispute has taken of a capture. In another currency than the captured one nobody can say how much that is:
-- then all of it, until a person has looked.
create function claim_amount(s payment_sessions, p_claim jsonb) returns numeric language sql immutable as $$
  select case when coalesce(p_claim ->> 'currency', s.captured_currency) = s.captured_currency
    then (p_claim ->> 'amount_nanos')::numeric else s.captured_nanos end
$$;

-- Brings the wallet to what refunds and disputes have taken: the more of what the provider reports (refunded, and disputed
-- while open or lost) and of our own refunds, pending or succeeded, beside those that the provider knows and we did not ask
-- for. What went back is in what was captured; the wallet gives the same share of what was credited, never more. Run any number
-- of times it changes what changed. `p_cause` is the refund or dispute.
create function bring_debit(s payment_sessions, p_cause text) returns payment_sessions language plpgsql as $$
declare
  v_reported numeric;
  v_foreign numeric;
  v_own numeric;
  v_accepted numeric;
  v_target bigint;
  v_entry wallet_transactions;
  v_before bigint := s.debited_nanos;
  v_is_dispute boolean := s.disputes @> jsonb_build_array(jsonb_build_object('id', p_cause));
begin
  select coalesce(sum(c.amount_nanos), 0), coalesce(sum(c.amount_nanos) filter (where not c.is_own), 0)
  into v_reported, v_foreign from (
    select claim_amount(s, r) as amount_nanos,
      exists (select 1 from payment_refunds o where o.id = r ->> 'payment_refund_id') as is_own
    from jsonb_array_elements(s.refunds) as r where r ->> 'status' <> 'failed'
    union all
    select claim_amount(s, d), false from jsonb_array_elements(s.disputes) as d where d ->> 'status' in ('open', 'lost')
  ) as c;
  select coalesce(sum(r.amount_nanos), 0), coalesce(sum(r.amount_nanos) filter (where r.provider_refund_id is not null), 0)
  into v_own, v_accepted from payment_refunds r
  where r.payment_session_id = s.id and r.status in ('pending', 'succeeded') and r.debited_at is not null;
  v_target := share_of_credit(s, greatest(v_reported, v_foreign + v_own));
  if v_target <> s.debited_nanos then
    select * into v_entry from post_entries(s.org_id, array[(s.wallet_id,
      case when v_target > s.debited_nanos then 'payment_refund' else 'payment_credit' end, s.debited_nanos - v_target, 0, null,
      null, null, null, null, null, s.id, case when v_target > s.debited_nanos then '' else 'reversed: ' end
        || case when p_cause like 'ref\_%' then 'refund ' when v_is_dispute then 'dispute at the provider '
          else 'refund at the provider ' end || coalesce(p_cause, ''))::ledger_entry]);
    insert into payment_entries (transaction_id, payment_session_id, amount_nanos, cause_id)
    values (v_entry.id, s.id, v_entry.amount_nanos, coalesce(p_cause, 'report'));
    update payment_sessions q set debited_nanos = v_target, updated_at = clock_timestamp() where q.id = s.id returning * into s;
  end if;
  -- Refunded is what the provider has agreed to, to the last of it.
  if s.status = 'completed' and greatest(v_reported, v_foreign + v_accepted) >= s.captured_nanos then
    s := move_payment(s.id, 'refunded');
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause));
  elsif s.status = 'refunded' and greatest(v_reported, v_foreign + v_accepted) < s.captured_nanos then
    s := move_payment(s.id, 'completed');
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause,
      'reversed', true));
  elsif v_foreign > 0 and v_target > v_before then
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', s.debited_nanos::text, 'cause', case when v_is_dispute then 'dispute' else 'refund' end, 'cause_id', p_cause));
  end if;
  -- An open dispute is looked at daily, whatever webhooks come.
  if s.status in ('completed', 'refunded') and s.disputes @> '[{"status": "open"}]' then
    update payment_sessions q set checks = 0, next_check_at = clock_timestamp() + payment_pause(q.status, 0)
    where q.id = s.id returning * into s;
  end if;
  return follow_mismatch(s, greatest(v_reported, v_foreign + v_accepted));
end $$;

-- Money of another amount or currency that went back is decided about; where it comes back after all, it is not.
create function follow_mismatch(s payment_sessions, p_returned_nanos numeric) returns payment_sessions language plpgsql as $$
declare
  r payment_refunds;
  v_is_back boolean;
begin
  if s.status <> 'failed' or s.error_code is distinct from 'amount_mismatch' or coalesce(s.resolution, 'refunded') <> 'refunded' then
    return s;
  end if;
  select * into r from payment_refunds q where q.payment_session_id = s.id and q.status in ('pending', 'succeeded');
  v_is_back := r.status = 'succeeded' or r.id is null and p_returned_nanos >= s.captured_nanos;
  if v_is_back and s.resolution is null then
    update payment_sessions q set resolution = 'refunded', resolved_by = coalesce(r.requested_by, 'provider'),
      resolution_note = r.reason, updated_at = clock_timestamp() where q.id = s.id returning * into s;
    perform payment_event(s, 'payment.refunded', jsonb_build_object('refunded_amount_nanos', '0', 'cause_id', r.id));
  elsif not coalesce(v_is_back, false) and s.resolution is not null then
    update payment_sessions q set resolution = null, resolved_by = null, resolution_note = null, updated_at = clock_timestamp()
    where q.id = s.id returning * into s;
  end if;
  return s;
end $$;

-- What the wallet gives back of a credit for money that went back: all of it for all. The same number where the credit was what
-- was captured; an operator may have credited another amount, or in another currency.
create function share_of_credit(s payment_sessions, p_amount_nanos numeric) returns bigint language sql immutable as $$
  select coalesce(least(s.credited_nanos, round(s.credited_nanos * p_amount_nanos / s.captured_nanos)), 0)::bigint
$$;

-- The provider's newest list of refunds and disputes: our own refunds take their state from it, then the wallet follows.
create function note_claims(s payment_sessions, p_report jsonb, p_reading integer) returns payment_sessions language plpgsql as $$
declare
  v_cause text;
  -- A provider that may not be asked for disputes says nothing new of them.
  v_disputes jsonb := coalesce(nullif(p_report -> 'disputes', 'null'), s.disputes);
begin
  -- What is new or changed in the list names the cause.
  select c.id into v_cause from (
    select coalesce(r ->> 'payment_refund_id', r ->> 'provider_refund_id') as id, r as claim from jsonb_array_elements(p_report -> 'refunds') as r
    union all
    select d ->> 'id', d from jsonb_array_elements(v_disputes) as d
  ) as c where not s.refunds || s.disputes @> jsonb_build_array(c.claim) order by c.id limit 1;
  update payment_sessions q set refunds = p_report -> 'refunds', disputes = v_disputes, reading = p_reading,
    provider_called_at = null
  where q.id = s.id returning * into s;
  -- A refund that succeeded can only fail; an older list does not make it pending again.
  update payment_refunds o set status = r ->> 'status', provider_refund_id = coalesce(o.provider_refund_id, r ->> 'provider_refund_id'),
    updated_at = clock_timestamp(), next_check_at = null,
    error_code = case r ->> 'status' when 'failed' then 'provider_error' end,
    error_message = case r ->> 'status' when 'failed' then 'The provider could not carry out the refund.' end
  from jsonb_array_elements(p_report -> 'refunds') as r
  where o.id = r ->> 'payment_refund_id' and o.payment_session_id = s.id and r ->> 'status' <> 'pending'
    and (o.status = 'pending' or o.status = 'succeeded' and r ->> 'status' = 'failed');
  update payment_refunds o set provider_refund_id = r ->> 'provider_refund_id'
  from jsonb_array_elements(p_report -> 'refunds') as r
  where o.id = r ->> 'payment_refund_id' and o.payment_session_id = s.id and o.provider_refund_id is null;
  return bring_debit(s, v_cause);
end $$;

-- Asks for a refund of all that can still go back. Answers the one that is under way or done where there is one. Its
-- workflow takes the money from the wallet, then calls the provider.
create function request_refund(p_id text, p_reason text, p_by text, p_allow_negative boolean)
returns table (code text, refund_id text) language plpgsql as $$
declare
  s payment_sessions;
  v_left numeric;
begin
  s := lock_payment(p_id);
  -- What our own refunds have not taken, nor anything that the provider knows beside them.
  v_left := s.captured_nanos - (
    select coalesce(sum(claim_amount(s, c)), 0) from jsonb_array_elements(s.refunds || s.disputes) as c
    where c ->> 'status' in ('pending', 'succeeded', 'open', 'lost')
      and not exists (select 1 from payment_refunds o where o.id = c ->> 'payment_refund_id')
  ) - (select coalesce(sum(r.amount_nanos), 0) from payment_refunds r
    where r.payment_session_id = p_id and r.status in ('pending', 'succeeded'));
  select r.id into refund_id from payment_refunds r where r.payment_session_id = p_id and r.status in ('pending', 'succeeded');
  if refund_id is not null then
    code := case when v_left > 0 then 'refunded_in_part' end;
    return next;
    return;
  end if;
  code := case
    when s.status in ('completed', 'captured') or s.status = 'failed' and s.error_code = 'amount_mismatch' and s.resolution is null then
      case when v_left <= 0 then 'nothing_to_refund' end
    when s.status = 'refunded' then 'nothing_to_refund'
    else 'payment_not_refundable' end;
  if code is null then
    insert into payment_refunds (org_id, payment_session_id, amount_nanos, currency, reason, requested_by, allow_negative)
    values (s.org_id, s.id, v_left, s.captured_currency, p_reason, p_by, p_allow_negative) returning id into refund_id;
    insert into outbox (org_id, workflow, workflow_id, input, next_at)
    values (s.org_id, 'paymentRefund', refund_id, jsonb_build_object('payment_refund_id', refund_id),
      clock_timestamp() + interval '5 seconds');
  end if;
  return next;
end $$;

-- Takes a refund from the wallet before the provider is asked. Where the credit was spent it fails instead, unless the wallet
-- may go below zero.
create function debit_refund(p_refund_id text) returns void language plpgsql as $$
declare
  s payment_sessions;
  r payment_refunds;
  v_spent bigint;
begin
  select * into r from payment_refunds q where q.id = p_refund_id;
  s := lock_payment(r.payment_session_id);
  select * into r from payment_refunds q where q.id = p_refund_id;
  if r.status <> 'pending' or r.debited_at is not null then
    return;
  end if;
  select least(share_of_credit(s, r.amount_nanos), s.credited_nanos - s.debited_nanos) - greatest(w.balance_nanos, 0)
  into v_spent from wallets w where w.id = s.wallet_id;
  if v_spent > 0 and not r.allow_negative then
    update payment_refunds q set status = 'failed', error_code = 'credit_spent', spent_nanos = v_spent,
      updated_at = clock_timestamp(), next_check_at = null where q.id = r.id;
  else
    update payment_refunds q set debited_at = clock_timestamp() where q.id = r.id;
    perform bring_debit(s, r.id);
  end if;
end $$;

-- What the provider answered to our refund. A definite no gives the money back to the wallet.
create function record_refund(p_refund_id text, p_status text, p_provider_refund_id text, p_message text) returns payment_refunds
language plpgsql as $$
declare
  s payment_sessions;
  r payment_refunds;
begin
  select * into r from payment_refunds q where q.id = p_refund_id;
  s := lock_payment(r.payment_session_id);
  update payment_refunds q set status = p_status, provider_refund_id = coalesce(p_provider_refund_id, q.provider_refund_id),
    updated_at = clock_timestamp(),
    error_code = case p_status when 'failed' then 'provider_error' end, error_message = p_message,
    checks = q.checks + 1, next_check_at = case p_status when 'pending' then clock_timestamp() + payment_pause('pending', q.checks) end
  where q.id = p_refund_id and q.status in ('pending', p_status) returning * into r;
  if r.id is null then
    select * into r from payment_refunds q where q.id = p_refund_id;
    return r;
  end if;
  if p_status = 'failed' then
    -- The list that we have may be older than this no.
    update payment_sessions q set refunds = (select coalesce(jsonb_agg(c), '[]') from jsonb_array_elements(q.refunds) as c
      where c ->> 'payment_refund_id' is distinct from p_refund_id) where q.id = s.id returning * into s;
  end if;
  perform bring_debit(s, p_refund_id);
  return r;
end $$;

-- An operator's decision about captured money of another amount or currency: credit it after all, or leave it as it is.
create function resolve_payment(p_id text, p_resolution text, p_amount_nanos bigint, p_by text, p_note text)
returns table (code text) language plpgsql as $$
declare
  s payment_sessions;
begin
  s := lock_payment(p_id);
  code := case
    when s.resolution = p_resolution then 'repeated'
    when s.status <> 'failed' or s.error_code <> 'amount_mismatch' or s.resolution is not null then 'nothing_to_resolve'
    when exists (select 1 from payment_refunds r where r.payment_session_id = p_id and r.status in ('pending', 'succeeded'))
      then 'refund_under_way'
    when p_resolution = 'credited' and p_amount_nanos is null and s.captured_currency <> s.currency then 'amount_needed'
    when p_amount_nanos > s.captured_nanos and s.captured_currency = s.currency then 'amount_not_captured'
    end;
  if code is null then
    update payment_sessions q set resolution = p_resolution, resolved_by = p_by, resolution_note = p_note,
      updated_at = clock_timestamp() where q.id = p_id;
    if p_resolution = 'credited' then
      perform move_payment(p_id, 'captured');
      perform credit_payment(p_id, p_amount_nanos);
    end if;
  end if;
  return next;
end $$;

-- The third proof: what audit_2() says, and that payments and the ledger tell one story.
create function audit_3() returns table (check_name text, wallet_id text, detail text) language sql stable as $$
  with posted as (
    select e.payment_session_id, sum(e.amount_nanos) filter (where e.cause_id is null) as credited_nanos,
      -coalesce(sum(e.amount_nanos) filter (where e.cause_id is not null), 0) as debited_nanos,
      bool_and(t.id is not null and t.amount_nanos = e.amount_nanos and t.payment_session_id = e.payment_session_id) as is_in_ledger,
      bool_and(t.wallet_id = s.wallet_id) as is_same_wallet
    from payment_entries e left join wallet_transactions t on t.id = e.transaction_id
    join payment_sessions s on s.id = e.payment_session_id
    group by e.payment_session_id
  )
  select * from audit_2()
  union all
  select 'payment_is_credited_once', s.wallet_id, s.id || ' ' || s.status || ': credited ' || s.credited_nanos || ', debited '
    || s.debited_nanos || '; entries say ' || coalesce(p.credited_nanos, 0) || ' and ' || coalesce(p.debited_nanos, 0)
  from payment_sessions s left join posted p on p.payment_session_id = s.id
  where s.credited_nanos <> coalesce(p.credited_nanos, 0) or s.debited_nanos <> coalesce(p.debited_nanos, 0)
    or (s.status in ('completed', 'refunded')) <> (p.credited_nanos is not null)
    or s.debited_nanos not between 0 and s.credited_nanos
    or not coalesce(p.is_in_ledger and p.is_same_wallet, true)
  union all
  select 'payment_entry_has_payment', t.wallet_id, t.id || ' of ' || coalesce(t.payment_session_id, 'no session')
  from wallet_transactions t left join payment_entries e on e.transaction_id = t.id
  where t.type in ('payment_credit', 'payment_refund') and e.transaction_id is null
  union all
  select 'credited_payment_was_captured', s.wallet_id, s.id || ' credited ' || s.credited_nanos || ' ' || s.currency
    || ', captured ' || coalesce(s.captured_nanos, 0) || ' ' || coalesce(s.captured_currency, '')
  from payment_sessions s
  where s.credited_nanos <> 0 and s.resolution is null
    and (s.credited_nanos, s.currency) is distinct from (s.captured_nanos, s.captured_currency)
$$;
