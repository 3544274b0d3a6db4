-- Who looks at a payment's provider, and when. The clock's looks are the clock's: those of people and webhooks do not use them up.
-- A look without an answer is owed, and made again until there is one. People who ask at one time share one look.

alter table payment_sessions
  -- What people asked for: the number of the newest question, when it was asked, and up to which of them there is an answer.
  add column asked integer not null default 0,
  add column asked_at timestamptz,
  add column answered integer not null default 0,
  -- When the provider is asked again because it gave no answer, and how often in a row it gave none.
  add column ask_again_at timestamptz,
  add column unanswered integer not null default 0,
  -- Since when the provider says that it does not know the order; null once it answers otherwise.
  add column gone_since timestamptz,
  -- The key of a capture that the provider says is under way: it is asked again under the same one.
  add column capture_key text;
create index payment_sessions_again on payment_sessions (ask_again_at) where ask_again_at is not null;

-- When a payment that nobody tells of is asked for: after 1 minute, 5 minutes, 1 hour, then daily for a week; one that is being
-- taken, and a refund that is pending, weekly after that. One that is credited, for refunds and disputes of which no webhook
-- came: after a day, a week and a month.
create or replace function payment_pause(p_status text, p_checks integer) returns interval language sql immutable as $$
  select case
    when p_status in ('completed', 'refunded') then case p_checks when 0 then interval '1 day' when 1 then interval '7 days'
      when 2 then interval '30 days' end
    when p_checks = 0 then interval '1 minute'
    when p_checks = 1 then interval '5 minutes'
    when p_checks = 2 then interval '1 hour'
    when p_checks < 10 then interval '1 day'
    when p_status in ('capturing', 'pending') then interval '7 days' end
$$;

-- The one guarded update of a session's state. The looks after the credit are counted from the credit, whatever goes back.
create or replace function move_payment(p_id text, p_to text) returns payment_sessions language plpgsql as $$
declare
  s payment_sessions;
begin
  update payment_sessions q set status = p_to, updated_at = clock_timestamp(),
    error_code = case p_to when 'capturing' then null else q.error_code end,
    error_message = case p_to when 'capturing' then null else q.error_message end,
    attempt = q.attempt + (q.status = 'capturing' and p_to = 'created')::int,
    checks = case when q.status in ('completed', 'refunded') then q.checks else 0 end,
    -- What ended before it had an order can be paid by nobody.
    next_check_at = case when q.status in ('completed', 'refunded') then q.next_check_at
      when p_to in ('completed', 'refunded') then clock_timestamp() + payment_pause(p_to, 0)
      when p_to in ('canceled', 'expired', 'failed') and q.provider_order_id is null then null
      when p_to in ('captured', 'confirming', 'confirmed') then clock_timestamp()
      else clock_timestamp() + payment_pause(p_to, 0) end,
    ask_again_at = case when p_to in ('canceled', 'expired', 'failed') and q.provider_order_id is null then null
      else q.ask_again_at end
  where q.id = p_id and p_to = any (payment_moves(q.status))
  returning * into s;
  if s.id is null then
    raise exception using errcode = 'SV002', message = 'payment session ' || p_id || ' may not become ' || p_to;
  end if;
  return s;
end $$;

-- What is to be done next for a session, and how long that can wait. The row decides; whoever asks does it. Past the deadline a
-- provider that does not answer is asked at its next check.
create or replace function payment_step(s payment_sessions) returns table (next text, wait_ms double precision) language sql stable as $$
  select case
      when s.status in ('captured', 'confirming', 'confirmed') then 'credit'
      when s.status = 'created' and s.provider_order_id is null then 'open'
      when s.status in ('created', 'capturing') then 'wait'
      else 'end' end,
    (select greatest(0, extract(epoch from d.due_at - clock_timestamp()) * 1000) from (select least(s.next_check_at, s.ask_again_at,
      case when s.status = 'created' and not (s.expires_at <= clock_timestamp()
        and s.error_code is not distinct from 'provider_unavailable') then s.expires_at end) as due_at) as d
     where d.due_at is not null)
$$;

-- The number of the question that somebody may ask the provider now: that of the one under way, or a new one where the newest is
-- answered and at least `p_pause` old. Null where it is too soon. A question that nobody answered for 30 seconds counts no more.
create function ask_payment(p_id text, p_pause interval) returns integer language plpgsql as $$
declare
  v_asked integer;
begin
  update payment_sessions q set asked = q.asked + 1, asked_at = clock_timestamp()
  where q.id = p_id and (q.answered >= q.asked and (q.asked_at is null or q.asked_at <= clock_timestamp() - p_pause)
    or q.asked_at <= clock_timestamp() - interval '30 seconds')
  returning q.asked into v_asked;
  if v_asked is null then
    select q.asked into v_asked from payment_sessions q where q.id = p_id and q.answered < q.asked;
  end if;
  return v_asked;
end $$;

