-- A team's money is for its members. A reserve, redeem or approval that names a person and a team that they are not in is
-- refused, and no other wallet pays in its place.

alter type reserve_fact add attribute is_outsider boolean;

create or replace function reserve_facts(p_org_id text, p_items jsonb, p_now timestamptz) returns setof reserve_fact language sql stable as $$
  select e.n::integer, i::reserve_item, r.earlier, h.balance_after_nanos,
    -- jsonb has one text for one content, whatever the order of its keys.
    encode(sha256(convert_to(jsonb_strip_nulls(e.value - '{request_id,secret_id,wallet_id,cost_ticket_id}'::text[])::text,
      'utf8')), 'hex'),
    e.value ->> 'wallet_id', e.value ->> 'cost_ticket_id',
    case
      when i.user_id is not null and m.user_id is null then 'user_id'
      when i.team_id is not null and t.id is null then 'team_id'
      when i.agent_id is not null and g.id is null then 'agent_id'
      when i.key_id is not null and k.id is null then 'key_id' end,
    k.revoked_at <= p_now or k.expires_at <= p_now or s.expires_at <= p_now or (i.secret_id is not null and s.id is null),
    k.max_budget_nanos - k.spent_nanos - k.held_nanos,
    i.agent_id is not null and exists (select 1 from usage_constraints q where q.agent_id = i.agent_id
      and q.archived_at is null),
    (uw.id, 'user', uw.balance_nanos)::cascade_wallet,
    (tw.id, 'team', tw.balance_nanos)::cascade_wallet,
    (ow.id, 'organization', ow.balance_nanos)::cascade_wallet,
    i.user_id is not null and i.team_id is not null and tm.user_id is null
  from jsonb_array_elements(p_items) with ordinality as e (value, n)
  cross join lateral jsonb_populate_record(null::reserve_item, e.value) as i
  left join lateral (select q as earlier, q.id from reservations q where q.org_id = p_org_id
    and q.request_id = i.request_id limit 1) as r on true
  left join lateral (select * from wallet_transactions q where q.reservation_id = r.id and q.phase = 'hold' limit 1) as h on true
  left join lateral (select * from memberships q where q.org_id = p_org_id and q.user_id = i.user_id limit 1)
    as m on m.archived_at is null
  left join lateral (select * from teams q where q.id = i.team_id limit 1) as t on t.org_id = p_org_id and t.archived_at is null
  left join lateral (select q.user_id from team_members q where q.team_id = i.team_id and q.user_id = i.user_id limit 1)
    as tm on true
  left join lateral (select * from agents q where q.id = i.agent_id limit 1) as g on g.org_id = p_org_id and g.archived_at is null
  left join lateral (select * from tokens q where q.id = i.key_id limit 1) as k on k.org_id = p_org_id
  left join lateral (select * from token_secrets q where q.id = i.secret_id limit 1) as s on s.token_id = k.id
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'user'
    and q.owner_user_id = i.user_id limit 1) as uw on true
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'team'
    and q.owner_team_id = i.team_id limit 1) as tw on true
  left join lateral (select * from wallets q where q.org_id = p_org_id and q.owner_type = 'organization' limit 1) as ow on true
  order by e.n
$$;

-- Says why an item may hold nothing, however much money there is; null if money alone decides. `p_room` is the rest of the
-- key's budget and `p_made` are the holds of this batch so far. Caps on agents are judged afterwards, by judge_caps.
create or replace function reserve_refusal(p_org organizations, f reserve_fact, q quote, p_rate numeric, p_held_nanos numeric,
  p_room_nanos bigint, p_made reservations[]) returns text language sql stable as $$
  select case
    when p_org.id is null then 'unknown_org'
    when f.unknown_member is not null then 'not_of_organization'
    when f.key_invalid then 'invalid_credential'
    when f.is_outsider then 'not_team_member'
    when q.code is not null then q.code
    when p_rate is null then 'exchange_rate_missing'
    when p_held_nanos > 9000000000000000000 then 'amount_too_large'
    when ((f.body).session_max_actions is not null or (f.body).session_max_cost_usd is not null)
      and session_is_full(p_org.id, f.body, q.usd_nanos, p_made) then 'session_limit_exceeded'
    when p_held_nanos > p_room_nanos then 'key_budget_exceeded' end
