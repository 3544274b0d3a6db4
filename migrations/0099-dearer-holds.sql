-- What a usage costs at most. If the provider chooses the tier, it is the dearest one that is
-- priced; one that is asked for may not be the one that serves, so it is the dearer of it and the
-- ordinary one.
create or replace function dearest_cost(p model_prices, u usage_counts)
returns numeric language plpgsql immutable as $$
declare
  v_nanos numeric := usage_cost(p, u);
  v_tier text;
begin
  if p.service_tiers is null or u.service_tier is null then
    return v_nanos;
  end if;
  if u.service_tier in ('auto', 'default') then
    for v_tier in select jsonb_object_keys(p.service_tiers) loop
      u.service_tier := v_tier;
      v_nanos := greatest(v_nanos, usage_cost(p, u));
    end loop;
    return v_nanos;
  end if;
  u.service_tier := null;
  return greatest(v_nanos, usage_cost(p, u));
end $$;
