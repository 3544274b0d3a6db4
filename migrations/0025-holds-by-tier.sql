-- Holds know the tier of service and the region that a request asks for, and the searches, containers, pages and pictures that it
-- may bring. Bodies without them hold what they held.

alter type reserve_item
  -- As the request says it; `auto` and `default` leave the choice to the provider.
  add attribute service_tier text,
  add attribute region text,
  add attribute web_searches numeric,
  add attribute file_searches numeric,
  add attribute containers numeric,
  add attribute pages numeric,
  -- Of pictures that a tool makes, beyond the completion.
  add attribute image_output_tokens numeric;

-- True if a price knows what a tier costs. Every price knows the names of the ordinary one; absent is ordinary too.
create function knows_tier(p model_prices, p_service_tier text) returns boolean language sql immutable as $$
  select coalesce(p_service_tier in ('auto', 'default', 'standard', 'standard_only', 'on_demand')
    or p.free or p.service_tiers -> p_service_tier is not null, true)
$$;

-- True if a price knows what a region costs, likewise.
create function knows_region(p model_prices, p_region text) returns boolean language sql immutable as $$
  select coalesce(p_region in ('global', 'default', 'not_available') or p.free or p.regions -> p_region is not null, true)
$$;

-- What a usage costs at most. If the provider chooses the tier, it is the dearest one that is priced.
create function dearest_cost(p model_prices, u usage_counts) returns numeric language plpgsql immutable as $$
declare
  v_nanos numeric := usage_cost(p, u);
  v_tier text;
begin
  if p.service_tiers is not null and u.service_tier in ('auto', 'default') then
    for v_tier in select jsonb_object_keys(p.service_tiers) loop
      u.service_tier := v_tier;
      v_nanos := greatest(v_nanos, usage_cost(p, u));
    end loop;
  end if;
  return v_nanos;
end $$;

-- The usage that a reserve holds for at a price. Its pictures stand in the completion, as those of a usage do.
create function expected_usage(i reserve_item, p model_prices, p_default_max_completion integer) returns usage_counts
language plpgsql immutable as $$
declare
  u usage_counts;
begin
  u.prompt_tokens := i.estimated_prompt_tokens;
  u.completion_tokens := coalesce(i.max_completion_tokens, least(p.max_output_tokens, p_default_max_completion))
    + coalesce(i.image_output_tokens, 0);
  u.image_output_tokens := i.image_output_tokens;
  u.characters := i.characters;
  u.seconds := i.seconds;
  u.web_searches := i.web_searches;
  u.file_searches := i.file_searches;
  u.containers := i.containers;
  u.pages := i.pages;
  u.service_tier := i.service_tier;
  u.region := i.region;
  return u;
end $$;

-- Prices a reserve: what it costs at most by today's prices, the dearest of the model and its fallbacks, each price frozen. A tier
-- or region that none of them prices is refused; one that some do not price is charged at their base.
create or replace function quote_reserve(i reserve_item, p_default_max_completion integer) returns quote
language plpgsql stable as $$
declare
  v_quote quote;
  v_candidate record;
  v_price model_prices;
  v_knows_tier boolean := false;
  v_knows_region boolean := false;
begin
  for v_candidate in
    select i.provider as provider, i.model as model, 0 as n
    union all
    select f.value ->> 'provider', f.value ->> 'model', f.n::integer
    from jsonb_array_elements(i.fallbacks) with ordinality as f (value, n)
    order by n
  loop
    v_price := price_for(v_candidate.provider, v_candidate.model);
    if v_price.version_id is null then
      v_quote.code := 'model_not_priced';
      v_quote.param := case v_candidate.n when 0 then 'model' else 'fallbacks' end;
      return v_quote;
    end if;
    v_knows_tier := v_knows_tier or knows_tier(v_price, i.service_tier);
    v_knows_region := v_knows_region or knows_region(v_price, i.region);
    v_quote.usd_nanos := greatest(v_quote.usd_nanos,
      dearest_cost(v_price, expected_usage(i, v_price, p_default_max_completion)));
    if v_candidate.n = 0 then
      v_quote.price_version_id := v_price.version_id;
    else
      v_quote.fallbacks := coalesce(v_quote.fallbacks, '[]') || jsonb_build_object('provider', v_candidate.provider,
        'model', v_candidate.model, 'price_version_id', v_price.version_id);
    end if;
  end loop;
  if not v_knows_tier then
    v_quote.code := 'service_tier_not_priced';
    v_quote.param := 'service_tier';
  elsif not v_knows_region then
    v_quote.code := 'region_not_priced';
    v_quote.param := 'region';
  end if;
  return v_quote;
end $$;
