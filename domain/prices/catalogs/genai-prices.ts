import { compared, decimalText, over, shifted } from '../decimals';
import { namesOf } from '../sellers';
import {
  type Catalog,
  cleaned,
  type Listed,
  type ListedPrice,
  type Listing,
  noPrice,
  type Source,
  shownValue,
  tierOf,
} from './catalog';

/** How genai-prices writes a provider, as far as it is read. */
export interface GenaiProvider {
  id: string;
  models: GenaiModel[];
}

interface GenaiModel {
  id: string;
  match?: unknown;
  context_window?: number;
  prices?: unknown;
}

type Amount = keyof Listed;

const units: Record<string, { to: Amount; in_ours: (amount: string) => string }> = {
  input_mtok: { to: 'input_per_1m', in_ours: same },
  output_mtok: { to: 'output_per_1m', in_ours: same },
  cache_read_mtok: { to: 'cached_input_per_1m', in_ours: same },
  cache_write_mtok: { to: 'cache_write_per_1m', in_ours: same },
  cache_write_5m_mtok: { to: 'cache_write_per_1m', in_ours: same },
  cache_write_1h_mtok: { to: 'cache_write_1h_per_1m', in_ours: same },
  input_audio_mtok: { to: 'audio_input_per_1m', in_ours: same },
  output_audio_mtok: { to: 'audio_output_per_1m', in_ours: same },
  input_image_mtok: { to: 'image_input_per_1m', in_ours: same },
  output_image_mtok: { to: 'image_output_per_1m', in_ours: same },
  input_video_mtok: { to: 'video_input_per_1m', in_ours: same },
  output_video_mtok: { to: 'video_output_per_1m', in_ours: same },
  audio_hours: { to: 'per_minute', in_ours: (amount) => over(amount, 60) },
  input_audio_hours: { to: 'per_minute', in_ours: (amount) => over(amount, 60) },
  input_mchars: { to: 'per_1m_characters', in_ours: same },
  requests_kcount: { to: 'per_request', in_ours: (amount) => shifted(amount, -3) },
  web_searches_kcount: { to: 'per_web_search', in_ours: (amount) => shifted(amount, -3) },
  storage_searches_kcount: { to: 'per_file_search', in_ours: (amount) => shifted(amount, -3) },
  input_document_kpages: { to: 'per_page', in_ours: (amount) => shifted(amount, -3) },
};

// The amount that a call pays in place of one that a price cannot say.
const stand_ins: Record<string, Amount> = {
  cache_audio_read_mtok: 'cached_input_per_1m',
  cache_image_read_mtok: 'cached_input_per_1m',
  output_reasoning_mtok: 'output_per_1m',
  output_citation_mtok: 'output_per_1m',
};

function same(amount: string): string {
  return amount;
}

/** Reads the data of genai-prices. Only ids and `equals` aliases name a model, no other rule. */
export function fromGenaiPrices(
  source: Source,
  providers: readonly GenaiProvider[],
  dayOf: () => string,
): Catalog {
  // What is in force moves with the day, and a process lives for many.
  const listed = new Map<string, ReadonlyMap<string, Listing>>();
  return {
    source,
    of(seller) {
      const today = dayOf();
      const known = listed.get(`${seller} ${today}`);
      if (known !== undefined) return known;
      const { genai_prices, lent_by = [] } = namesOf(seller);
      const modelsOf = (name: string | undefined) =>
        providers.find(({ id }) => id === name)?.models ?? [];
      const made = new Map(listings(modelsOf(genai_prices), today));
      for (const lender of lent_by)
        for (const [model, listing] of listings(modelsOf(lender), today))
          if (!made.has(model)) made.set(model, { ...listing, lent_by: lender });
      listed.set(`${seller} ${today}`, made);
      return made;
    },
  };
}

function listings(models: readonly GenaiModel[], today: string): ReadonlyMap<string, Listing> {
  const found = new Map<string, Listing>();
  // Some ids are beginnings of names, which no exact name can match.
  const readable = models.filter(
    (model) => typeof model?.id === 'string' && !/[-.]$/.test(model.id),
  );
  for (const model of readable) {
    const listing = cleaned(listingOf(model, today));
    // An id is its own model's before it is an alias of another's.
    found.set(model.id, listing);
  }
  for (const model of readable) {
    const listing = found.get(model.id);
    for (const alias of aliasesOf(model.match).filter((name) => !/[-.]$/.test(name)))
      if (listing !== undefined && !found.has(alias))
        found.set(alias, { ...listing, model: alias });
  }
  return found;
}

/** The names that a rule equals, alone or as one of several. */
function aliasesOf(match: unknown): string[] {
  if (typeof match !== 'object' || match === null) return [];
  if ('equals' in match && typeof match.equals === 'string') return [match.equals];
  if ('or' in match && Array.isArray(match.or)) return match.or.flatMap(aliasesOf);
  return [];
}