$$;

-- Answers an item that is refused, and names the member of its body that is at fault. `p_resets_at` ends the window of the cap
-- that refused it.
create or replace function refused_reserve(f reserve_fact, q quote, p_code text, p_resets_at timestamptz) returns lane_row
language sql immutable as $$
  select (('reserve', f.n, p_code,
    case p_code
      when 'unknown_org' then 'org_id'
      when 'not_of_organization' then f.unknown_member
      when 'not_team_member' then 'team_id'
      when 'amount_too_large' then 'estimated_prompt_tokens'
      else q.param end,
    null, null, null, null, null, null, null, null, null, null, null, null, null)::lane_answer,
    null, null, p_resets_at)::lane_row
$$;

-- Says why a person may not have what a ticket was approved for; null if they may, or if it names none: they have left the
-- organization, or the ticket's team.
create function leaver_refusal(t cost_tickets) returns text language sql stable as $$
  select case
    when t.user_id is null then null
    when not exists (select 1 from memberships q where q.org_id = t.org_id and q.user_id = t.user_id and q.archived_at is null)
      then 'not_of_organization'
    when t.team_id is not null and not exists (select 1 from team_members q where q.team_id = t.team_id and q.user_id = t.user_id)
      then 'not_team_member' end
$$;

-- Gives an approved ticket's hold to the call that redeems it; from now on it lives as long as any other hold.
create or replace function claim_approved(t cost_tickets, i redeem_item, a lane_answer) returns lane_row language plpgsql as $$
declare
  v_row lane_row;
  r reservations;
begin
  select * into r from reservations q where q.id = t.reservation_id and q.status = 'open' and q.expires_at > clock_timestamp();
  a.code := case
    when r.id is null then 'ticket_expired'
    when exists (select 1 from tokens k left join token_secrets s on s.id = i.secret_id and s.token_id = k.id
      where k.id = t.key_id and (k.revoked_at <= clock_timestamp() or k.expires_at <= clock_timestamp()
        or s.expires_at <= clock_timestamp() or (i.secret_id is not null and s.id is null))) then 'invalid_credential'
    else leaver_refusal(t) end;
  if a.code is not null then
    a.param := case a.code when 'not_of_organization' then 'user_id' when 'not_team_member' then 'team_id' end;
    v_row.answer := a;
    return v_row;
  end if;
  update reservations q set request_id = i.request_id, expires_at = clock_timestamp() + q.life_seconds * interval '1 second'
  where q.id = r.id returning * into r;
  perform wake_lifetimes(t.org_id, r.expires_at);
  update cost_tickets q set request_id = i.request_id where q.id = t.id;
  perform resolve_ticket(t.id, 'redeemed', false);
  perform move_waiters(t);
  v_row.answer := repeated_hold(a, r, r.body_sha256, (select w.balance_nanos from wallets w where w.id = r.wallet_id));
  v_row.max_completion_tokens := r.max_completion_tokens;
  return v_row;
end $$;

-- True if a ticket's request may hold nothing any more: its key has ended, or its person has left. Each waiting call is looked at
-- in each turn, so the looks are written out.
create or replace function key_has_ended(t cost_tickets) returns boolean language sql stable as $$
  select (t.key_id is not null and exists (select 1 from tokens k where k.id = t.key_id
    and (k.revoked_at is not null or k.expires_at <= clock_timestamp())))
    or (t.user_id is not null and not exists (select 1 from memberships q where q.org_id = t.org_id and q.user_id = t.user_id
      and q.archived_at is null))
    or (t.user_id is not null and t.team_id is not null and not exists (select 1 from team_members q where q.team_id = t.team_id
      and q.user_id = t.user_id))
$$;

create function notify_waiters_of_team() returns trigger language plpgsql as $$
begin
  perform notify_waiters(t.org_id) from teams t where t.id = old.team_id;
  return null;
end $$;

-- A waiting call whose person leaves its team is told at once, and blocks nobody.
create trigger team_members_leave after delete on team_members
for each row execute function notify_waiters_of_team();

-- So is one whose person leaves the organization.
create trigger memberships_end after update of archived_at on memberships
for each row when (new.archived_at is not null and old.archived_at is null) execute function notify_waiters_of_row();
