-- The proof, of the audit log too: each chain is whole, from its first row to where it ends.

-- The first row of each chain that is not as it was written, or that is missing.
create function audit_log_faults() returns table (chain text, seq bigint, detail text) language sql stable as $$
  with links as (
    select l.chain, l.seq, l.event_id, l.prev_hash, l.hash, lag(l.seq, 1, 0::bigint) over w as previous_seq,
      lag(l.hash, 1, '') over w as previous_hash
    from audit_links l window w as (partition by l.chain order by l.seq)
  ), faults as (
    select l.chain, l.seq, case
        when l.seq <> l.previous_seq + 1 then 'row ' || l.previous_seq + 1 || ' is missing'
        when e.id is null then 'row ' || l.seq || ': its event ' || l.event_id || ' is missing'
        when l.prev_hash <> l.previous_hash then 'row ' || l.seq || ' does not follow the row before it'
        when l.hash <> audit_hash(e, l.chain, l.seq, l.prev_hash) or l.chain <> coalesce(e.org_id, 'platform')
          then 'row ' || l.seq || ': ' || l.event_id || ' is not as it was written' end as detail
    from links l left join audit_events e on e.id = l.event_id
    union all
    select coalesce(h.chain, l.chain), greatest(h.seq, l.seq) + 1, case
        when h.chain is null then 'nothing says where it ends'
        when coalesce(l.seq, 0) < h.seq then 'row ' || coalesce(l.seq, 0) + 1 || ' is missing: the chain ends at ' || h.seq
        else 'it ends at ' || h.seq || ', and rows go on to ' || l.seq end
    from audit_heads h
    full join (select distinct on (q.chain) q.chain, q.seq, q.hash from audit_links q order by q.chain, q.seq desc) as l
      on l.chain = h.chain
    where h.seq is distinct from l.seq or h.hash is distinct from l.hash
    union all
    select coalesce(e.org_id, 'platform'), null, e.id || ' stands in no chain'
    from audit_events e where not exists (select 1 from audit_links l where l.event_id = e.id)
  )
  select distinct on (f.chain) f.chain, f.seq, f.detail from faults f where f.detail is not null order by f.chain, f.seq, f.detail
$$;

create function audit_7() returns table (check_name text, wallet_id text, detail text) language sql stable as $$
  select * from audit_6()
  union all
  select 'audit_log_is_whole', null, f.chain || ': ' || f.detail from audit_log_faults() f
$$;
