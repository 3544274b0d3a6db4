import { sha256 } from '../domain/digest';
import type { Catalog } from '../domain/prices/catalogs/catalog';
import { fromGenaiPrices, type GenaiProvider } from '../domain/prices/catalogs/genai-prices';
import { today } from '../domain/prices/catalogs/read';

/** The pinned release of `@pydantic/genai-prices`. A test holds it against the package. */
export const built_in = { version: '0.1.8', dated: '2026-09-23' };

// The package finds a provider by its id only.
const provider_ids = [
  ...['openai', 'anthropic', 'google', 'azure', 'aws', 'mistral', 'groq', 'deepseek', 'x-ai'],
  ...['together', 'fireworks', 'openrouter', 'cohere', 'perplexity'],
];

let loaded: Promise<Catalog> | undefined;

/** The catalog inside: genai-prices as data, offline. Its own matcher is not used. */
export function builtInCatalog(): Promise<Catalog> {
  loaded ??= load();
  return loaded;
}

async function load(): Promise<Catalog> {
  // Half a megabyte, which only a process that asks for prices pays.
  const { findProvider } = await import('@pydantic/genai-prices');
  const providers = provider_ids.flatMap((providerId) => {
    const found = findProvider({ providerId });
    return found === undefined ? [] : [found as unknown as GenaiProvider];
  });
  const digest = await sha256(JSON.stringify(providers));
  const source = { catalog: 'genai-prices' as const, ...built_in, sha256: digest };
  return { ...fromGenaiPrices(source, providers, today), is_built_in: true };
}