interface Dated {
  /** Undefined: always. */
  from: string | undefined;
  prices: Record<string, unknown>;
  by_time_of_day: boolean;
}

function listingOf({ id, context_window, prices }: GenaiModel, today: string): Listing {
  const all = datedPrices(prices);
  const listing: Listing = {
    model: id,
    price: noPrice(),
    coming: [],
    metadata: context_window === undefined ? {} : { context_length: context_window },
    doubts: [],
    lost: [],
  };
  const past = all.filter(({ from }) => from === undefined || from <= today);
  const newest = past.filter(({ by_time_of_day }) => !by_time_of_day).at(-1);
  const hours = past.filter(({ by_time_of_day }) => by_time_of_day);
  if (newest !== undefined) listing.price = priceOf(newest.prices, listing);
  for (const { prices: of_hours } of hours) raise(listing.price, priceOf(of_hours, listing));
  if (hours.length > 0)
    listing.doubts.push('its price depends on the time of day; the dearest is taken');
  for (const { from, prices: later } of all)
    if (from !== undefined && from > today)
      listing.coming.push({ from, price: priceOf(later, listing) });
  return listing;
}

function datedPrices(prices: unknown): Dated[] {
  const rows: unknown[] = Array.isArray(prices) ? prices : [{ prices }];
  return rows.flatMap((row) => {
    if (typeof row !== 'object' || row === null || !('prices' in row)) return [];
    const constraint = 'constraint' in row ? (row.constraint as Record<string, unknown>) : {};
    const from = constraint?.start_date;
    return [
      {
        from: typeof from === 'string' ? from : undefined,
        prices: (row.prices ?? {}) as Record<string, unknown>,
        by_time_of_day: typeof constraint?.start_time === 'string',
      },
    ];
  });
}

function priceOf(prices: Record<string, unknown>, listing: Listing): ListedPrice {
  const price = noPrice();
  for (const [key, value] of Object.entries(prices)) {
    const unit = Object.hasOwn(units, key) ? units[key] : undefined;
    if (unit === undefined) continue;
    const { base, tiers } = tiered(value);
    const amount = decimalText(base);
    if (amount === undefined) {
      listing.doubts.push(`${key} is no amount: ${shownValue(value)}`);
      continue;
    }
    price.amounts[unit.to] = unit.in_ours(amount);
    for (const { start, price: above } of tiers) {
      const dearer = decimalText(above);
      if (dearer === undefined || !Number.isInteger(start) || start < 0)
        listing.doubts.push(`a tier of ${key} is no amount: ${shownValue(value)}`);
      else tierOf(price.tiers, start)[unit.to] = unit.in_ours(dearer);
    }
  }
  for (const [key, value] of Object.entries(prices))
    if (!Object.hasOwn(units, key)) lose(key, value, price, listing);
  return price;
}

function tiered(value: unknown): { base: unknown; tiers: { start: number; price: unknown }[] } {
  if (typeof value !== 'object' || value === null) return { base: value, tiers: [] };
  const { base, tiers } = value as { base?: unknown; tiers?: unknown };
  return {
    base,
    tiers: Array.isArray(tiers) ? tiers.filter((tier) => typeof tier === 'object' && tier) : [],
  };
}

/** A figure without a place is told of, and doubted if it is dearer than what stands in for it. */
function lose(key: string, value: unknown, { amounts }: ListedPrice, listing: Listing): void {
  if (!listing.lost.includes(key)) listing.lost.push(key);
  const stand_in = Object.hasOwn(stand_ins, key) ? stand_ins[key] : undefined;
  const amount = decimalText(tiered(value).base);
  if (amount === undefined) return;
  const instead = (stand_in && (amounts[stand_in] ?? amounts.input_per_1m)) ?? '0';
  if (compared(amount, instead) > 0)
    listing.doubts.push(`${key} (${amount}) has no place in a price, and would be charged less`);
}

/** The dearer of two prices, amount by amount, of prompts of each length that either names. */
function raise(price: ListedPrice, other: ListedPrice): void {
  const before = structuredClone(price);
  const tiers = [...before.tiers, ...other.tiers];
  const starts = [-1, ...tiers.map((tier) => tier.above_prompt_tokens)];
  for (const name of Object.values(units).map(({ to }) => to))
    for (const start of starts) {
      const amount = amountOf(other, name, start);
      const present = amountOf(before, name, start);
      if (amount === undefined) continue;
      if (present !== undefined && compared(amount, present) <= 0) continue;
      (start < 0 ? price.amounts : tierOf(price.tiers, start))[name] = amount;
    }
}

/** An amount of prompts that are longer than so many tokens, of any below 0. */
function amountOf({ amounts, tiers }: ListedPrice, name: Amount, start: number) {
  const reached = tiers.filter((tier) => tier.above_prompt_tokens <= start);
  return reached.findLast((tier) => tier[name] !== undefined)?.[name] ?? amounts[name];
}
