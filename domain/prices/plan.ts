import type { Metadata } from '../ledger/price-lists';
import type { Db } from '../sql';
import { cut, isKept } from '../texts';
import type { Catalog, ListedPrice, Listing, Source } from './catalogs/catalog';
import { agree, isBillable, multiplied, wordsOf } from './listed';
import { placeDoubts, upliftsAt } from './places';
import { namesOf, sellerOf } from './sellers';
import { type Present, presentPrices } from './stored';
import { type Witness, witnessOf } from './witness';

/** A model that a target serves, as it is priced. */
export interface Served {
  provider: string;
  /** Its name in the price list: `price_as`, else its own. */
  model: string;
  /** Whose price it has: `azure` of the provider `azure-eu`. The provider's own name if absent. */
  seller?: string | undefined;
  /** Where it is served, if that is one place of several at which a seller may ask more. */
  place?: string | undefined;
}

/** A seller all of whose models are meant, at one place of those where targets ask it. */
export type WholeSeller = Omit<Served, 'model'>;

/** What is proposed for one model. */
export interface PlanRow {
  provider: string;
  model: string;
  /** The catalog that proposes it, with version and day. */
  catalog: string;
  /** Whose price it is, and what its amounts were multiplied with. */
  seller: string;
  factor: string | null;
  /** The other catalogs that say the same. */
  confirmed_by: string[];
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
  /** The providers whose factor the import was told, and no target; absent: all. */
  told?: string[];
  rows: PlanRow[];
  /** Served models that no catalog knows by exactly this name, with the nearest names. */
  missing: { provider: string; model: string; near: string[] }[];
  /** Imported prices of these providers that none of the catalogs lists any more. They stay. */
  gone: string[];
}

/** What a row may hold; a catalog that says more of a model is cut. */
export const COMING_MAX = 4;
export const DOUBTS_MAX = 20;
export const DOUBT_CHARACTERS_MAX = 500;
const NAME_MAX = 200;
const NEAR_MAX = 3;
const NEAR_LENGTH = 4;

/**
 * A plan from catalogs, the first of which proposes and the others confirm. `wanted` are the served
 * models; a provider without named models takes all that the catalogs list of its seller. A witness
 * is a catalog that new prices must not be far from, named or not.
 */
