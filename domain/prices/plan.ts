import type { Metadata } from '../ledger/price-lists';
import type { Db } from '../sql';
import type { Catalog, ListedPrice, Listing, Source } from './catalogs/catalog';
import { compared, times } from './decimals';
import { sellerOf } from './sellers';
import { inForce, type Present } from './stored';

/** A model that a target serves, as it is priced. */
export interface Served {
  provider: string;
  /** Its name in the price list: `price_as`, else its own. */
  model: string;
  /** Whose price it has: `azure` of the provider `azure-eu`. The provider's own name if absent. */
  seller?: string | undefined;
}

/** What is proposed for one model. */
export interface PlanRow {
  provider: string;
  model: string;
  /** The catalog that proposes it, with version and day. */
  catalog: string;
  /** The other catalogs that say the same. */
  confirmed_by: string[];
  /** The catalogs that know the model. */
  known_to: number;
  /** The version that was in force as the plan was made; null if none was. */
  against: string | null;
  price: ListedPrice;
  coming: { from: string; price: ListedPrice }[];
  metadata: Metadata;
  doubts: string[];
  lost: string[];
}

/** A plan of prices: what an import would do, for a person to read and to say yes to. */
export interface Plan {
  format: 'svc-prices-plan/1';
  made_at: string;
  sources: Source[];
  /** By provider: what all its amounts are multiplied with. */
  factors: Record<string, string>;
  rows: PlanRow[];
  /** Served models that no catalog knows by exactly this name, with the nearest names. */
  missing: { provider: string; model: string; near: string[] }[];
  /** Imported prices of these providers that none of the catalogs lists any more. They stay. */
  gone: string[];
}

const NEAR_MAX = 3;
const NEAR_LENGTH = 4;

/**
 * A plan from catalogs, the first of which proposes and the others confirm. `wanted` are the served
 * models; a provider without named models takes all that the catalogs list of its seller.
 */
export async function makePlan(
  db: Db,
  catalogs: readonly Catalog[],
  wanted: { served: readonly Served[]; whole: readonly Omit<Served, 'model'>[] },
  factors: Record<string, string> = {},
): Promise<Plan> {
  const asked = [...wanted.served, ...wanted.whole.flatMap((one) => allOf(one, catalogs))];
  const providers = [...new Set(asked.map(({ provider }) => provider))];
  const present = new Map((await inForce(db, providers)).map((one) => [nameOf(one), one] as const));
  const unique = [...new Map(asked.map((one) => [nameOf(one), one])).values()];
  const plan: Plan = {
    format: 'svc-prices-plan/1',
    made_at: new Date().toISOString(),
    sources: catalogs.map(({ source }) => source),
    factors,
    rows: [],
    missing: [],
    gone: [],
  };
  for (const one of unique) {
    const row = rowOf(one, catalogs, present.get(nameOf(one)), factors[one.provider]);
    if (row !== undefined) plan.rows.push(row);
    else plan.missing.push({ ...bare(one), near: nearest(one, catalogs) });
  }
  const sellers = new Map(asked.map(({ provider, seller }) => [provider, seller]));
  for (const { source, provider, model } of present.values()) {
    const seller = sellers.get(provider);
    const is_listed = catalogs.some((one) => listingsOf({ provider, seller }, one).has(model));
    if (source === 'import' && !is_listed) plan.gone.push(nameOf({ provider, model }));
  }
  return plan;
}

/** `openai/gpt-5.4` */
export function nameOf({ provider, model }: { provider: string; model: string }): string {
  return `${provider}/${model}`;
}

/** `genai-prices 0.1.8 of 2026-09-23` */
export function labelOf({ catalog, version, dated }: Source): string {
  return `${catalog} ${version}${dated === null ? '' : ` of ${dated}`}`;
}

function bare({ provider, model }: Served) {
  return { provider, model };
}

function listingsOf({ provider, seller }: Omit<Served, 'model'>, catalog: Catalog) {
  const found = sellerOf(seller ?? provider);
  return found === undefined ? new Map<string, Listing>() : catalog.of(found);
}

function allOf(one: Omit<Served, 'model'>, catalogs: readonly Catalog[]): Served[] {
  const models = new Set(catalogs.flatMap((catalog) => [...listingsOf(one, catalog).keys()]));
  return [...models].map((model) => ({ ...one, model }));
}

