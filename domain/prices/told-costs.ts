import { type Db, many } from '../sql';
import { nameOf } from './plan';

/** What providers say that calls of one model cost, beside what those calls were charged. */
export interface ToldCost {
  /** `provider/model`. */
  name: string;
  /** How many calls told a figure. */
  calls: number;
  /** USD as decimal text: what they cost by the price list, and what the provider says. */
  ours_usd: string;
  theirs_usd: string;
  /** Ours ÷ theirs, at 4 places; null if theirs is zero. */
  ratio: string | null;
  /**
   * `below`: less is charged than the provider takes. `above`: more. `few`: too few calls to say
   * so.
   */
  standing: 'close' | 'below' | 'above' | 'few';
  /** Its price was set by hand or has a factor: to be above is somebody's decision. */
  is_decided: boolean;
}

/** From this share on a difference is told of, and from so many calls on. */
const OFF_SHARE = '0.02';
const CALLS_LEAST = 5;
/** A charge is whole nanos: of fewer, its rounding may be more than 1 %. */
const CHARGED_NANOS_LEAST = 100;

export const COST_DAYS = 1;
export const COST_DAYS_MAX = 90;

/**
 * Compares what providers told of the calls that ended in the last days with what these were
 * charged, in USD at the rate of each call and before the factor of its organization. Calls by own
 * keys of organizations are left out, as the platform pays no provider for them, and so are those
 * of organizations that pay nothing, and those that cost so little of their wallet's currency, by
 * both figures, that rounding alone may be the difference. What was put aside as excess counts as
 * charged.
 */
export async function toldCosts(db: Db, days: number): Promise<ToldCost[]> {
  const rows = await many<Omit<ToldCost, 'name'> & { provider: string; model: string }>(
    db,
    `select s.provider, s.model, s.calls, trim_scale(s.ours)::text as ours_usd, trim_scale(s.theirs)::text as theirs_usd,
       round(s.ours / nullif(s.theirs, 0), 4)::text as ratio, s.is_decided,
       case when abs(s.ours - s.theirs) < greatest(${OFF_SHARE} * s.theirs, 1e-9) then 'close' when s.calls < ${CALLS_LEAST} then 'few'
         when s.ours < s.theirs then 'below' else 'above' end as standing
     from (
       select r.settled_provider as provider, r.settled_model as model, count(*)::int as calls, sum(r.provider_cost_usd) as theirs,
         sum(round((r.actual_cost_nanos + case when x.status <> 'charged' then x.excess_nanos else 0 end)
           / (r.exchange_rate * coalesce(r.price_factor, 1)), 3)) / 1000000000
           as ours,
         coalesce(bool_or(v.source = 'hand' or v.price_factor <> 1), false) as is_decided
       from reservations r
       left join settlement_excess x on x.reservation_id = r.id
       left join model_prices v on v.version_id = case
         when r.settled_provider = r.provider and r.settled_model = r.model then r.price_version_id
         else (select f ->> 'price_version_id' from jsonb_array_elements(r.fallbacks) as f
           where f ->> 'provider' = r.settled_provider and f ->> 'model' = r.settled_model limit 1) end
       where r.provider_cost_usd is not null and r.closed_at > clock_timestamp() - make_interval(days => :days)
         and r.provider_key_id is null and r.settled_model is not null and r.price_factor is distinct from 0
         and (greatest(r.actual_cost_nanos, r.provider_cost_usd * 1000000000 * r.exchange_rate * coalesce(r.price_factor, 1)) >= ${CHARGED_NANOS_LEAST}
           or (r.actual_cost_nanos = 0 and r.provider_cost_usd = 0))
       group by 1, 2
     ) as s order by 1, 2`,
    { days },
  );
  return rows.map(({ provider, model, ...row }) => ({ name: nameOf({ provider, model }), ...row }));
}

/** True for a difference that somebody has to mend. */
export function isFault({ standing, is_decided }: ToldCost): boolean {
  return standing === 'below' || (standing === 'above' && !is_decided);
}
