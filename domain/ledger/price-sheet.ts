import { type Db, one, prepared } from '../sql';

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

/** The bill of one request: what served it, and the lines that add up to its cost. */
export interface PriceSheet {
  reservation_id: string;
  request_id: string;
  status: string;
  provider: string | null;
  model: string | null;
  currency: string | null;
  /** The own key of the organization that served; null: the platform's. */
  provider_key_id: string | null;
  /**
   * What prices were multiplied with: the factor of that key, but for the price of the request, or
   * of the organization. Exact; null: they are the list's.
   */
  price_factor: string | null;
  actual_cost_nanos: bigint | null;
  lines: PriceLine[];
}

/**
 * The bill of a reservation. `org_id` is the organization that it must belong to; null takes any.
 * Throws `not_found`. Before it is settled it has no lines.
 */
export async function sheetOf(db: Db, id: string, org_id: string | null): Promise<PriceSheet> {
  const { owner, ...head } = await one<Omit<PriceSheet, 'lines'> & { owner: string }>(
    db,
    `select r.id as reservation_id, r.request_id, r.status, r.currency, r.actual_cost_nanos, r.org_id as owner,
       coalesce(r.settled_provider, r.provider) as provider, coalesce(r.settled_model, r.model) as model, r.provider_key_id,
       trim_scale(charged_factor(r, r.settled_provider))::text as price_factor
     from reservations r where r.id = :id and (:org_id::text is null or r.org_id = :org_id)`,
    { id, org_id },
    'No reservation',
  );
  return { ...head, lines: await linesOfOne(db, owner, id) };
}

/** What one settled request was charged for; none if it cost nothing. */
export async function linesOfOne(db: Db, org_id: string, id: string): Promise<PriceLine[]> {
  return (await linesOf(db, [{ org_id, reservation_id: id }])).get(id) ?? [];
}

/** A request, and the organization that it must belong to. */
interface Billed {
  org_id: string;
  reservation_id: string;
}

/**
 * What settled requests were charged for, by the usage and the price that each was settled at. The
 * lines of one add up to its cost exactly; one that cost nothing has none.
 */
export async function linesOf(
  db: Db,
  billed: readonly Billed[],
): Promise<Map<string, PriceLine[]>> {
  const rows = await prepared<PriceLine & { id: string }>(
    db,
    'price_lines_of',
    `with settled as (
       select r.id, r.exchange_rate, r.actual_cost_nanos * 0.000000001 as cost, u as usage,
         charged_price(p, u, frozen_factor(r.own_keys, r.settled_provider, r.provider_key_id), r.price_factor) as price,
         coalesce((select x.excess_nanos from settlement_excess x
           where x.reservation_id = r.id and x.status <> 'charged'), 0) * 0.000000001 as beyond
       from unnest(:ids::text[], :org_ids::text[]) as b (id, org_id)
       join reservations r on r.id = b.id and r.org_id = b.org_id
       join model_prices p on p.version_id = case
         when (r.settled_provider, r.settled_model) = (r.provider, r.model) then r.price_version_id
         else (select f ->> 'price_version_id' from jsonb_array_elements(r.fallbacks) as f
           where (f ->> 'provider', f ->> 'model') = (r.settled_provider, r.settled_model) limit 1) end
       cross join lateral (select jsonb_populate_record(null::usage_counts, r.usage) as counts offset 0) as c (u)
       where r.actual_cost_nanos > 0
     ), lines as (
       select s.id, 1 as part, l.what, l.quantity, l.unit_price * s.exchange_rate as unit_price,
         l.amount * s.exchange_rate as amount
       from settled s cross join lateral price_lines(s.price, s.usage) as l
       union all
       select s.id, 2, 'beyond_bound', 1, -s.beyond, -s.beyond from settled s where s.beyond > 0
     ), all_lines as (
       select * from lines
       union all
       select d.id, 3, 'rounding', 1, d.rest, d.rest
       from (select s.id, s.cost - (select sum(l.amount) from lines l where l.id = s.id) as rest from settled s) as d
       where d.rest <> 0
     )
     select id, what, trim_scale(quantity)::text as quantity, trim_scale(unit_price)::text as unit_price,
       trim_scale(amount)::text as amount
     from all_lines order by part`,
    {
      ids: billed.map(({ reservation_id }) => reservation_id),
      org_ids: billed.map(({ org_id }) => org_id),
    },
  );
  const found = new Map<string, PriceLine[]>();
  for (const { id, ...line } of rows) {
    const lines = found.get(id);
    if (lines === undefined) found.set(id, [line]);
    else lines.push(line);
  }
  return found;
}