function rowOf(
  one: Served,
  catalogs: readonly Catalog[],
  present: Present | undefined,
  factor: string | undefined,
): PlanRow | undefined {
  const found = catalogs.flatMap((catalog) => {
    const listing = listingsOf(one, catalog).get(one.model);
    return listing === undefined ? [] : [{ listing, label: labelOf(catalog.source) }];
  });
  const [first, ...others] = found;
  if (first === undefined) return undefined;
  const { listing } = first;
  const agreeing = others.filter((other) => agree(listing.price, other.listing.price));
  const doubts = [...listing.doubts];
  for (const { label, listing: other } of others)
    if (!agree(listing.price, other.price))
      doubts.push(`${label} says otherwise: ${wordsOf(other.price)}`);
  const confirmed = agreeing.some((other) => other.listing.lent_by === undefined);
  if (listing.lent_by !== undefined && !confirmed)
    doubts.push(`${first.label} supposes the price of ${listing.lent_by}`);
  const service_tiers =
    Object.keys(listing.price.service_tiers).length > 0
      ? listing.price.service_tiers
      : (agreeing.find((other) => Object.keys(other.listing.price.service_tiers).length > 0)
          ?.listing.price.service_tiers ?? {});
  const price = { ...listing.price, service_tiers };
  return {
    ...bare(one),
    catalog: first.label,
    confirmed_by: agreeing.map(({ label }) => label),
    known_to: found.length,
    against: present?.version_id ?? null,
    price: factor === undefined ? price : multiplied(price, factor),
    coming: listing.coming.map(({ from, price: later }) => ({
      from,
      price: factor === undefined ? later : multiplied(later, factor),
    })),
    metadata: Object.assign({}, ...[...found].reverse().map((each) => each.listing.metadata)),
    doubts,
    lost: [...listing.lost],
  };
}

/** Two catalogs agree if the amounts that both say are the same, the tiers of long prompts too. */
function agree(a: ListedPrice, b: ListedPrice): boolean {
  const main = ['input_per_1m', 'output_per_1m', 'cached_input_per_1m', 'per_minute'] as const;
  const is_same = main.every((name) => {
    const left = a.amounts[name];
    const right = b.amounts[name];
    return left === undefined || right === undefined || compared(left, right) === 0;
  });
  if (!is_same || a.tiers.length !== b.tiers.length) return false;
  return a.tiers.every((tier, i) =>
    (['input_per_1m', 'output_per_1m'] as const).every((name) => {
      const left = tier[name];
      const right = b.tiers[i]?.[name];
      return left === undefined || right === undefined || compared(left, right) === 0;
    }),
  );
}

function wordsOf({ amounts, tiers }: ListedPrice): string {
  const said = Object.entries(amounts).map(([name, amount]) => `${name} ${amount}`);
  return `${said.join(', ') || 'nothing'}${tiers.length > 0 ? `, ${tiers.length} tiers` : ''}`;
}

function multiplied(price: ListedPrice, factor: string): ListedPrice {
  const all = <T extends object>(given: T): T =>
    Object.fromEntries(
      Object.entries(given).map(([name, amount]) => [
        name,
        typeof amount === 'string' ? times(amount, factor) : amount,
      ]),
    ) as T;
  return {
    amounts: all(price.amounts),
    tiers: price.tiers.map(all),
    service_tiers: Object.fromEntries(
      Object.entries(price.service_tiers).map(([name, list]) => [
        name,
        { amounts: all(list.amounts), tiers: list.tiers.map(all) },
      ]),
    ),
  };
}

/** Names that begin alike, the longest common beginning first: hints, never prices. */
function nearest(one: Served, catalogs: readonly Catalog[]): string[] {
  const names = new Set(catalogs.flatMap((catalog) => [...listingsOf(one, catalog).keys()]));
  return [...names]
    .map((name) => ({ name, length: commonLength(name, one.model) }))
    .filter(({ length }) => length >= NEAR_LENGTH)
    .sort((a, b) => b.length - a.length || a.name.length - b.name.length)
    .slice(0, NEAR_MAX)
    .map(({ name }) => name);
}

function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length += 1;
  return length;
}
