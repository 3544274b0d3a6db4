import { CatalogError } from './catalogs/read';
import { decimalText } from './decimals';
import type { Served, WholeSeller } from './plan';

/** What a gateway's configuration says of prices. */
export interface ServedModels {
  served: Served[];
  /** By provider: its `price_factor`. */
  factors: Record<string, string>;
  /** Providers of targets that list their models themselves, which are not known here. */
  discovering?: readonly WholeSeller[];
}

/**
 * The models that configurations of gateways serve, under the names that their prices have. They
 * are read as far as they are understood: whether they are right, the gateway says. Throws
 * CatalogError for two factors of one provider, in one of them or in two.
 */
export function servedBy(...configs: readonly unknown[]): ServedModels {
  const found: ServedModels = { served: [], factors: {} };
  const discovering = new Map<string, WholeSeller>();
  for (const target of configs.flatMap(targetsOf)) {
    const kind = textOf(memberOf(target, 'kind'));
    const provider = textOf(memberOf(target, 'provider')) ?? kind ?? textOf(memberOf(target, 'id'));
    if (provider === undefined) continue;
    const factor = decimalText(memberOf(target, 'price_factor'));
    const known = found.factors[provider];
    if (factor !== undefined && known !== undefined && known !== factor)
      throw new CatalogError(`The provider ${provider} has the factors ${known} and ${factor}.`);
    if (factor !== undefined) found.factors[provider] = factor;
    const place = placeOf(target);
    const models = memberOf(target, 'models');
    const is_listed_there = (memberOf(target, 'discover') ?? false) !== false;
    const seller = kind === 'compatible' ? undefined : kind;
    if (is_listed_there) discovering.set(provider, { provider, seller });
    for (const model of Array.isArray(models) ? models : []) {
      const named = memberOf(model, 'price_as') ?? memberOf(model, 'name') ?? model;
      const name = textOf(named);
      if (name !== undefined) found.served.push({ provider, model: name, seller, place });
    }
  }
  return discovering.size === 0 ? found : { ...found, discovering: [...discovering.values()] };
}

/** Sellers as a plan wants them: one for each place at which targets ask them, else one alone. */
export function atPlaces(
  sellers: readonly WholeSeller[],
  served: readonly Served[],
): WholeSeller[] {
  return sellers.flatMap((seller) => {
    const asked = served.filter(({ provider }) => provider === seller.provider);
    const places = new Set(asked.flatMap(({ place }) => (place === undefined ? [] : [place])));
    return places.size === 0 ? [seller] : [...places].map((place) => ({ ...seller, place }));
  });
}

/** Its location, or the region of a host of OpenAI's: `eu.api.openai.com`. */
function placeOf(target: unknown): string | undefined {
  const host = /^https:\/\/(\w+)\.api\.openai\.com(?:[:/]|$)/i;
  const [, region] = host.exec(textOf(memberOf(target, 'base_url')) ?? '') ?? [];
  return textOf(memberOf(target, 'location')) ?? region?.toLowerCase();
}

function targetsOf(config: unknown): unknown[] {
  const targets = memberOf(memberOf(config, 'providers'), 'targets');
  return Array.isArray(targets) ? targets : [];
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return (value as Record<string, unknown>)[name];
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
