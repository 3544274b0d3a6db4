-- Searches of events read what they find: by a client's label, and past the two kinds that nearly all events are.

create index events_label on events (org_id, trace_label, id) where trace_label is not null;

-- Whoever looks for anything else walks these alone. The condition stands in the reader's query, word for word.
create index events_notable on events (org_id, id) where type <> 'request.completed' and type <> 'rate_limit.checked';
