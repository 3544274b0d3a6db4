-- Searches of events read what they find: by a client's label, and past the two kinds that nearly all events are.

create index events_label on events (org_id, trace_label, id) where trace_label is not null;

-- Whoever looks for anything else walks these alone. The condition stands in the reader's query, word for word.
create index events_notable on events (org_id, id) where type <> 'request.completed' and type <> 'rate_limit.checked';

-- One row of a look for events. A last row that is not wanted says how far a look came that has read as much as it may.
create type scanned_event as (event events, is_wanted boolean);

-- The events of some kinds that became visible between two places, in that order: of `p_scan` rows at most `p_limit`. Readers of
-- a table that nobody has analysed yet would sort all of it, so plans that sort are off; rows are read as they are needed.
create function events_after(p_org_id text, p_transaction_id xid8, p_id text, p_until xid8, p_until_id text, p_since timestamptz,
  p_types text[], p_scan integer, p_limit integer) returns setof scanned_event language plpgsql stable
set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off as $$
declare
  e events;
  v_scanned integer := 0;
  v_wanted integer := 0;
begin
  for e in
    select * from events q
    where q.org_id = p_org_id and (q.transaction_id, q.id) > (p_transaction_id, p_id)
      and (q.transaction_id, q.id) <= (p_until, p_until_id) and q.created_at >= p_since
    order by q.transaction_id, q.id limit p_scan
  loop
    v_scanned := v_scanned + 1;
    if e.type = any(p_types) then
      v_wanted := v_wanted + 1;
      return next (e, true)::scanned_event;
      exit when v_wanted = p_limit;
    end if;
  end loop;
  if v_scanned = p_scan and v_wanted < p_limit then
    return next (e, false)::scanned_event;
  end if;
end $$;

-- The events before a cursor, newest first: of `p_scan` rows those that are wanted, `p_limit` at most. Each way has an index in
-- its order. `p_request_id` is the call's id or its client's label.
create function events_before(p_org_id text, p_cursor text, p_since timestamptz, p_until timestamptz, p_types text[],
  p_action text, p_agent_id text, p_request_id text, p_scan integer, p_limit integer) returns setof scanned_event
language plpgsql stable
set enable_sort = off set enable_bitmapscan = off set enable_seqscan = off as $$
declare
  v_within constant text := 'q.org_id = $1 and q.id < $2 and q.created_at >= $3 and q.created_at < $4
    and q.transaction_id < pg_snapshot_xmin(pg_current_snapshot())';
  v_in_order constant text := ' order by q.id desc limit $6';
  v_source text;
  e events;
  v_scanned integer := 0;
  v_wanted integer := 0;
begin
  v_source := case
    when p_request_id is not null then
      -- A call has few events; read by themselves, as any other index looks cheaper to a planner that has no statistics.
      'with of_call as materialized (select * from events where request_id = $5)
      select * from (select * from of_call as q where ' || v_within || ' union all (select q.* from events q where ' || v_within
      || ' and q.trace_label = $5 and q.request_id is distinct from $5' || v_in_order || ')) as q' || v_in_order
    when p_types && array['request.completed', 'rate_limit.checked'] then
      'select * from events q where $5 is null and ' || v_within || v_in_order
    else 'select * from events q where q.type <> ''request.completed'' and q.type <> ''rate_limit.checked'' and $5 is null and '
      || v_within || v_in_order
  end;
  -- Above every id.
  for e in execute v_source using p_org_id, coalesce(p_cursor, 'evu'), coalesce(p_since, '-infinity'),
    coalesce(p_until, 'infinity'), p_request_id, p_scan
  loop
    v_scanned := v_scanned + 1;
    if e.type = any(p_types) and (p_action is null or e.action = p_action) and (p_agent_id is null or e.agent_id = p_agent_id) then
      v_wanted := v_wanted + 1;
      return next (e, true)::scanned_event;
      exit when v_wanted = p_limit;
    end if;
  end loop;
  if v_scanned = p_scan and v_wanted < p_limit then
    return next (e, false)::scanned_event;
  end if;
end $$;
