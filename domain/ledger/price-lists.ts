// The amounts of a price, and the lists of them that take effect together. The columns of
// model_prices have these names; billed_figures says which count of a usage meets which amount.

/** What every price says. */
const needed = ['input_per_1m', 'output_per_1m'] as const;

/** What a price may say besides; a missing one is its parent's, or nothing. */
const optional = [
  'cached_input_per_1m',
  'cache_write_per_1m',
  'cache_write_1h_per_1m',
  'audio_input_per_1m',
  'audio_output_per_1m',
  'image_input_per_1m',
  'image_output_per_1m',
  'video_input_per_1m',
  'video_output_per_1m',
  'per_minute',
  'per_1m_characters',
  'per_request',
  'per_tool_call',
  'per_web_search',
  'per_file_search',
  'per_container',
  'per_page',
  'minimum',
  'minimum_seconds',
] as const;

/** All of them, in the order in which they are shown. */
export const amounts = [...needed, ...optional] as const;

export type Amount = (typeof amounts)[number];

/** True of an amount that every price says. */
export function isNeeded(name: Amount): boolean {
  return (needed as readonly Amount[]).includes(name);
}

/** The amounts of a price, in USD but for `minimum_seconds`. */
export type Figures = Record<(typeof needed)[number], number> &
  Record<(typeof optional)[number], number | null>;

/** A price whose amounts say nothing yet. */
export const blankFigures: Figures = {
  input_per_1m: 0,
  output_per_1m: 0,
  ...(Object.fromEntries(optional.map((name) => [name, null])) as Record<
    (typeof optional)[number],
    null
  >),
};

// The amount that stands in for one that a price does not have, if it is a fee by number.
const fallbacks: { [name in Amount]?: Amount } = {
  per_web_search: 'per_tool_call',
  per_file_search: 'per_tool_call',
  per_container: 'per_tool_call',
};

/** An amount of a price, or the one that stands in for it; null if it has neither. */
export function amountOf(price: Figures, name: Amount): number | null {
  const instead = fallbacks[name];
  return price[name] ?? (instead ? (price[instead] ?? null) : null);
}

type Amounts = { [name in Amount]?: number | null | undefined };

/** The amounts of requests whose prompt is longer than a number of tokens. */
export type PriceTier = Amounts & { above_prompt_tokens: number };

/** What a tier of service or a region costs: its amounts, or a factor on those of the price. */
export type PriceList = number | (Amounts & { tiers?: PriceTier[] | undefined });

/** True if a price, or one of its lists, charges anything. */
export function hasAmount(price: Amounts & Lists): boolean {
  const lists = [...valuesOf(price.service_tiers), ...valuesOf(price.regions)];
  const named = lists.filter((list) => typeof list === 'object');
  const tiers = [price, ...named].flatMap((list) => list.tiers ?? []);
  return [price, ...named, ...tiers].some((list) =>
    amounts.some((name) => name !== 'minimum_seconds' && list[name]),
  );
}

interface Lists {
  tiers: PriceTier[] | null;
  service_tiers: Record<string, PriceList> | null;
  regions: Record<string, PriceList> | null;
}

function valuesOf(lists: Record<string, PriceList> | null): PriceList[] {
  return Object.values(lists ?? {});
}

/** What a catalog knows of a model beside its price. */
export interface Metadata {
  context_length?: number;
  max_output_tokens?: number;
  input_modalities?: string[];
  output_modalities?: string[];
  supported_parameters?: string[];
  /** `2027-04-30` */
  deprecation_date?: string;
  successor?: string;
  reasoning?: boolean;
  /** `eu: 1.1`: places of its targets where a list says more than what is charged. */
  uplifts?: string[];
}
