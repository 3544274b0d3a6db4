import { type Db, many } from '../sql';
import type { Catalog } from './catalogs/catalog';
import { type AmountChange, diff } from './diff';
import { covers, labelOf, makePlan, nameOf, type Served } from './plan';
import { COST_DAYS, isFault, type ToldCost, toldCosts } from './told-costs';

/** How prices stand against catalogs. Names are `provider/model`. */
export interface PriceCheck {
  checked_at: Date;
  /** Served, and refused for want of a price. */
  unpriced: string[];
  /** Imported prices that a catalog lists otherwise by now. */
  differs: { name: string; catalog: string; changes: AmountChange[]; doubts: string[] }[];
  /** Prices by hand that a catalog lists otherwise: somebody's decision. */
  by_hand: { name: string; catalog: string; changes: AmountChange[] }[];
  /** Priced models that no catalog knows. */
  unknown: string[];
  /** Catalogs older than 30 days, in words. */
  old: string[];
  /** What providers say that the calls of the last `cost_days` cost, beside what we charged. */
  told_costs: ToldCost[];
  cost_days: number;
  /** What has to be mended: exit code 1 of `prices check`. Age counts for named sources only. */
  faults: number;
}

const OLD_DAYS = 30;
const DAY_MS = 86_400_000;

/**
 * Compares the prices in force with catalogs, and what calls were charged with what their providers
 * say that they cost. `served` are checked for a price.
 */
export async function check(
  db: Db,
  catalogs: readonly Catalog[],
  served: readonly Served[],
  cost_days: number = COST_DAYS,
): Promise<PriceCheck> {
  const priced = await many<{ provider: string; model: string }>(
    db,
    `select distinct provider, model from model_prices
     where retired_at is null and effective_from <= clock_timestamp() order by 1, 2`,
  );
  const sellers = new Map(served.map(({ provider, seller }) => [provider, seller]));
  const exact = priced
    .filter(({ model }) => !model.endsWith('*'))
    .map((one) => ({ ...one, seller: sellers.get(one.provider) }));
  const plan = await makePlan(db, catalogs, { served: exact, whole: [] });
  const { rows, missing } = await diff(db, plan);
  const moved = rows.filter(({ group, changes }) => group !== 'same' && changes.length > 0);
  const refused = served.filter((one) => !priced.some((price) => covers(price, one)));
  const unpriced = [...new Set(refused.map(nameOf))].sort();
  const differs = moved.filter(({ group }) => group !== 'kept');
  const told_costs = await toldCosts(db, cost_days);
  const ages = catalogs.map(({ source, is_built_in = false }) => ({
    ...{ source, is_built_in, days: ageOf(source.dated) },
  }));
  const old = ages.filter(({ days }) => days !== null && days > OLD_DAYS);
  const named_and_old = old.filter(({ is_built_in }) => !is_built_in);
  return {
    checked_at: new Date(),
    unpriced,
    differs: differs.map(({ changes, doubts, catalog, ...row }) => ({
      ...{ name: nameOf(row), catalog, changes, doubts },
    })),
    by_hand: moved
      .filter(({ group }) => group === 'kept')
      .map(({ changes, catalog, ...row }) => ({ name: nameOf(row), catalog, changes })),
    unknown: missing.map(nameOf),
    old: old.map(({ source, days }) => `${labelOf(source)} is ${days} days old`),
    told_costs,
    cost_days,
    faults:
      unpriced.length + differs.length + named_and_old.length + told_costs.filter(isFault).length,
  };
}

/** Whole days since a date; null if it is not known. */
function ageOf(dated: string | null): number | null {
  return dated === null ? null : Math.floor((Date.now() - Date.parse(dated)) / DAY_MS);
}
