import { type Db, many } from '../sql';
import type { WholeSeller } from './plan';
import { type ServedModels, servedBy } from './served';
import { presentPrices } from './stored';

// What all amounts of a provider are multiplied with: by its targets' `price_factor`, which
// gateways read as 1 where it is absent, or by what an import was told, which goes on.

/** As `servedBy`: a provider whose targets say no factor has 1, unless an import was told one. */
export async function servedIn(db: Db, ...configs: readonly unknown[]): Promise<ServedModels> {
  const found = servedBy(...configs);
  const silent = new Set(
    [...found.served, ...(found.discovering ?? [])]
      .map(({ provider }) => provider)
      .filter((provider) => found.factors[provider] === undefined),
  );
  const told = await toldFactors(db, [...silent]);
  const plain = [...silent].filter((provider) => !told.has(provider));
  return {
    ...found,
    factors: { ...found.factors, ...Object.fromEntries(plain.map((provider) => [provider, '1'])) },
  };
}

/**
 * The models of several versions of a configuration, the newest first. Of two factors of one
 * provider the newest version's counts: a rollout brings it to the rest.
 */
export async function servedByVersions(
  db: Db,
  versions: readonly unknown[],
): Promise<ServedModels> {
  const found: ServedModels = { served: [], factors: {} };
  const listed_there = new Map<string, WholeSeller>();
  for (const config of versions.toReversed()) {
    const { served, factors, discovering = [] } = await servedIn(db, config);
    found.served.push(...served);
    Object.assign(found.factors, factors);
    for (const one of discovering) listed_there.set(one.provider, one);
  }
  return listed_there.size === 0 ? found : { ...found, discovering: [...listed_there.values()] };
}

/**
 * Those of the providers whose factor the import of their prices was told, and no target: of the
 * present prices alone. What an older import was told ends with its prices.
 */
async function toldFactors(db: Db, providers: readonly string[]): Promise<Set<string>> {
  const imported = (await presentPrices(db, providers)).filter(({ source }) => source === 'import');
  const imports = await many<{ id: string; factors: Record<string, string> }>(
    db,
    'select i.id, i.factors from price_imports i where i.id = any (:ids)',
    { ids: [...new Set(imported.map(({ import_id }) => import_id))] },
  );
  const factors = new Map(imports.map((one) => [one.id, one.factors]));
  const told = imported.filter(
    ({ import_id, provider }) => factors.get(import_id ?? '')?.[provider] !== undefined,
  );
  return new Set(told.map(({ provider }) => provider));
}
