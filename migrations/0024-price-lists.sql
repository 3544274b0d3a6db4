-- Prices say all that the three wires bill: pictures, video, tools by kind, pages, a least charge; and tiers, tiers of service and
-- regions are whole price lists. The functions keep their names: prices and usage without the new members cost what they did,
-- but that a tier no longer leaves cached, written and audio tokens at the base.

alter table model_prices
  add column image_input_per_1m numeric,
  add column image_output_per_1m numeric,
  add column video_input_per_1m numeric,
  add column video_output_per_1m numeric,
  add column per_web_search numeric,
  add column per_file_search numeric,
  add column per_container numeric,
  add column per_page numeric,
  -- The least charge of a request that is charged at all.
  add column minimum numeric,
  -- The least length of sound that is billed.
  add column minimum_seconds numeric,
  -- {name: price list}; a list has amounts and may have tiers of its own, a number is a factor.
  add column service_tiers jsonb,
  -- {name: price list}, likewise.
  add column regions jsonb;

-- What stands beside the eleven counts of before is absent from what an older gateway reports.
alter type usage_counts
  add attribute image_input_tokens numeric,
  add attribute image_output_tokens numeric,
  add attribute video_input_tokens numeric,
  add attribute video_output_tokens numeric,
  add attribute web_searches numeric,
  add attribute file_searches numeric,
  add attribute containers numeric,
  add attribute pages numeric,
  add attribute service_tier text,
  add attribute region text;

-- True if a usage counts anything; its names of a tier and a region are no counts.
create function has_use(p_usage jsonb) returns boolean language sql immutable as $$
  select exists (select 1 from jsonb_each(p_usage) as u
    where case jsonb_typeof(u.value) when 'number' then u.value::numeric > 0 end)
$$;

create or replace function counted_use(c usage_constraints, r reservations) returns usage_count language sql immutable as $$
  select case
    when r.id is null or r.created_at < c.counted_from then (0, 0)::usage_count
    when r.status = 'open' and (constraint_covers(c, r.provider, r.model) or exists (
        select 1 from jsonb_array_elements(r.fallbacks) as f where constraint_covers(c, f ->> 'provider', f ->> 'model')))
      then (r.held_nanos, 1)::usage_count
    when r.status in ('settled', 'late')
        and constraint_covers(c, coalesce(r.settled_provider, r.provider), coalesce(r.settled_model, r.model))
        and (r.actual_cost_nanos > 0 or has_use(r.usage))
      then (r.actual_cost_nanos, 1)::usage_count
    else (0, 0)::usage_count end
$$;

-- One amount under a price list: the list's own figure, if it has one, else the amount moved from `p_from` to `p_to`. `p_was` is
-- the figure in the price that the list was written against, so that two lists on one price take effect together.
create function moved_amount(p_amount numeric, p_named numeric, p_was numeric, p_to numeric, p_from numeric) returns numeric
language sql immutable as $$
  select case
    when p_named is null and p_from > 0 then p_amount * p_to / p_from
    when p_named is null then p_amount
    when p_amount <> p_was and p_was > 0 then p_amount * p_named / p_was
    else p_named end
$$;

-- A price under one of its lists, which was written against `p_base`. A factor is for what the model reads and writes: tokens,
-- characters, minutes and pages. Of a list, input kinds that it does not name move as its input does, output kinds as its output.
create function price_under(p model_prices, p_base model_prices, p_list jsonb) returns model_prices
language plpgsql immutable as $$
declare
  v model_prices := p;
  l model_prices;
  -- Input kinds move from `v_in_from` to `v_in`, output kinds likewise.
  v_in numeric := case jsonb_typeof(p_list) when 'number' then p_list::numeric end;
  v_out numeric := v_in;
  v_in_from numeric := 1;
  v_out_from numeric := 1;
