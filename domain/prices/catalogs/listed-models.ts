import { decimalText, shifted } from '../decimals';
import { namesOf } from '../sellers';
import { type Catalog, type Listing, noPrice, type Source } from './catalog';

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

// USD a token, and USD a call.
const router_tokens = {
  prompt: 'input_per_1m',
  completion: 'output_per_1m',
  input_cache_read: 'cached_input_per_1m',
  input_cache_write: 'cache_write_per_1m',
} as const;
const router_units = { request: 'per_request', web_search: 'per_web_search' } as const;

/** Reads the answer of OpenRouter's `GET /api/v1/models`. */
export function fromOpenRouter(
  source: Source,
  { data }: { data: readonly RouterModel[] },
): Catalog {
  const listings = new Map(data.map((model) => [model.id, routerListing(model)]));
  return { source, of: (seller) => (seller === 'openrouter' ? listings : new Map()) };
}

function routerListing(model: RouterModel): Listing {
  const { id, pricing = {}, context_length, top_provider, architecture } = model;
  const listing = blank(id);
  const { amounts } = listing.price;
  for (const [key, value] of Object.entries(pricing)) {
    const amount = decimalText(value);
    const of_tokens = router_tokens[key as keyof typeof router_tokens];
    const of_units = router_units[key as keyof typeof router_units];
    // -1 says that the price is found anew for each request.
    if (amount === undefined) listing.doubts.push(`${key} is no amount: ${JSON.stringify(value)}`);
    else if (of_tokens !== undefined) amounts[of_tokens] = shifted(amount, PER_MILLION);
    else if (of_units !== undefined && amount !== '0') amounts[of_units] = amount;
    else if (amount !== '0') listing.lost.push(key);
  }
  listing.metadata = {
    ...(context_length ? { context_length } : {}),
    ...(top_provider?.max_completion_tokens
      ? { max_output_tokens: top_provider.max_completion_tokens }
      : {}),
    ...(architecture?.input_modalities ? { input_modalities: architecture.input_modalities } : {}),
    ...(architecture?.output_modalities
      ? { output_modalities: architecture.output_modalities }
      : {}),
    ...(model.supported_parameters ? { supported_parameters: model.supported_parameters } : {}),
  };
  return listing;
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
  return {
    source,
    of(seller) {
      const models = providers[namesOf(seller).models_dev ?? '']?.models ?? {};
      return new Map(Object.entries(models).map(([id, model]) => [id, devListing(id, model)]));
    },
  };
}

function devListing(id: string, { cost = {}, limit, modalities, reasoning }: DevModel): Listing {
  const listing = blank(id);
  for (const [key, value] of Object.entries(cost)) {
    const name = dev_amounts[key as keyof typeof dev_amounts];
    const amount = decimalText(value);
    if (name === undefined) listing.lost.push(key);
    else if (amount === undefined)
      listing.doubts.push(`${key} is no amount: ${JSON.stringify(value)}`);
    else listing.price.amounts[name] = amount;
  }
  listing.metadata = {
    ...(limit?.context ? { context_length: limit.context } : {}),
    ...(limit?.output ? { max_output_tokens: limit.output } : {}),
    ...(modalities?.input ? { input_modalities: modalities.input } : {}),
    ...(modalities?.output ? { output_modalities: modalities.output } : {}),
    ...(reasoning === true ? { reasoning } : {}),
  };
  return listing;
}

function blank(model: string): Listing {
  return { model, price: noPrice(), coming: [], metadata: {}, doubts: [], lost: [] };
}
