import type { Metadata } from '../../ledger/price-lists';
import { compared, decimalText, shifted, times } from '../decimals';
import { agree, wordsOf } from '../listed';
import { longAbove, namesOf } from '../sellers';
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

type Amount = keyof Listed;
type Entry = Record<string, unknown>;

const PER_MILLION = 6;
const OF_SECONDS_OUT = 'output_cost_per_second';

const per_million: Record<string, Amount> = {
  input_cost_per_token: 'input_per_1m',
  output_cost_per_token: 'output_per_1m',
  cache_read_input_token_cost: 'cached_input_per_1m',
  input_cost_per_token_cache_hit: 'cached_input_per_1m',
  cache_creation_input_token_cost: 'cache_write_per_1m',
  cache_creation_input_token_cost_above_1hr: 'cache_write_1h_per_1m',
  input_cost_per_audio_token: 'audio_input_per_1m',
  output_cost_per_audio_token: 'audio_output_per_1m',
  input_cost_per_image_token: 'image_input_per_1m',
  output_cost_per_image_token: 'image_output_per_1m',
  input_cost_per_video_token: 'video_input_per_1m',
  output_cost_per_video_token: 'video_output_per_1m',
  input_cost_per_character: 'per_1m_characters',
};

// Tiers of service that an answer names. Batches are no calls of a gateway.
const served_tiers = ['priority', 'flex'];

// Patterns, provisioned throughput, and entries of one region whose name no target has.
const other_wares = /\*|commitment|^[a-z]{2}(-gov)?-[a-z]+-\d\//;

// What a figure without a place is charged as.
const stand_ins: Record<string, Amount> = {
  output_cost_per_reasoning_token: 'output_per_1m',
  cache_read_input_audio_token_cost: 'cached_input_per_1m',
  cache_read_input_image_token_cost: 'cached_input_per_1m',
};

// What all figures are multiplied with at a place.
const uplift = /^regional_(?:endpoint|processing)_uplift_(multiplier(?:_eu|_us)?)$/;
const places: Record<string, string> = {
  multiplier: 'regional',
  multiplier_eu: 'eu',
  multiplier_us: 'us',
};

/** Reads LiteLLM's `model_prices_and_context_window.json`: exact keys, without their prefix. */
export function fromLitellm(source: Source, file: Readonly<Record<string, unknown>>): Catalog {
  const by_provider = new Map<unknown, [string, Entry][]>();
  for (const [key, value] of Object.entries(file)) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) continue;
    const entry = value as Entry;
    const rows = by_provider.get(entry.litellm_provider);
    if (rows === undefined) by_provider.set(entry.litellm_provider, [[key, entry]]);
    else rows.push([key, entry]);
  }
  const listed = new Map<string, ReadonlyMap<string, Listing>>();
  return {
    source,
    of(seller) {
      const known = listed.get(seller);
      if (known !== undefined) return known;
      const { litellm = [], prefixes = [] } = namesOf(seller);
      const made = new Map<string, Listing>();
      for (const [key, entry] of litellm.flatMap((name) => by_provider.get(name) ?? [])) {
        const prefix = prefixes.find((one) => key.startsWith(one)) ?? '';
        const model = key.slice(prefix.length);
        if (other_wares.test(model)) continue;
        const listing = cleaned(listingOf(model, entry, seller));
        const first = made.get(model);
        if (first === undefined) made.set(model, listing);
        else if (!agree(first.price, listing.price))
          first.doubts.push(`${key} is another entry of this name: ${wordsOf(listing.price)}`);
      }
      listed.set(seller, made);
      return made;
    },
  };
}

function listingOf(model: string, entry: Entry, seller: string): Listing {
  const listing: Listing = {
    model,
    price: noPrice(),
    coming: [],
    metadata: metadataOf(entry),
    uplifts: {},
    doubts: [],
    lost: [],
  };
  for (const [key, value] of Object.entries(entry)) readMember(key, value, listing, seller);
  readSpoken(entry, listing);
  for (const [key, stand_in] of Object.entries(stand_ins)) {
    const amount = decimalText(entry[key]);
    if (amount === undefined) continue;
    const instead = listing.price.amounts[stand_in] ?? listing.price.amounts.input_per_1m ?? '0';
    if (compared(shifted(amount, PER_MILLION), instead) > 0)
      listing.doubts.push(`${key} (${amount}) has no place in a price, and would be charged less`);
  }
  return listing;
}

