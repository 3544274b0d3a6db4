import type { Metadata } from '../../ledger/price-lists';
import { compared, decimalText, shifted } from '../decimals';
import { longAbove, namesOf } from '../sellers';
import {
  type Catalog,
  cleaned,
  type Listed,
  type Listing,
  noPrice,
  type Source,
  shownValue,
  tierOf,
} from './catalog';

// Two plain lists of models with their prices: that of OpenRouter, which prices its own resale
// alone, and that of models.dev.

/** How OpenRouter writes a model, as far as it is read. */
export interface RouterModel {
  id: string;
  context_length?: number;
  architecture?: { input_modalities?: string[]; output_modalities?: string[] };
  top_provider?: { max_completion_tokens?: number | null };
  supported_parameters?: string[];
  pricing?: Record<string, unknown>;
}

const PER_MILLION = 6;

// USD a token, and USD a call (openrouter.ai/docs/client-sdks/python/components/publicpricing).
const router_tokens = {
  prompt: 'input_per_1m',
  completion: 'output_per_1m',
  input_cache_read: 'cached_input_per_1m',
  input_cache_write: 'cache_write_per_1m',
  input_cache_write_1h: 'cache_write_1h_per_1m',
  audio: 'audio_input_per_1m',
  audio_output: 'audio_output_per_1m',
} as const;
const router_units = { request: 'per_request', web_search: 'per_web_search' } as const;
// What a figure of tokens without a place is charged as.
const router_stand_ins = {
  internal_reasoning: 'completion',
  input_audio_cache: 'input_cache_read',
  image_token: 'prompt',
} as const;
// Every model has these; a zero of any other says that it has none such, not that they are free.
const of_every_model = new Set(['prompt', 'completion']);

/** Reads the answer of OpenRouter's `GET /api/v1/models`. */
export function fromOpenRouter(
  source: Source,
  { data }: { data: readonly RouterModel[] },
): Catalog {
  const listings = new Map(data.map((model) => [model.id, cleaned(routerListing(model))]));
  return { source, of: (seller) => (seller === 'openrouter' ? listings : new Map()) };
}

function routerListing(model: RouterModel): Listing {
  const { id, pricing = {}, context_length, top_provider, architecture } = model;
  const listing = blank(id);
  const { amounts } = listing.price;
  for (const [key, value] of Object.entries(pricing)) {
    const amount = decimalText(value);
    const of_tokens = ownOf(router_tokens, key);
    const of_units = ownOf(router_units, key);
    // -1 says that the price is found anew for each request.
    if (amount === undefined) listing.doubts.push(`${key} is no amount: ${shownValue(value)}`);
    else if (amount === '0' && !of_every_model.has(key)) continue;
    else if (of_tokens !== undefined) amounts[of_tokens] = shifted(amount, PER_MILLION);
    else if (of_units !== undefined) amounts[of_units] = amount;
    else loseOf(key, amount, pricing, listing);
  }
  listing.metadata = {
    context_length,
    max_output_tokens: top_provider?.max_completion_tokens,
    input_modalities: architecture?.input_modalities,
    output_modalities: architecture?.output_modalities,
    supported_parameters: model.supported_parameters,
  } as Metadata;
  return listing;
}

/** A figure without a place is told of, and doubted unless as much is charged in its stead. */
function loseOf(
  key: string,
  amount: string,
  pricing: NonNullable<RouterModel['pricing']>,
  { lost, doubts }: Listing,
): void {
  lost.push(key);
  const stand_in = ownOf(router_stand_ins, key);
  const instead = stand_in && (decimalText(pricing[stand_in]) ?? decimalText(pricing.prompt));
  if (compared(amount, instead ?? '0') > 0)
    doubts.push(`${key} (${amount}) has no place in a price, and would be charged less`);
}

interface DevModel {
  id: string;
  reasoning?: boolean;
  modalities?: { input?: string[]; output?: string[] };
  limit?: { context?: number; output?: number };
  cost?: Record<string, unknown>;
}

type DevProviders = Readonly<Record<string, { models: Readonly<Record<string, DevModel>> }>>;

const dev_amounts = {
  input: 'input_per_1m',
  output: 'output_per_1m',
  cache_read: 'cached_input_per_1m',
  cache_write: 'cache_write_per_1m',
  input_audio: 'audio_input_per_1m',
  output_audio: 'audio_output_per_1m',
} as const;

/** Reads `api.json` of models.dev. */
export function fromModelsDev(source: Source, providers: DevProviders): Catalog {
  const listed = new Map<string, ReadonlyMap<string, Listing>>();
  return {
    source,
    of(seller) {
      const known = listed.get(seller);
      if (known !== undefined) return known;
      const models = providers[namesOf(seller).models_dev ?? '']?.models ?? {};
      const rows = Object.entries(models).filter(([, model]) => typeof model === 'object' && model);
      const made = new Map(rows.map(([id, model]) => [id, cleaned(devListing(id, model, seller))]));
      listed.set(seller, made);
      return made;
    },
  };
}

// What a prompt above so many tokens costs stands in a member of its own.
const above = /^context_over_(\d+)k$/;

function devListing(
  id: string,
  { cost = {}, limit, modalities, reasoning }: DevModel,
  seller: string,
): Listing {
  const listing = blank(id);
  for (const [key, value] of Object.entries(cost)) {
    const name = ownOf(dev_amounts, key);
    const amount = decimalText(value);
    const [, thousands] = above.exec(key) ?? [];
    if (thousands !== undefined && typeof value === 'object' && value !== null)
      Object.assign(
        tierOf(listing.price.tiers, longAbove(seller, Number(thousands))),
        devAmounts(value),
      );
    else if (name === undefined) {
      listing.lost.push(key);
      listing.doubts.push(`${key} has no place in a price`);
    } else if (amount === undefined)
      listing.doubts.push(`${key} is no amount: ${shownValue(value)}`);
    else listing.price.amounts[name] = amount;
  }
  listing.metadata = {
    context_length: limit?.context,
    max_output_tokens: limit?.output,
    input_modalities: modalities?.input,
    output_modalities: modalities?.output,
    reasoning,
  } as Metadata;
  return listing;
}

/** What a table says of a key of a file, which may be any word. */
function ownOf<Value>(table: Readonly<Record<string, Value>>, key: string): Value | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function blank(model: string): Listing {
  return { model, price: noPrice(), coming: [], metadata: {}, doubts: [], lost: [] };
}

function devAmounts(value: object): Listed {
  const pairs = Object.entries(dev_amounts).map(([key, name]) => [
    name,
    decimalText((value as Record<string, unknown>)[key]),
  ]);
  return Object.fromEntries(pairs.filter(([, amount]) => amount !== undefined)) as Listed;
}
