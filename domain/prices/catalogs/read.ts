import { sha256 } from '../../digest';
import type { Catalog } from './catalog';
import { fromGenaiPrices, type GenaiProvider } from './genai-prices';
import { fromModelsDev, fromOpenRouter, type RouterModel } from './listed-models';
import { fromLitellm } from './litellm';

/** A file that is no price catalog, or none that is known. The message says what to do. */
export class CatalogError extends Error {}

/**
 * A catalog from a file's text, of whichever of the four formats it has. `name` is the file or
 * address that it came from; `dated` the day of the file, if somebody knows it.
 */
export async function readCatalog(
  text: string,
  { name, dated }: { name: string; dated: string | null },
): Promise<Catalog> {
  const data = parsed(text, name);
  const facts = { version: name, sha256: await sha256(text), dated };
  if (Array.isArray(data)) {
    const providers = data.filter(isGenaiProvider);
    if (providers.length > 0)
      return fromGenaiPrices({ catalog: 'genai-prices', ...facts }, providers, today);
  } else if (typeof data === 'object' && data !== null) {
    const members = Object.values(data);
    const listed = 'data' in data ? data.data : undefined;
    if (Array.isArray(listed) && listed.some((one) => hasMember(one, 'pricing')))
      return fromOpenRouter(
        { catalog: 'openrouter', ...facts },
        { data: listed.filter(isRouterModel) },
      );
    if (members.some((one) => hasMember(one, 'litellm_provider')))
      return fromLitellm({ catalog: 'litellm', ...facts }, data as Record<string, unknown>);
    if (members.some((one) => hasMember(one, 'models')))
      return fromModelsDev({ catalog: 'models.dev', ...facts }, data as never);
  }
  throw new CatalogError(
    `${name} is no price catalog. Known are the files of genai-prices (data.json), LiteLLM (model_prices_and_context_window.json), ` +
      'OpenRouter (the answer of /api/v1/models) and models.dev (api.json).',
  );
}

function parsed(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CatalogError(`${name} is no JSON: ${(error as Error).message}`);
  }
}

function isGenaiProvider(value: unknown): value is GenaiProvider {
  return hasMember(value, 'id') && hasMember(value, 'models') && Array.isArray(value.models);
}

function isRouterModel(value: unknown): value is RouterModel {
  return hasMember(value, 'id') && typeof value.id === 'string';
}

function hasMember<Name extends string>(
  value: unknown,
  name: Name,
): value is Record<Name, unknown> {
  return typeof value === 'object' && value !== null && name in value;
}

/** The day of UTC. */
export function today(): string {
  return dayOf(new Date());
}

/** The day of UTC of an instant: `2027-01-31`. */
export function dayOf(time: Date): string {
  return time.toISOString().slice(0, 10);
}
