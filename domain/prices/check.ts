import { type Db, many } from '../sql';
import type { Catalog } from './catalogs/catalog';
import { type AmountChange, type Diff, diff } from './diff';
import { percentOf } from './doubts';
import { covers, labelOf, makePlan, nameOf, type Served } from './plan';
import type { ServedModels } from './served';
import { COST_DAYS, isFault, type ToldCost, toldCosts } from './told-costs';

/** How prices stand against catalogs. Names are `provider/model`. */
export interface PriceCheck {
  checked_at: Date;
  /**
   * Served, and refused for want of a price; `provider/*` where its server lists what it serves and
   * none of that has one.
   */
  unpriced: string[];
  /** Imported prices that their catalog lists otherwise by now, or of another `price_factor`. */
  differs: Differing[];
  /** Imported from one catalog, and listed otherwise by another: no fault, as somebody chose. */
  beside: { name: string; catalog: string; changes: AmountChange[] }[];
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

interface Differing {
  name: string;
  catalog: string;
  changes: AmountChange[];
  doubts: string[];
}

/** A version in force. */
interface Priced {
  provider: string;
  model: string;
  source: 'hand' | 'import';
  catalog: string | null;
  price_factor: string | null;
}

const OLD_DAYS = 30;
const DAY_MS = 86_400_000;

/**
 * Compares the prices in force with catalogs, each with the one that it was imported from if that
 * is among them, and what calls were charged with what their providers say that they cost. What
 * gateways serve is checked for a price, and for the factor that its targets have by now.
 */
export async function check(
  db: Db,
  catalogs: readonly Catalog[],
  { served, factors, discovering = [] }: ServedModels,
  cost_days: number = COST_DAYS,
): Promise<PriceCheck> {
  const priced = await pricesInForce(db);
  const { rows, missing } = await comparedEach(db, catalogs, priced, { served, factors });
  const moved = rows.filter(({ group, changes }) => group !== 'same' && changes.length > 0);
  const refused = served.filter((one) => !priced.some((price) => covers(price, one)));
  const without = discovering.filter((one) => priced.every((p) => p.provider !== one.provider));
  const names = [...refused.map(nameOf), ...without.map(({ provider }) => `${provider}/*`)];
  const unpriced = [...new Set(names)].sort();
  const chosen = new Map(priced.map((one) => [nameOf(one), one]));
  const imported = moved.filter(({ group }) => group !== 'kept');
  const own = imported.filter((row) => isOfCatalog(chosen.get(nameOf(row)), row.catalog));
  const told = new Set(own.map(nameOf));
  const differs = [
    ...own.map(({ changes, doubts, catalog, ...row }) => ({
      ...{ name: nameOf(row), catalog, changes, doubts },
    })),
    ...priced.filter((one) => !told.has(nameOf(one))).flatMap((one) => ofFactor(one, factors)),
  ];
  const faulty = new Set(differs.map(({ name }) => name));
  const told_costs = await toldCosts(db, cost_days);
  const ages = catalogs.map(({ source, is_built_in = false }) => ({
    ...{ source, is_built_in, days: ageOf(source.dated) },
  }));
  const old = ages.filter(({ days }) => days !== null && days > OLD_DAYS);
  const named_and_old = old.filter(({ is_built_in }) => !is_built_in);
  return {
    checked_at: new Date(),
    unpriced,
    differs,
    beside: imported
      .filter((row) => !faulty.has(nameOf(row)))
      .map(({ changes, catalog, ...row }) => ({ name: nameOf(row), catalog, changes })),
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

function pricesInForce(db: Db): Promise<Priced[]> {
  return many<Priced>(
    db,
    `select distinct on (provider, model) provider, model, source, catalog, trim_scale(price_factor)::text as price_factor
     from model_prices where retired_at is null and effective_from <= clock_timestamp()
     order by provider, model, effective_from desc, updated_at desc`,
  );
}

/** What an import of these very models would change, by the catalog of each before the others. */
async function comparedEach(
  db: Db,
  catalogs: readonly Catalog[],
  priced: readonly Priced[],
  { served, factors }: ServedModels,
): Promise<Pick<Diff, 'rows' | 'missing'>> {
  const sellers = new Map(served.map(({ provider, seller }) => [provider, seller]));
  const places = new Map<string, Served[]>();
  for (const one of served) places.set(nameOf(one), [...(places.get(nameOf(one)) ?? []), one]);
  const exact = priced.filter(({ model }) => !model.endsWith('*'));
  const found: Pick<Diff, 'rows' | 'missing'> = { rows: [], missing: [] };
  const kinds = new Set(catalogs.map(({ source }) => source.catalog));
  for (const kind of [...kinds, undefined]) {
    const asked = exact.filter((one) => [...kinds].find((each) => isOf(one, each)) === kind);
    const first = catalogs.filter(({ source }) => source.catalog === kind);
    const others = catalogs.filter(({ source }) => source.catalog !== kind);
    const models = asked.flatMap(({ provider, model }) => {
      const one = { provider, model, seller: sellers.get(provider) };
      const at = places.get(nameOf(one)) ?? [];
      return at.length > 0 ? at.map(({ place }) => ({ ...one, place })) : [one];
    });
    const wanted = { served: models, whole: [] };
    const { rows, missing } = await diff(
      db,
      await makePlan(db, [...first, ...others], wanted, factors),
    );
    found.rows.push(...rows);
    found.missing.push(...missing);
  }
  return found;
}

/** True if a price came from a catalog of this kind: `litellm made` of `litellm`. */
function isOf({ catalog }: Priced, kind: string): boolean {
  return catalog === kind || catalog?.startsWith(`${kind} `) === true;
}

/** True unless the price is of another catalog than what is listed; `label` names that one. */
function isOfCatalog(price: Priced | undefined, label: string): boolean {
  const [kind = ''] = label.split(' ');
  return price === undefined || price.catalog === null || isOf(price, kind);
}

/** An import that was made with another factor than the targets of its provider have by now. */
function ofFactor(price: Priced, factors: Record<string, string>): Differing[] {
  const was = price.price_factor ?? '1';
  const now = Object.hasOwn(factors, price.provider) ? (factors[price.provider] ?? was) : was;
  if (price.source !== 'import' || now === was) return [];
  const changes = [{ amount: 'price_factor', was, now, percent: percentOf(was, now) }];
  return [{ name: nameOf(price), catalog: price.catalog ?? '', changes, doubts: [] }];
}

/** Whole days since a date; null if it is not known. */
function ageOf(dated: string | null): number | null {
  return dated === null ? null : Math.floor((Date.now() - Date.parse(dated)) / DAY_MS);
}
