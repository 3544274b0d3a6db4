-- What a destination is reached by, in one value: its address, its secret, and who has confirmed. A try may last ten seconds, and what it was sent to may be
-- another by then: what comes of it says nothing about what the destination is now.
create function notice_target(d notice_destinations) returns text language sql stable as $$
  select md5(jsonb_build_array(d.url, d.host, d.credentials, (select jsonb_agg(r.address order by r.id) from notice_recipients r
    where r.destination_id = d.id and r.confirmed_at is not null))::text)
$$;

-- Says how a try went. `p_outcome`: delivered; refused, which is about this message; or failed, which is about the destination, so that all its messages wait.
-- `p_sent_to` is what `notice_target` said as the message was sent, null if nobody knows: if the destination has another by now, what is said is of this message alone,
-- which goes to the new one as soon as it is due.
-- `p_pause_ms` is the first pause; each further one is twice as long, up to 15 minutes. Messages that were taken together are one failure. One that is delivered may
-- have an error too: a recipient who was not told.
create function note_sent_2(p_message_id text, p_outcome text, p_status integer, p_error text, p_pause_ms integer, p_sent_to text)
returns void language plpgsql as $$
declare
  m notice_messages;
  v_failures integer;
  v_is_other boolean;
begin
  select * into m from notice_messages q where q.id = p_message_id;
  perform pg_advisory_xact_lock(hashtext('notices'), hashtext(m.destination_id));
  select notice_target(d) <> p_sent_to into v_is_other from notice_destinations d where d.id = m.destination_id;
  if p_outcome = 'delivered' then
    update notice_messages q set status = 'delivered', delivered_at = clock_timestamp(), last_status = p_status, last_error = p_error
    where q.id = m.id;
    if v_is_other then return; end if;
    -- It answers again: what waited for that goes now.
    update notice_queues q set failures = 0 where q.destination_id = m.destination_id and q.failures > 0;
    if found then
      update notice_messages q set next_at = clock_timestamp()
      where q.destination_id = m.destination_id and q.status = 'waiting' and q.id <> m.id;
    end if;
    return;
  end if;
  if v_is_other then
    -- When it is due stands already: who changed the address has asked again, and it may be under way.
    update notice_messages q set last_status = p_status, last_error = p_error where q.id = m.id and q.status = 'waiting';
    return;
  end if;
  if p_outcome = 'failed' then
    update notice_queues q set failed_at = clock_timestamp(),
      failures = q.failures + case when q.failures > 0 and q.failed_at >= m.attempted_at then 0 else 1 end
    where q.destination_id = m.destination_id
    returning q.failures into v_failures;
  end if;
  update notice_messages q set last_status = case when q.id = m.id then p_status else q.last_status end,
    last_error = case when q.id = m.id then p_error else q.last_error end,
    next_at = greatest(case when q.id = m.id then clock_timestamp() else q.next_at end, clock_timestamp()
      + least(900000, p_pause_ms * power(2, least(coalesce(v_failures, m.attempts), 20) - 1)) * interval '1 millisecond')
  where q.destination_id = m.destination_id and q.status = 'waiting' and (q.id = m.id or v_failures is not null);
end $$;
