import type { Amount, Metadata } from '../../ledger/price-lists';
import { cut } from '../../texts';

/** Amounts as exact decimal text: USD per million tokens, or per unit. */
export type Listed = { [name in Amount]?: string };

export type ListedTier = Listed & { above_prompt_tokens: number };

/** The amounts of a model, with those of long prompts and of other tiers of service. */
export interface ListedPrice {
  amounts: Listed;
  tiers: ListedTier[];
  service_tiers: Record<string, { amounts: Listed; tiers: ListedTier[] }>;
}

/** A model in a catalog. */
export interface Listing {
  model: string;
  price: ListedPrice;
  /** Prices that come into force later, by the day on which they start. */
  coming: { from: string; price: ListedPrice }[];
  metadata: Metadata;
  /** The seller whose price this is, if the catalog only supposes that it is the same. */
  lent_by?: string;
  /**
   * What its amounts are multiplied with at some places: `regional` of all but the global one,
   * `eu`, `us`. Absent: the catalog says nothing of places.
   */
  uplifts?: Record<string, string>;
  /** What a person has to decide, in words: why the figure may be wrong. */
  doubts: string[];
  /** Figures of the catalog that a price has no place for. */
  lost: string[];
}

/** Where a figure comes from. */
export interface Source {
  catalog: 'genai-prices' | 'litellm' | 'openrouter' | 'models.dev';
  /** The version of a package, or the file's or address's name. */
  version: string;
  sha256: string;
  /** The day of its data; null where the catalog does not say. */
  dated: string | null;
}

export interface Catalog {
  source: Source;
  /** Comes with this version: its age is no fault of the installation. */
  is_built_in?: boolean;
  /** Its listings of a seller, by their exact names and declared aliases. */
  of(seller: string): ReadonlyMap<string, Listing>;
}

const SHOWN_CHARACTERS = 200;

export function noPrice(): ListedPrice {
  return { amounts: {}, tiers: [], service_tiers: {} };
}

/** What a catalog says in place of an amount, for a person: its beginning. */
export function shownValue(value: unknown): string {
  try {
    return cut(String(JSON.stringify(value)), SHOWN_CHARACTERS);
  } catch {
    return 'more than can be shown';
  }
}

/** The tier of a prompt longer than `above`, made if it is not there yet. */
export function tierOf(tiers: ListedTier[], above_prompt_tokens: number): ListedTier {
  const found = tiers.find((tier) => tier.above_prompt_tokens === above_prompt_tokens);
  if (found !== undefined) return found;
  const made: ListedTier = { above_prompt_tokens };
  tiers.push(made);
  tiers.sort((a, b) => a.above_prompt_tokens - b.above_prompt_tokens);
  return made;
}

// What a price takes, and a plan holds: a row that says more is cut, and says so.
const AMOUNT = /^\d{1,10}(\.\d{1,12})?$/;
const TIERS_MAX = 16;
const LIST_MAX = 16;
const PARAMETERS_MAX = 64;
const NAME_MAX = 64;
const COUNT_MAX = 1_000_000_000;

/** A listing whose every part a price and a plan can hold; what is left out is a doubt. */
export function cleaned(listing: Listing): Listing {
  const { price, coming, metadata } = listing;
  for (const one of [price, ...coming.map((later) => later.price)]) {
    const lists = Object.values(one.service_tiers);
    for (const list of [one, ...lists]) {
      if (list.tiers.length > TIERS_MAX) {
        listing.doubts.push(`only ${TIERS_MAX} of its ${list.tiers.length} tiers are kept`);
        list.tiers.length = TIERS_MAX;
      }
      for (const amounts of [list.amounts, ...list.tiers]) keepAmounts(amounts, listing);
    }
  }
  listing.metadata = cleanedMetadata(metadata);
  return listing;
}

function keepAmounts(amounts: object, listing: Listing): void {
  const all = amounts as Record<string, unknown>;
  for (const [name, amount] of Object.entries(all)) {
    if (typeof amount !== 'string' || AMOUNT.test(amount)) continue;
    listing.doubts.push(`${name} is ${amount.slice(0, 40)}, which no price can say`);
    delete all[name];
  }
}

function cleanedMetadata(given: Metadata): Metadata {
  const { context_length, max_output_tokens, reasoning, deprecation_date, successor } = given;
  const lists = {
    input_modalities: words(given.input_modalities, LIST_MAX),
    output_modalities: words(given.output_modalities, LIST_MAX),
    supported_parameters: words(given.supported_parameters, PARAMETERS_MAX),
  };
  const members = {
    ...(isCount(context_length) ? { context_length } : {}),
    ...(isCount(max_output_tokens) ? { max_output_tokens } : {}),
    ...Object.fromEntries(Object.entries(lists).filter(([, list]) => list.length > 0)),
    ...(typeof deprecation_date === 'string' && /^\d{4}-\d\d-\d\d$/.test(deprecation_date)
      ? { deprecation_date }
      : {}),
    ...(typeof successor === 'string' && successor !== ''
      ? { successor: cut(successor, 200) }
      : {}),
    ...(reasoning === true ? { reasoning } : {}),
  };
  return members;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) > 0 && (value as number) <= COUNT_MAX;
}

function words(given: unknown, most: number): string[] {
  if (!Array.isArray(given)) return [];
  return given
    .filter((one): one is string => typeof one === 'string' && one !== '')
    .map((one) => cut(one, NAME_MAX))
    .slice(0, most);
}