begin
  if p_list is null then
    return p;
  end if;
  if v_in is null then
    l := jsonb_populate_record(null::model_prices, p_list);
    v := jsonb_populate_record(p, p_list);
    v_in := coalesce(l.input_per_1m, p_base.input_per_1m);
    v_in_from := p_base.input_per_1m;
    v_out := coalesce(l.output_per_1m, p_base.output_per_1m);
    v_out_from := p_base.output_per_1m;
  else
    v.per_1m_characters := p.per_1m_characters * v_in;
    v.per_minute := p.per_minute * v_in;
    v.per_page := p.per_page * v_in;
  end if;
  v.input_per_1m := moved_amount(p.input_per_1m, l.input_per_1m, p_base.input_per_1m, v_in, v_in_from);
  v.cached_input_per_1m := moved_amount(p.cached_input_per_1m, l.cached_input_per_1m, p_base.cached_input_per_1m, v_in, v_in_from);
  v.cache_write_per_1m := moved_amount(p.cache_write_per_1m, l.cache_write_per_1m, p_base.cache_write_per_1m, v_in, v_in_from);
  v.cache_write_1h_per_1m := moved_amount(p.cache_write_1h_per_1m, l.cache_write_1h_per_1m, p_base.cache_write_1h_per_1m,
    v_in, v_in_from);
  v.audio_input_per_1m := moved_amount(p.audio_input_per_1m, l.audio_input_per_1m, p_base.audio_input_per_1m, v_in, v_in_from);
  v.image_input_per_1m := moved_amount(p.image_input_per_1m, l.image_input_per_1m, p_base.image_input_per_1m, v_in, v_in_from);
  v.video_input_per_1m := moved_amount(p.video_input_per_1m, l.video_input_per_1m, p_base.video_input_per_1m, v_in, v_in_from);
  v.output_per_1m := moved_amount(p.output_per_1m, l.output_per_1m, p_base.output_per_1m, v_out, v_out_from);
  v.audio_output_per_1m := moved_amount(p.audio_output_per_1m, l.audio_output_per_1m, p_base.audio_output_per_1m,
    v_out, v_out_from);
  v.image_output_per_1m := moved_amount(p.image_output_per_1m, l.image_output_per_1m, p_base.image_output_per_1m,
    v_out, v_out_from);
  v.video_output_per_1m := moved_amount(p.video_output_per_1m, l.video_output_per_1m, p_base.video_output_per_1m,
    v_out, v_out_from);
  return v;
end $$;

-- The amounts of a price that are in force for one usage: under the tier of service and the region that the answer named, and
-- under the highest tier that its prompt has passed. A name that the price does not know changes nothing.
create function price_at(p model_prices, u usage_counts) returns model_prices language plpgsql immutable as $$
declare
  v model_prices := p;
  v_base model_prices := p;
  v_list jsonb := p.service_tiers -> u.service_tier;
  v_tiers jsonb := coalesce(v_list -> 'tiers', p.tiers);
begin
  if v_list is not null then
    v := price_under(p, p, v_list);
    if v_list -> 'tiers' is not null then
      v_base := v;
    end if;
  end if;
  if v_tiers is not null then
    select t.value into v_list from jsonb_array_elements(v_tiers) as t
    where (t.value ->> 'above_prompt_tokens')::numeric < u.prompt_tokens
    order by (t.value ->> 'above_prompt_tokens')::numeric desc limit 1;
    if found then
      v := price_under(v, v_base, v_list);
    end if;
  end if;
  if p.regions is not null then
    v := price_under(v, p, p.regions -> u.region);
  end if;
  return v;
end $$;

-- What the lines of billed_figures are for, in their order.
create function billed_names() returns text[] language sql immutable as $$
  select array['input', 'cached_input', 'cache_write', 'cache_write_1h', 'audio_input', 'image_input', 'video_input', 'output',
    'audio_output', 'image_output', 'video_output', 'characters', 'seconds', 'pages', 'request', 'web_search', 'file_search',
    'container', 'tool_call']
$$;

