import { type Db, many } from '../sql';
import { type ServedModels, servedBy } from './served';

// What all amounts of a provider are multiplied with: by its targets' `price_factor`, which
// gateways read as 1 where it is absent, or by what an import was told, which goes on.

/** As `servedBy`: a provider whose targets say no factor has 1, unless an import was told one. */
export async function servedIn(db: Db, ...configs: readonly unknown[]): Promise<ServedModels> {
  const found = servedBy(...configs);
  const told = await toldFactors(db);
  const plain = found.served
    .map(({ provider }) => provider)
    .filter((provider) => found.factors[provider] === undefined && !told.has(provider));
  return {
    served: found.served,
    factors: { ...found.factors, ...Object.fromEntries(plain.map((provider) => [provider, '1'])) },
  };
}

/**
 * The providers whose factor the import of their prices was told, and no target: of the versions in
 * force alone. What an older import was told ends with its prices.
 */
async function toldFactors(db: Db): Promise<Set<string>> {
  const rows = await many<{ provider: string }>(
    db,
    `select distinct p.provider from (
       select distinct on (q.id) q.provider, q.source, q.import_id from model_prices q
       where q.retired_at is null and q.effective_from <= clock_timestamp()
       order by q.id, q.effective_from desc, q.updated_at desc
     ) as p join price_imports i on i.id = p.import_id
     where p.source = 'import' and i.factors -> p.provider is not null`,
    {},
  );
  return new Set(rows.map(({ provider }) => provider));
}
