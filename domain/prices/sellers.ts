// Who sells models, and under which names price catalogs know them. A provider of a gateway's
// target is priced as a seller: that of its kind, else the one of its own name.

interface Names {
  /** The provider's id in genai-prices. */
  genai_prices?: string;
  /** Sellers there whose prices it is supposed to share; somebody has to confirm each. */
  lent_by?: readonly string[];
  /** Values of `litellm_provider`. */
  litellm?: readonly string[];
  /** The key in the list of models.dev. */
  models_dev?: string;
  /** What LiteLLM puts before a model's name, to be taken off: the first that fits. */
  prefixes?: readonly string[];
  /** The least of a sound that is paid, in seconds: no catalog lists it. */
  minimum_seconds?: string;
  /** A prompt that reaches the threshold of its long prices is long, not only one above it. */
  is_long_at_threshold?: boolean;
  /** Tokens of a cache cost a share of the input where it lists no price of them. */
  shares_cached?: boolean;
  /** Places at which all models have their list's price; at others some may cost more. */
  plain_places?: readonly string[];
}

const sellers: Readonly<Record<string, Names>> = {
  openai: {
    genai_prices: 'openai',
    litellm: ['openai'],
    models_dev: 'openai',
    plain_places: [],
  },
  anthropic: { genai_prices: 'anthropic', litellm: ['anthropic'], models_dev: 'anthropic' },
  gemini: {
    genai_prices: 'google',
    litellm: ['gemini'],
    models_dev: 'google',
    prefixes: ['gemini/'],
  },
  vertex: {
    genai_prices: 'google',
    lent_by: ['anthropic'],
    litellm: [
      'vertex_ai-language-models',
      'vertex_ai-anthropic_models',
      'vertex_ai-embedding-models',
      'vertex_ai',
    ],
    plain_places: ['global'],
    models_dev: 'google-vertex',
    prefixes: ['vertex_ai/'],
  },
  azure: {
    genai_prices: 'azure',
    lent_by: ['openai', 'anthropic', 'deepseek', 'x-ai'],
    litellm: ['azure', 'azure_ai'],
    models_dev: 'azure',
    prefixes: ['azure/', 'azure_ai/'],
  },
  bedrock: {
    genai_prices: 'aws',
    litellm: ['bedrock', 'bedrock_converse', 'bedrock_mantle'],
    models_dev: 'amazon-bedrock',
    prefixes: ['bedrock/', 'bedrock_mantle/'],
  },
  mistral: {
    genai_prices: 'mistral',
    litellm: ['mistral'],
    models_dev: 'mistral',
    prefixes: ['mistral/'],
  },
  groq: {
    genai_prices: 'groq',
    litellm: ['groq'],
    models_dev: 'groq',
    prefixes: ['groq/'],
    // console.groq.com/docs/speech-to-text: "Minimum Billed Length: 10 seconds".
    minimum_seconds: '10',
  },
  deepseek: {
    genai_prices: 'deepseek',
    litellm: ['deepseek'],
    models_dev: 'deepseek',
    prefixes: ['deepseek/'],
  },
  xai: {
    genai_prices: 'x-ai',
    litellm: ['xai'],
    models_dev: 'xai',
    prefixes: ['xai/'],
    is_long_at_threshold: true,
  },
  together: {
    genai_prices: 'together',
    litellm: ['together_ai'],
    models_dev: 'togetherai',
    prefixes: ['together_ai/'],
  },
  fireworks: {
    genai_prices: 'fireworks',
    litellm: ['fireworks_ai'],
    models_dev: 'fireworks-ai',
    prefixes: ['fireworks_ai/'],
    shares_cached: true,
  },
  openrouter: {
    genai_prices: 'openrouter',
    litellm: ['openrouter'],
    models_dev: 'openrouter',
    prefixes: ['openrouter/'],
  },
  cohere: {
    genai_prices: 'cohere',
    litellm: ['cohere', 'cohere_chat'],
    models_dev: 'cohere',
    prefixes: ['cohere/'],
  },
  perplexity: {
    genai_prices: 'perplexity',
    litellm: ['perplexity'],
    models_dev: 'perplexity',
    prefixes: ['perplexity/'],
  },
};

// Names that people give a provider, beside that of its seller.
const aliases: Readonly<Record<string, string>> = {
  google: 'gemini',
  'x-ai': 'xai',
  aws: 'bedrock',
  'azure-openai': 'azure',
  vertex_ai: 'vertex',
  together_ai: 'together',
  fireworks_ai: 'fireworks',
};

export const seller_names = Object.keys(sellers);

/** The seller of a name, or of one that people give it; undefined if no catalog knows it. */
export function sellerOf(name: string): string | undefined {
  const found = aliases[name] ?? name;
  return Object.hasOwn(sellers, found) ? found : undefined;
}

/** Above how many tokens a seller's prompt is long, by the threshold that a catalog names. */
export function longAbove(seller: string, thousands: number): number {
  return thousands * 1_000 - (namesOf(seller).is_long_at_threshold === true ? 1 : 0);
}

export function namesOf(seller: string): Names {
  return sellers[seller] ?? {};
}