function readMember(key: string, value: unknown, listing: Listing, seller: string): void {
  const { price } = listing;
  if (key === 'off_peak_pricing') listing.doubts.push('its price depends on the time of day');
  if (!/cost|uplift/.test(key)) return;
  // No call of a gateway is one of a batch.
  if (key.endsWith('_batches') || key === OF_SECONDS_OUT) return;
  if (key === 'search_context_cost_per_query') {
    readSearches(value, listing);
    return;
  }
  const amount = decimalText(value);
  const [, place = ''] = uplift.exec(key) ?? [];
  if (place !== '' && amount !== undefined) {
    listing.uplifts = { ...listing.uplifts, [places[place] ?? place]: amount };
    return;
  }
  if (amount === undefined) {
    listing.doubts.push(`${key} is no amount: ${shownValue(value)}`);
    return;
  }
  if (key === 'input_cost_per_second') price.amounts.per_minute = times(amount, '60');
  else if (key === 'input_cost_per_request') price.amounts.per_request = amount;
  else if (key === 'ocr_cost_per_page') price.amounts.per_page = amount;
  else if (key === 'code_interpreter_cost_per_session') price.amounts.per_container = amount;
  else if (!readTokens(key, shifted(amount, PER_MILLION), price, seller) && amount !== '0') {
    listing.lost.push(key);
    // Those that stand beside tokens are charged as something else; all others not at all.
    if (!Object.hasOwn(stand_ins, key) && !/uplift|_above_12hr|_(ultrafast|decisions)/.test(key))
      listing.doubts.push(`${key} (${amount}) has no place in a price`);
  }
}

/**
 * What a second that comes out costs. Models that write down sound list it beside the same second
 * that goes in, which alone is charged; of others it is all that they cost.
 */
function readSpoken(entry: Entry, listing: Listing): void {
  const amount = decimalText(entry[OF_SECONDS_OUT]);
  if (amount === undefined || amount === '0') return;
  if (compared(amount, decimalText(entry.input_cost_per_second) ?? '0') <= 0) return;
  listing.lost.push(OF_SECONDS_OUT);
  listing.doubts.push(`${OF_SECONDS_OUT} (${amount}) has no place in a price`);
}

/** False if the key is no amount of tokens that a price can say. */
function readTokens(key: string, amount: string, price: ListedPrice, seller: string): boolean {
  const tier = served_tiers.find((name) => key.endsWith(`_${name}`));
  const plain = tier === undefined ? key : key.slice(0, -tier.length - 1);
  const [, base = plain, above] = /^(.*?)_above_(\d+)k_tokens$/.exec(plain) ?? [];
  const name = Object.hasOwn(per_million, base) ? per_million[base] : undefined;
  if (name === undefined) return false;
  let into: Pick<ListedPrice, 'amounts' | 'tiers'> = price;
  if (tier !== undefined) into = price.service_tiers[tier] ??= { amounts: {}, tiers: [] };
  if (above === undefined) into.amounts[name] = amount;
  else tierOf(into.tiers, longAbove(seller, Number(above)))[name] = amount;
  return true;
}

/** One price of a search, if it is the same for each size of context. */
function readSearches(value: unknown, listing: Listing): void {
  const sizes = typeof value === 'object' && value !== null ? Object.values(value) : [value];
  const amounts = [...new Set(sizes.map(decimalText))];
  const [amount] = amounts;
  if (amounts.length === 1 && amount !== undefined) listing.price.amounts.per_web_search = amount;
  else listing.lost.push('search_context_cost_per_query');
}

/** As the file says it; what is not of its form is left out later. */
function metadataOf(entry: Entry): Metadata {
  const parameters = Object.entries(parameters_of).filter(([flag]) => entry[flag] === true);
  return {
    context_length: entry.max_input_tokens ?? entry.max_tokens,
    max_output_tokens: entry.max_output_tokens,
    input_modalities: entry.supported_modalities,
    output_modalities: entry.supported_output_modalities,
    supported_parameters: parameters.map(([, name]) => name),
    deprecation_date: entry.deprecation_date,
    successor: entry.successor_model,
    reasoning: entry.supports_reasoning,
  } as Metadata;
}

const parameters_of = {
  supports_function_calling: 'tools',
  supports_tool_choice: 'tool_choice',
  supports_parallel_function_calling: 'parallel_tool_calls',
  supports_response_schema: 'structured_outputs',
  supports_reasoning: 'reasoning',
};