-- All that a price bills of a usage, at the amounts of price_at. Three figures a line: a count, the price, and how many it is for.
-- A missing sub-price is its parent's. This is the one place that knows which count meets which amount; a flat array, since each
-- reserve and settle reads it.
create function billed_figures(p model_prices, u usage_counts) returns numeric[] language sql immutable as $$
  select array[
    u.prompt_tokens - coalesce(u.cached_tokens, 0) - coalesce(u.cache_write_tokens, 0)
      - coalesce(u.cache_write_1h_tokens, 0) - coalesce(u.audio_input_tokens, 0) - coalesce(u.image_input_tokens, 0)
      - coalesce(u.video_input_tokens, 0), p.input_per_1m, 1000000,
    u.cached_tokens, coalesce(p.cached_input_per_1m, p.input_per_1m), 1000000,
    u.cache_write_tokens, coalesce(p.cache_write_per_1m, p.input_per_1m), 1000000,
    u.cache_write_1h_tokens, coalesce(p.cache_write_1h_per_1m, p.cache_write_per_1m, p.input_per_1m), 1000000,
    u.audio_input_tokens, coalesce(p.audio_input_per_1m, p.input_per_1m), 1000000,
    u.image_input_tokens, coalesce(p.image_input_per_1m, p.input_per_1m), 1000000,
    u.video_input_tokens, coalesce(p.video_input_per_1m, p.input_per_1m), 1000000,
    u.completion_tokens - coalesce(u.audio_output_tokens, 0) - coalesce(u.image_output_tokens, 0)
      - coalesce(u.video_output_tokens, 0), p.output_per_1m, 1000000,
    u.audio_output_tokens, coalesce(p.audio_output_per_1m, p.output_per_1m), 1000000,
    u.image_output_tokens, coalesce(p.image_output_per_1m, p.output_per_1m), 1000000,
    u.video_output_tokens, coalesce(p.video_output_per_1m, p.output_per_1m), 1000000,
    u.characters, p.per_1m_characters, 1000000,
    case when u.seconds > 0 then greatest(u.seconds, p.minimum_seconds) end, p.per_minute, 60,
    u.pages, p.per_page, 1,
    1, p.per_request, 1,
    u.web_searches, coalesce(p.per_web_search, p.per_tool_call), 1,
    u.file_searches, coalesce(p.per_file_search, p.per_tool_call), 1,
    u.containers, coalesce(p.per_container, p.per_tool_call), 1,
    u.tool_calls, p.per_tool_call, 1]
$$;

-- The exact nanos of a USD of one line; null if it bills nothing.
create function billed_nanos(p_count numeric, p_price numeric, p_per numeric) returns numeric language sql immutable as $$
  select p_count * p_price * 1000000000 / p_per
$$;

-- The one function that turns usage into money: exact nanos of a USD, unrounded; the sum of the lines, and the minimum at least.
create or replace function usage_cost(p model_prices, u usage_counts) returns numeric language plpgsql immutable as $$
declare
  v_figures numeric[];
  v_nanos numeric := 0;
begin
  if p.free then
    return 0;
  end if;
  if p.tiers is not null or p.service_tiers is not null or p.regions is not null then
    p := price_at(p, u);
  end if;
  v_figures := billed_figures(p, u);
  for n in 1 .. array_length(v_figures, 1) by 3 loop
    if v_figures[n] <> 0 and v_figures[n + 1] <> 0 then
      v_nanos := v_nanos + billed_nanos(v_figures[n], v_figures[n + 1], v_figures[n + 2]);
    end if;
  end loop;
  return greatest(v_nanos, p.minimum * 1000000000);
end $$;

-- One line as it is shown: a price for one, and exact amounts in USD.
create type price_line as (what text, quantity numeric, unit_price numeric, amount numeric);

-- The lines of a usage at a price; they add up to its usage_cost exactly. What lacks to the minimum is a line of its own.
create function price_lines(p model_prices, u usage_counts) returns setof price_line language sql immutable as $$
  with figures as (
    select billed_figures(v, u) as f from price_at(p, u) as v where not p.free
  ), lines as (
    select n, f[n] as quantity, f[n + 1] / f[n + 2] as unit_price, billed_nanos(f[n], f[n + 1], f[n + 2]) as nanos
    from figures cross join lateral generate_series(1, array_length(f, 1), 3) as n where f[n] <> 0 and f[n + 1] <> 0
  )
  select (billed_names())[(l.n + 2) / 3], l.quantity, trim_scale(l.unit_price), trim_scale(l.nanos * 0.000000001) from lines l
  union all
  select 'minimum', 1, trim_scale(m.nanos * 0.000000001), trim_scale(m.nanos * 0.000000001)
  from (select usage_cost(p, u) - coalesce((select sum(l.nanos) from lines l), 0) as nanos) as m where m.nanos > 0
$$;
