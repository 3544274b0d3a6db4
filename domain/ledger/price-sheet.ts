import { type Db, many } from '../sql';

/** One line of a request's bill. Exact decimals in the currency of its wallet, as text. */
export interface PriceLine {
  /**
   * The count that is billed, as the price names its amount; or `minimum` for what lacks to the
   * least charge, `beyond_bound` for what was put aside, `rounding` for the part of a billionth.
   */
  what: string;
  quantity: string;
  /** For one token, second or run. */
  unit_price: string;
  amount: string;
}

/**
 * What a settled request was charged for, by the usage and the price that it was settled at. The
 * lines add up to its cost exactly; a request that cost nothing has none.
 */
export function linesOf(db: Db, org_id: string, reservation_id: string): Promise<PriceLine[]> {
  return many<PriceLine>(
    db,
    `with settled as (
       select r.exchange_rate, r.actual_cost_nanos * 0.000000001 as cost, r.usage, p as price,
         coalesce((select x.excess_nanos from settlement_excess x
           where x.reservation_id = r.id and x.status <> 'charged'), 0) * 0.000000001 as beyond
       from reservations r
       join model_prices p on p.version_id = case
         when (r.settled_provider, r.settled_model) = (r.provider, r.model) then r.price_version_id
         else (select f ->> 'price_version_id' from jsonb_array_elements(r.fallbacks) as f
           where (f ->> 'provider', f ->> 'model') = (r.settled_provider, r.settled_model) limit 1) end
       where r.id = :reservation_id and r.org_id = :org_id and r.actual_cost_nanos > 0
     ), lines as (
       select 1 as part, l.what, l.quantity, l.unit_price * s.exchange_rate as unit_price, l.amount * s.exchange_rate as amount
       from settled s cross join lateral price_lines(s.price, jsonb_populate_record(null::usage_counts, s.usage)) as l
       union all
       select 2, 'beyond_bound', 1, -s.beyond, -s.beyond from settled s where s.beyond > 0
     ), all_lines as (
       select * from lines
       union all
       select 3, 'rounding', 1, d.rest, d.rest
       from (select s.cost - (select sum(l.amount) from lines l) as rest from settled s) as d where d.rest <> 0
     )
     select what, trim_scale(quantity)::text as quantity, trim_scale(unit_price)::text as unit_price,
       trim_scale(amount)::text as amount
     from all_lines order by part`,
    { org_id, reservation_id },
  );
}
