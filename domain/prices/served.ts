import { CatalogError } from './catalogs/read';
import { decimalText } from './decimals';
import type { Served } from './plan';

/** What a gateway's configuration says of prices. */
export interface ServedModels {
  served: Served[];
  /** By provider: its `price_factor`. */
  factors: Record<string, string>;
}

/**
 * The models that a configuration of gateways serves, under the names that their prices have. It is
 * read as far as it is understood: whether it is right, the gateway says. Throws CatalogError for
 * two factors of one provider.
 */
export function servedBy(config: unknown): ServedModels {
  const found: ServedModels = { served: [], factors: {} };
  const targets = memberOf(memberOf(config, 'providers'), 'targets');
  for (const target of Array.isArray(targets) ? targets : []) {
    const kind = textOf(memberOf(target, 'kind'));
    const provider = textOf(memberOf(target, 'provider')) ?? kind ?? textOf(memberOf(target, 'id'));
    if (provider === undefined) continue;
    const factor = decimalText(memberOf(target, 'price_factor'));
    const known = found.factors[provider];
    if (factor !== undefined && known !== undefined && known !== factor)
      throw new CatalogError(`The provider ${provider} has the factors ${known} and ${factor}.`);
    if (factor !== undefined) found.factors[provider] = factor;
    const models = memberOf(target, 'models');
    for (const model of Array.isArray(models) ? models : []) {
      const named = memberOf(model, 'price_as') ?? memberOf(model, 'name') ?? model;
      const name = textOf(named);
      const seller = kind === 'compatible' ? undefined : kind;
      if (name !== undefined) found.served.push({ provider, model: name, seller });
    }
  }
  return found;
}

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return (value as Record<string, unknown>)[name];
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