-- The provider has made the checkout: the first one made is the one that the buyer is shown. Its order is kept also where the
-- session has ended meanwhile, so that it is found if it is paid. Who waited for it is answered; the buyer may ask at once.
create or replace function open_payment(p_id text, p_order_id text, p_approval_url text) returns payment_sessions language sql as $$
  update payment_sessions q set provider_order_id = coalesce(q.provider_order_id, p_order_id),
    approval_url = coalesce(q.approval_url, p_approval_url), provider_called_at = null, updated_at = clock_timestamp(),
    error_code = case q.status when 'created' then null else q.error_code end,
    error_message = case q.status when 'created' then null else q.error_message end,
    checks = 0, next_check_at = clock_timestamp() + payment_pause(q.status, 0),
    asked_at = null, answered = q.asked, ask_again_at = null, unanswered = 0
  where q.id = p_id
  returning *
$$;

-- The provider gave no answer that says how things stand: it is asked again after 1 minute, 5 minutes, 1 hour, then daily, after
-- the end too, however often people and webhooks find none before. The clock's own looks stay what they are. Where it has not
-- known the order for a day, the payment failed; money that comes all the same is credited. `p_asked`: up to which question
-- people are told so.
create function payment_unanswered(p_id text, p_message text, p_is_gone boolean, p_asked integer) returns payment_sessions
language plpgsql as $$
declare
  s payment_sessions;
begin
  update payment_sessions q set provider_called_at = null, provider_message = p_message, answered = greatest(q.answered, p_asked),
    unanswered = q.unanswered + (q.ask_again_at is null or q.ask_again_at <= clock_timestamp())::int,
    ask_again_at = case when q.ask_again_at > clock_timestamp() then q.ask_again_at
      else clock_timestamp() + payment_pause(case q.status when 'capturing' then q.status else 'created' end, q.unanswered) end,
    checks = q.checks + coalesce(q.next_check_at <= clock_timestamp(), false)::int,
    next_check_at = case when q.next_check_at <= clock_timestamp() then clock_timestamp() + payment_pause(q.status, q.checks + 1)
      else q.next_check_at end,
    gone_since = case when p_is_gone then coalesce(q.gone_since, clock_timestamp()) else q.gone_since end,
    error_code = case when q.status in ('created', 'capturing') then 'provider_unavailable' else q.error_code end,
    error_message = case when q.status in ('created', 'capturing')
      then 'The payment provider did not say how this payment stands. It is asked again by itself.' else q.error_message end
  where q.id = p_id returning * into s;
  if p_is_gone and s.status = 'capturing' and s.gone_since <= clock_timestamp() - interval '24 hours' then
    s := close_payment(p_id, 'failed', 'provider_error',
      'The payment provider does not know this payment any more. If it was paid after all, it is credited.');
  end if;
  return s;
end $$;

-- The provider has the money. Another amount or currency than asked for is never credited by itself, whatever was decided before.
create or replace function take_payment(s payment_sessions, p_report jsonb) returns payment_sessions language plpgsql as $$
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
    is_late = v_before in ('canceled', 'expired', 'failed'), error_code = null, error_message = null, provider_message = null,
    capture_key = null, resolution = null, resolved_by = null, resolution_note = null
  where q.id = s.id returning * into s;
  if s.captured_nanos <> s.amount_nanos or s.captured_currency <> s.currency then
    s := fail_payment(s.id, 'amount_mismatch', 'Asked for ' || trim_scale(s.amount_nanos / 1e9::numeric) || ' ' || s.currency
      || ', the provider took ' || trim_scale(s.captured_nanos / 1e9::numeric) || ' ' || s.captured_currency
      || '. Nothing was credited; a platform admin decides.');
  end if;
  return s;
end $$;

-- What a provider reports, however it was learned: the one place where a payment becomes captured. Safe to run any number of
-- times at once. `p_reading` is `provider_calls` as it was when the question was asked. `p_is_asked`: the money was asked for,
-- so a payment that is still open was not approved. `asked` of the report: up to which question of people it is the answer.
create or replace function record_payment(p_id text, p_report jsonb, p_reading integer, p_is_asked boolean) returns payment_sessions
language plpgsql as $$
declare
  s payment_sessions;
  v_status text := p_report ->> 'status';
  v_before text;
  v_is_due boolean;
begin
  s := lock_payment(p_id);
  v_before := s.status;
  v_is_due := s.next_check_at <= clock_timestamp();
  update payment_sessions q set provider_called_at = null, answered = greatest(q.answered, (p_report ->> 'asked')::integer)
  where q.id = p_id returning * into s;
  if p_reading >= s.provider_calls then
    -- Nothing was asked after it: this is the answer that was owed.
    update payment_sessions q set ask_again_at = null, unanswered = 0,
      gone_since = case when v_status = 'gone' then q.gone_since end where q.id = p_id returning * into s;
  end if;
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
  -- Only the look that the clock was to make is one of the clock's.
  if s.status = v_before and v_is_due then
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
