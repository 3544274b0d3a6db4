-- Lines of a usage at a price, as fast as its cost: callers wait for them.

create or replace function price_lines(p model_prices, u usage_counts) returns setof price_line
language plpgsql immutable as $$
declare
  v model_prices;
  v_figures numeric[];
  v_names text[] := billed_names();
  v_nanos numeric;
  v_sum numeric := 0;
begin
  if p.free then
    return;
  end if;
  v := price_at(p, u);
  v_figures := billed_figures(v, u);
  for n in 1 .. array_length(v_figures, 1) by 3 loop
    if v_figures[n] <> 0 and v_figures[n + 1] <> 0 then
      v_nanos := billed_nanos(v_figures[n], v_figures[n + 1], v_figures[n + 2]);
      v_sum := v_sum + v_nanos;
      return next (v_names[(n + 2) / 3], v_figures[n], trim_scale(v_figures[n + 1] / v_figures[n + 2]),
        trim_scale(v_nanos * 0.000000001))::price_line;
    end if;
  end loop;
  v_nanos := v.minimum * 1000000000 - v_sum;
  if v_nanos > 0 then
    v_nanos := trim_scale(v_nanos * 0.000000001);
    return next ('minimum', 1, v_nanos, v_nanos)::price_line;
  end if;
end $$;
