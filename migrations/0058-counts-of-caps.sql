-- The count of caps in fewer steps: it runs within each reserve and settle of a call that has an agent.

-- What an agent's constraint counts of a reservation, likewise: a null row if it counts nothing. One that is open counts under
-- any of the models that it may run on.
create function covers_hold(c usage_constraints, r reservations) returns boolean language sql immutable as $$
  select constraint_covers(c, r.provider, r.model) or (r.fallbacks is not null and exists (
    select 1 from jsonb_array_elements(r.fallbacks) as f where constraint_covers(c, f ->> 'provider', f ->> 'model')))
$$;
