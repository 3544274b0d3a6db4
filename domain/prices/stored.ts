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
  effective_from: Date;
  price: ListedPrice;
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

const shown = `id, version_id, provider, model, source, import_id, catalog, effective_from, ${as_text} as amounts,
  tiers, service_tiers, max_output_tokens, reasoning, free, metadata`;

/** What is in force now, a row a price; of the named providers, or of all. */
export async function inForce(db: Db, providers?: readonly string[]): Promise<Present[]> {
  const rows = await many<Row>(
    db,
    `select distinct on (id) ${shown} from model_prices
     where retired_at is null and effective_from <= clock_timestamp()
       and (:providers::text[] is null or provider = any (:providers))
     order by id, effective_from desc, updated_at desc`,
    { providers: providers ?? null },
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
  const lists = Object.entries(service_tiers ?? {});
  return {
    ...row,
    price: {
      amounts: listedOf(given),
      tiers: tiersOf(tiers ?? []),
      service_tiers: Object.fromEntries(
        lists.map(([name, list]) => {
          // A factor stands for no amounts that a catalog could say.
          const { tiers: own = [], ...rest } = typeof list === 'number' ? {} : list;
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
