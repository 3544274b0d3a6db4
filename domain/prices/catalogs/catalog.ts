import type { Amount, Metadata } from '../../ledger/price-lists';

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

export function noPrice(): ListedPrice {
  return { amounts: {}, tiers: [], service_tiers: {} };
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
