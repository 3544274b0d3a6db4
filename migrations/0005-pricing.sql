-- What models cost, in USD, and what a USD is in other currencies.

create table model_prices (
  -- One version of one price. Versions are never changed, so that a reservation can be settled at the one it froze.
  version_id text primary key default new_id('pver'),
  -- The price that people edit; all its versions share this id.
  id text not null,
  provider text not null,
  -- May end in `*`; the longest match wins, an exact name before every pattern.
  model text not null,
  input_per_1m numeric not null,
  output_per_1m numeric not null,
  cached_input_per_1m numeric,
  cache_write_per_1m numeric,
  cache_write_1h_per_1m numeric,
  audio_input_per_1m numeric,
  audio_output_per_1m numeric,
  per_minute numeric,
  per_1m_characters numeric,
  per_request numeric,
  per_tool_call numeric,
  max_output_tokens integer,
  reasoning boolean not null default false,
  -- [{above_prompt_tokens, input_per_1m, output_per_1m}]; the highest one passed applies to the whole request.
  tiers jsonb,
  free boolean not null default false,
  effective_from timestamptz not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  -- Set on every version when the price is deleted or replaced by a newer version that is already in force.
  retired_at timestamptz
);
create index model_prices_lookup on model_prices (provider, model, effective_from desc) where retired_at is null;
create index model_prices_id on model_prices (id);

create table exchange_rates (
  currency text primary key,
  -- Units of the currency for 1 USD.
  rate numeric not null check (rate > 0),
  updated_at timestamptz not null
);

-- The price in force now for a model: its own, else the longest pattern that matches. Null row where unpriced.
create function price_for(p_provider text, p_model text) returns model_prices language plpgsql stable as $$
declare
  v_price model_prices;
begin
  select * into v_price from model_prices p
  where p.provider = p_provider and p.model = p_model and p.retired_at is null and p.effective_from <= now()
  order by p.effective_from desc limit 1;
  if v_price.version_id is null then
    select * into v_price from model_prices p
    where p.provider = p_provider and p.retired_at is null and p.effective_from <= now()
      and right(p.model, 1) = '*' and starts_with(p_model, left(p.model, -1))
    order by length(p.model) desc, p.effective_from desc limit 1;
  end if;
  return v_price;
end $$;

create type usage_counts as (
  -- All input, cached, cache-write and audio tokens included; likewise reasoning and audio inside completion.
  prompt_tokens numeric,
  completion_tokens numeric,
  cached_tokens numeric,
  cache_write_tokens numeric,
  cache_write_1h_tokens numeric,
  reasoning_tokens numeric,
  audio_input_tokens numeric,
  audio_output_tokens numeric,
  characters numeric,
  seconds numeric,
  tool_calls numeric
);

-- The one function that turns usage into money: exact nanos of a USD, unrounded. A missing sub-price is its parent's.
create function usage_cost(p model_prices, u usage_counts) returns numeric language plpgsql immutable as $$
declare
  v_input numeric := p.input_per_1m;
  v_output numeric := p.output_per_1m;
  v_cached numeric := coalesce(u.cached_tokens, 0);
  v_write numeric := coalesce(u.cache_write_tokens, 0);
  v_write_1h numeric := coalesce(u.cache_write_1h_tokens, 0);
  v_audio_in numeric := coalesce(u.audio_input_tokens, 0);
  v_audio_out numeric := coalesce(u.audio_output_tokens, 0);
  v_tier record;
begin
  if p.free then
    return 0;
  end if;
  if p.tiers is not null then
    select * into v_tier
    from jsonb_to_recordset(p.tiers) as t (above_prompt_tokens numeric, input_per_1m numeric, output_per_1m numeric)
    where t.above_prompt_tokens < u.prompt_tokens order by t.above_prompt_tokens desc limit 1;
    v_input := coalesce(v_tier.input_per_1m, v_input);
    v_output := coalesce(v_tier.output_per_1m, v_output);
  end if;
  -- Per million tokens, in nanos: a token at 1 USD per million is 1000 nanos.
  return 1000 * (
      (u.prompt_tokens - v_cached - v_write - v_write_1h - v_audio_in) * v_input
      + v_cached * coalesce(p.cached_input_per_1m, v_input)
      + v_write * coalesce(p.cache_write_per_1m, v_input)
      + v_write_1h * coalesce(p.cache_write_1h_per_1m, p.cache_write_per_1m, v_input)
      + v_audio_in * coalesce(p.audio_input_per_1m, v_input)
      + (u.completion_tokens - v_audio_out) * v_output
      + v_audio_out * coalesce(p.audio_output_per_1m, v_output)
      + coalesce(u.characters, 0) * coalesce(p.per_1m_characters, 0))
    + 1000000000 * (
      coalesce(u.seconds, 0) * coalesce(p.per_minute, 0) / 60
      + coalesce(p.per_request, 0)
      + coalesce(u.tool_calls, 0) * coalesce(p.per_tool_call, 0));
end $$;

-- Units of a currency for 1 USD; null where the admin has set none.
create function rate_of(p_currency text) returns numeric language sql stable as $$
  select case p_currency when 'USD' then 1 else (select x.rate from exchange_rates x where x.currency = p_currency) end
$$;
