import { amounts, type Metadata } from '../ledger/price-lists';
import { type Db, many } from '../sql';
import type { Listed, ListedPrice, ListedTier } from './catalogs/catalog';
import { decimalText } from './decimals';

/** A version of a price as an import compares it: amounts as exact text. */
export interface Present {
  id: string;
  version_id: string;
  provider: string;
  model: string;
  source: 'hand' | 'import';
  import_id: string | null;
  catalog: string | null;
  /** Whose price an import took, and what it multiplied it with. */
  seller: string | null;
  price_factor: string | null;
  effective_from: Date;
  price: ListedPrice;
  /** The regions with amounts of their own; a factor goes on as it is. */
  regions: string[];
  max_output_tokens: number | null;
  reasoning: boolean;
  free: boolean;
  metadata: Metadata | null;
}

type Row = Omit<Present, 'price'> & {
  amounts: Record<string, string | null>;
  tiers: Record<string, number>[] | null;
  service_tiers: Record<string, Record<string, unknown> | number> | null;
};

const as_text = `jsonb_build_object(${amounts.map((name) => `'${name}', trim_scale(${name})::text`).join(', ')})`;

const shown = `id, version_id, provider, model, source, import_id, catalog, seller,
  trim_scale(price_factor)::text as price_factor, effective_from, ${as_text} as amounts,
  tiers, service_tiers, array(select r.key from jsonb_each(coalesce(model_prices.regions, '{}')) as r
    where jsonb_typeof(r.value) = 'object' order by r.key) as regions, max_output_tokens, reasoning, free, metadata`;

/**
 * The prices of the named providers, a row a price: the version in force now, else the one that
 * comes next.
 */
export async function presentPrices(db: Db, providers: readonly string[]): Promise<Present[]> {
  const rows = await many<Row>(
    db,
    `select distinct on (id) ${shown} from model_prices
     where retired_at is null and provider = any (:providers)
     order by id, effective_from <= clock_timestamp() desc,
       case when effective_from <= clock_timestamp() then effective_from end desc, effective_from, updated_at desc`,
    { providers },
  );
  return rows.map(presentOf);
}

/** The versions that come into force later. */
export async function planned(db: Db, providers: readonly string[]): Promise<Present[]> {
  const rows = await many<Row>(
    db,
    `select ${shown} from model_prices
     where retired_at is null and effective_from > clock_timestamp() and provider = any (:providers)
     order by effective_from`,
    { providers },
  );
  return rows.map(presentOf);
}

function presentOf({ amounts: given, tiers, service_tiers, ...row }: Row): Present {
  // A factor stands for no amounts that a catalog could say; it goes on as it is.
  const lists = Object.entries(service_tiers ?? {}).filter(
    (one): one is [string, Record<string, unknown>] => typeof one[1] === 'object',
  );
  return {
    ...row,
    price: {
      amounts: listedOf(given),
      tiers: tiersOf(tiers ?? []),
      service_tiers: Object.fromEntries(
        lists.map(([name, list]) => {
          const { tiers: own = [], ...rest } = list;
          return [
            name,
            { amounts: listedOf(rest), tiers: tiersOf(own as Record<string, number>[]) },
          ];
        }),
      ),
    },
  };
}

function tiersOf(tiers: Record<string, number>[]): ListedTier[] {
  return tiers.map(({ above_prompt_tokens = 0, ...rest }) => ({
    above_prompt_tokens,
    ...listedOf(rest),
  }));
}

function listedOf(given: Record<string, unknown>): Listed {
  const pairs = amounts.map((name) => [name, decimalText(given[name])] as const);
  return Object.fromEntries(pairs.filter(([, amount]) => amount !== undefined)) as Listed;
}
