-- Nobody is told of a call that a rule approves at once, spend has the days of statements and budgets, and notices that come in
-- crowds are one message.

-- Answers a reserve that has a ticket: with its hold, if a rule approves it, else as it is. Of several with one body the ticket is
-- of the last; a ticket that is not this request's own any more is not approved for it, and the request is judged again. Whoever has
-- not been told yet that the ticket waits is told nothing: nobody has to do anything.
create or replace function ruled_reserve(v_org organizations, p_row lane_row, i reserve_item)
returns lane_row language plpgsql as $$
declare
  t cost_tickets;
  v_row lane_row;
begin
  if (p_row.answer).cost_ticket -> 'unruled' is not null then
    return reserve_beyond_bound(v_org, p_row, i);
  end if;
  select * into t from cost_tickets q where q.id = (p_row.answer).cost_ticket ->> 'id' and q.status = 'open';
  if (t.reserve ->> 'request_id') is distinct from i.request_id then
    select * into v_row from reserve_2(v_org.id, jsonb_build_array(jsonb_strip_nulls(to_jsonb(i))));
  elsif not approve_by_rule(v_org, t) then
    return p_row;
  else
    delete from notices n where n.cost_ticket_id = t.id and n.kind = 'ticket_created' and n.message_id is null;
    select * into t from cost_tickets q where q.id = t.id;
    v_row := claim_approved(t, jsonb_populate_record(null::redeem_item, to_jsonb(i)), null);
    if (v_row.answer).code is not null then
      return p_row;
    end if;
  end if;
  v_row.answer.op := 'reserve';
  v_row.answer.n := (p_row.answer).n;
  return v_row;
end $$;

-- Writes a notice for each destination of the event's organization, or of the platform, that is to be told of it. What a rule
-- decided is told to those alone who were told that the ticket waits.
create or replace function tell_destinations() returns trigger language plpgsql as $$
declare
  v_kind text := notice_kind(new.type, new.payload);
  v_destination_id text;
begin
  for v_destination_id in
    select f.id from (
      select d.id, d.kinds, d.archived_at, d.disabled_at from notice_destinations d where d.org_id = new.org_id
      union all
      select d.id, d.kinds, d.archived_at, d.disabled_at from notice_destinations d where new.org_id = 'platform' and d.org_id is null
    ) as f
    where v_kind = any(f.kinds) and f.archived_at is null and f.disabled_at is null
      and (v_kind <> 'ticket_resolved' or new.payload ->> 'decided_by' is distinct from 'rule'
        or exists (select 1 from notices n where n.cost_ticket_id = new.payload ->> 'cost_ticket_id' and n.destination_id = f.id
          and n.kind = 'ticket_created' and n.message_id is not null))
    order by f.id
  loop
    insert into notices (destination_id, org_id, kind, event_id, cost_ticket_id, payload)
    values (v_destination_id, new.org_id, v_kind, new.id, new.payload ->> 'cost_ticket_id', new.payload);
    perform wake_notices(v_destination_id);
  end loop;
  return null;
end $$;
