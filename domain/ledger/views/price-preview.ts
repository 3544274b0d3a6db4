import { type Db, one } from '../../sql';
import { checkPaid, type Price } from '../pricing';

/** What calls of the last days would have cost at another price. Amounts are nanos of USD. */
export interface PricePreview {
  provider: string;
  model: string;
  days: number;
  /** The settled calls that were looked at, at most 50,000. */
  calls: number;
  /** There were more than these. */
  truncated: boolean;
  present_cost_nanos: bigint;
  new_cost_nanos: bigint;
  /** Calls that would have cost more. */
  dearer_calls: number;
}

const CALLS_MAX = 50_000;

/**
 * Prices again what calls have used that the present price of a model has billed. Nothing is
 * written, and no bound or minimum of a wallet is asked. Throws as the change itself would.
 */
export async function preview(db: Db, price: Price, days: number): Promise<PricePreview> {
  checkPaid(price);
  const { provider, model } = price;
  const row = await one<
    Record<'calls' | 'dearer_calls', number> & Record<'present' | 'new', string>
  >(
    db,
    `with calls as (
       select usage_cost(charged_price(v, u.counts, f.factor, r.price_factor), u.counts) as present,
         usage_cost(charged_price(n, u.counts, f.factor, r.price_factor), u.counts) as new
       from wallet_transactions t
       cross join lateral (select * from reservations q where q.id = t.reservation_id limit 1) as r
       join model_prices v on v.version_id = case when (t.provider, t.model) = (r.provider, r.model) then r.price_version_id
         else (select f ->> 'price_version_id' from jsonb_array_elements(r.fallbacks) as f
           where (f ->> 'provider', f ->> 'model') = (t.provider, t.model) limit 1) end
       cross join lateral (select jsonb_populate_record(null::usage_counts, r.usage) as counts offset 0) as u
       cross join lateral (select frozen_factor(r.own_keys, t.provider, r.provider_key_id) as factor offset 0) as f
       cross join (select jsonb_populate_record(null::model_prices, :price::jsonb) as n) as given
       where t.created_at >= now() - :days * interval '1 day' and t.type = 'settlement' and t.actual_cost_nanos > 0
         and (t.phase = 'late' or (t.phase = 'close' and r.status = 'settled')) and v.provider = :provider and v.model = :model
       limit :limit
     )
     select count(*)::int as calls, (count(*) filter (where new > present))::int as dearer_calls,
       round(coalesce(sum(present), 0))::text as present, round(coalesce(sum(new), 0))::text as new from calls`,
    { price: JSON.stringify(price), days, provider, model, limit: CALLS_MAX },
  );
  return {
    ...{ provider, model, days, calls: row.calls, truncated: row.calls === CALLS_MAX },
    present_cost_nanos: BigInt(row.present),
    new_cost_nanos: BigInt(row.new),
    dearer_calls: row.dearer_calls,
  };
}