export async function makePlan(
  db: Db,
  catalogs: readonly Catalog[],
  wanted: { served: readonly Served[]; whole: readonly WholeSeller[] },
  factors: Record<string, string> = {},
  told_factors: readonly string[] = Object.keys(factors),
  witness?: Catalog,
): Promise<Plan> {
  const farFrom = witness && witnessOf(witness);
  const named = [...wanted.served, ...wanted.whole].map(({ provider }) => provider);
  const rows = await presentPrices(db, [...new Set(named)]);
  const present = new Map(rows.map((one) => [nameOf(one), one] as const));
  const known = new Map(rows.filter(isImported).map((one) => [one.provider, one] as const));
  // A seller and a factor that an import was told of hold for the next one.
  const told = <One extends WholeSeller>(one: One): One => ({
    ...one,
    seller: one.seller ?? known.get(one.provider)?.seller ?? undefined,
  });
  const factorOf = (provider: string) =>
    factors[provider] ?? known.get(provider)?.price_factor ?? undefined;
  const asked = [
    ...wanted.served.map(told),
    ...wanted.whole.flatMap((one) => allOf(told(one), catalogs)),
  ];
  const unique = new Map(asked.map((one) => [nameOf(one), one]));
  const places = new Map<string, string[]>();
  for (const one of asked) {
    const name = nameOf(one);
    if (one.place !== undefined) places.set(name, [...(places.get(name) ?? []), one.place]);
  }
  const kept = [...known].flatMap(([provider, { price_factor }]) =>
    factors[provider] === undefined && price_factor !== null ? [provider] : [],
  );
  const plan: Plan = {
    format: 'svc-prices-plan/1',
    made_at: new Date().toISOString(),
    sources: catalogs.map(({ source }) => source),
    factors,
    told: [...told_factors, ...kept],
    rows: [],
    missing: [],
    gone: [],
  };
  for (const [name, one] of unique) {
    const row = rowOf(one, catalogs, {
      present: present.get(name),
      factor: factorOf(one.provider),
      places: places.get(name) ?? [],
      farFrom,
    });
    if (row !== undefined) plan.rows.push(row);
    else
      plan.missing.push({
        ...{ provider: one.provider, model: one.model, near: nearest(one, catalogs) },
      });
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

/** True if a price, of one model or of all that begin so, is that of a model. */
export function covers(
  price: { provider: string; model: string },
  { provider, model }: { provider: string; model: string },
): boolean {
  if (price.provider !== provider) return false;
  return price.model.endsWith('*')
    ? model.startsWith(price.model.slice(0, -1))
    : price.model === model;
}

/** `genai-prices 0.1.8 of 2026-09-23` */
export function labelOf({ catalog, version, dated }: Source): string {
  return `${catalog} ${version}${dated === null ? '' : ` of ${dated}`}`;
}

function isImported({ source }: Present): boolean {
  return source === 'import';
}

function listingsOf({ provider, seller }: WholeSeller, catalog: Catalog) {
  const found = sellerOf(seller ?? provider);
  return found === undefined ? new Map<string, Listing>() : catalog.of(found);
}

function allOf(one: WholeSeller, catalogs: readonly Catalog[]): Served[] {
  const models = new Set(catalogs.flatMap((catalog) => [...listingsOf(one, catalog).keys()]));
  return [...models].filter(isExactName).map((model) => ({ ...one, model }));
}

/** False for what no price is called by: a catalog may write anything, and a star is a pattern. */
function isExactName(model: string): boolean {
  return model !== '' && model.length <= NAME_MAX && !model.includes('*') && isKept(model);
}

interface Facts {
  present: Present | undefined;
  factor: string | undefined;
  places: readonly string[];
  farFrom: Witness | undefined;
}

function rowOf(
  one: Served,
  catalogs: readonly Catalog[],
  { present, factor, places, farFrom }: Facts,
): PlanRow | undefined {
  const found = catalogs.flatMap((catalog) => {
    const listing = listingsOf(one, catalog).get(one.model);
    return listing === undefined ? [] : [{ listing, label: labelOf(catalog.source) }];
  });
  // One that lists a name without an amount knows no price.
  const first = found.find(({ listing }) => isBillable(listing.price)) ?? found[0];
  if (first === undefined) return undefined;
  const { listing, label } = first;
  const others = found.filter((other) => other !== first && isBillable(other.listing.price));
  const agreeing = others.filter((other) => agree(listing.price, other.listing.price));
  const doubts = [
    ...listing.doubts,
    ...others
      .filter((other) => !agreeing.includes(other))
      .map(
        (other) => `${other.label} says otherwise: ${wordsOf(other.listing.price, listing.price)}`,
      ),
  ];
  const is_confirmed = agreeing.some((other) => other.listing.lent_by === undefined);
  if (listing.lent_by !== undefined && !is_confirmed)
    doubts.push(`${label} supposes the price of ${listing.lent_by}`);
  const seller = sellerOf(one.seller ?? one.provider) as string;
  if (present === undefined) doubts.push(...(farFrom?.(seller, one.model, listing.price) ?? []));
  const sold = { provider: one.provider, seller, factor };
  doubts.push(...placeDoubts(sold, places, found));
  const uplifts = upliftsAt(sold, places, found);
  const tiers = [first, ...agreeing].map((each) => each.listing.price.service_tiers);
  const service_tiers = tiers.find((lists) => Object.keys(lists).length > 0) ?? {};
  const inOurs = (price: ListedPrice) =>
    withLeast(factor === undefined ? price : multiplied(price, factor), seller, present);
  return {
    ...{ provider: one.provider, model: one.model, catalog: label },
    seller,
    factor: factor ?? null,
    confirmed_by: agreeing.map((each) => each.label),
    against: present?.version_id ?? null,
    price: inOurs({ ...listing.price, service_tiers }),
    coming: listing.coming.slice(0, COMING_MAX).map(({ from, price }) => ({
      ...{ from, price: inOurs(price) },
    })),
    metadata: {
      ...Object.assign({}, ...[...found].reverse().map((each) => each.listing.metadata)),
      ...(uplifts.length > 0 ? { uplifts } : {}),
    },
    doubts: doubts.slice(0, DOUBTS_MAX).map((doubt) => cut(doubt, DOUBT_CHARACTERS_MAX)),
    lost: listing.lost.slice(0, DOUBTS_MAX),
  };
}

/** A seller's least length of a sound, which no catalog lists, unless somebody set another one. */
function withLeast(price: ListedPrice, seller: string, present: Present | undefined): ListedPrice {
  const least = present?.price.amounts.minimum_seconds ?? namesOf(seller).minimum_seconds;
  const { amounts } = price;
  if (least === undefined || amounts.minimum_seconds !== undefined) return price;
  if ((amounts.per_minute ?? '0') === '0') return price;
  return { ...price, amounts: { ...amounts, minimum_seconds: least } };
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
