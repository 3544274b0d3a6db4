import { sha256 } from '../digest';
import { AppError } from '../errors';
import { amounts } from '../ledger/price-lists';
import { lockPriceEdits } from '../ledger/pricing';
import { type Db, many, maybe, one } from '../sql';
import type { Listed, ListedPrice, Source } from './catalogs/catalog';
import { type DiffRow, diff } from './diff';
import { nameOf, type Plan, type PlanRow } from './plan';

/** What was said yes to. Names are `provider/model`. */
export interface Consent {
  /** Rows that ask, or that would replace a price by hand. */
  take: readonly string[];
  /** Models without a listed amount that cost nothing. */
  free: readonly string[];
  /** Leave rows that ask as they are, in place of a refusal. */
  skip_asking?: boolean;
}

export interface PriceImport {
  id: string;
  created_at: Date;
  actor: string;
  sources: Source[];
  plan_sha256: string;
  undone_at: Date | null;
  undone_by: string | null;
  /** Versions that it made, planned ones too. */
  prices: number;
}

/** What an undo did. Names are `provider/model`. */
export interface Undone {
  /** Back at the version before. */
  restored: string[];
  /** Had no price before, and have none now. */
  removed: string[];
  /** Changed since by somebody else: left alone. */
  kept: string[];
}

const shown = `i.id, i.created_at, i.actor, i.sources, i.plan_sha256, i.undone_at, i.undone_by,
  (select count(*)::int from model_prices p where p.import_id = i.id) as prices`;

/**
 * Takes a plan over, in one transaction: new versions from now on, planned ones from the day that
 * the catalog says. 409 `prices_changed` if a price has changed since the plan was made; 409
 * `import_asks` with `asks` while rows ask that nobody has named.
 */
export function apply(db: Db, plan: Plan, consent: Consent, actor: string): Promise<PriceImport> {
  return db.transaction(async (trx) => {
    await lockPriceEdits(trx);
    const { rows } = await diff(trx, plan);
    const chosen = choose(rows, consent);
    const id = await insertImport(trx, plan, actor);
    const by_name = new Map(plan.rows.map((row) => [nameOf(row), row]));
    const versions = chosen.flatMap((row) =>
      versionsOf(by_name.get(nameOf(row)) as PlanRow, row, consent),
    );
    await insertVersions(trx, id, versions);
    return get(trx, id);
  });
}

/** The imports, the newest first. */
export function list(db: Db): Promise<PriceImport[]> {
  return many(db, `select ${shown} from price_imports i order by i.id desc limit 200`);
}

/**
 * Makes the versions before an import current again, as new versions; requests under way keep
 * theirs. A price that somebody has changed since is left alone. 409 `import_undone` the second
 * time.
 */
export function undo(db: Db, id: string, actor: string): Promise<Undone> {
  return db.transaction(async (trx) => {
    await lockPriceEdits(trx);
    const found = await get(trx, id);
    if (found.undone_at !== null)
      throw new AppError('import_undone', `The import ${id} was undone already.`);
    await many(
      trx,
      'update price_imports set undone_at = clock_timestamp(), undone_by = :actor where id = :id returning id',
      { id, actor },
    );
    return undoVersions(trx, id);
  });
}

async function undoVersions(trx: Db, id: string): Promise<Undone> {
  // Planned versions of it end; what is in force goes back where nobody has changed it since.
  await many(
    trx,
    `update model_prices set retired_at = clock_timestamp()
     where import_id = :id and retired_at is null and effective_from > clock_timestamp() returning id`,
    { id },
  );
  const current = await many<{
    price_id: string;
    name: string;
    is_own: boolean;
    replaced: string | null;
  }>(
    trx,
    `select distinct on (p.id) p.id as price_id, p.provider || '/' || p.model as name,
       coalesce(p.import_id = :id, false) as is_own, p.replaced_version_id as replaced
     from model_prices p
     where p.retired_at is null and p.effective_from <= clock_timestamp()
       and p.id in (select q.id from model_prices q where q.import_id = :id)
     order by p.id, p.effective_from desc, p.updated_at desc`,
    { id },
  );
  const own = current.filter(({ is_own }) => is_own);
  const back = own.filter(({ replaced }) => replaced !== null);
  const new_ones = own.filter(({ replaced }) => replaced === null);
  await many(
    trx,
    `insert into model_prices (id, provider, model, ${amounts.join(', ')}, max_output_tokens, reasoning, tiers, service_tiers, regions,
       free, effective_from, created_at, updated_at, source, import_id, catalog, metadata)
     select id, provider, model, ${amounts.join(', ')}, max_output_tokens, reasoning, tiers, service_tiers, regions,
       free, clock_timestamp(), created_at, clock_timestamp(), source, null, catalog, metadata
     from model_prices where version_id = any (:versions) returning id`,
    { versions: back.map(({ replaced }) => replaced) },
  );
  await many(
    trx,
    `update model_prices set retired_at = clock_timestamp() where id = any (:ids) and retired_at is null returning id`,
    { ids: new_ones.map(({ price_id }) => price_id) },
  );
  const names = (rows: { name: string }[]) => rows.map(({ name }) => name).sort();
  return {
    restored: names(back),
    removed: names(new_ones),
    kept: names(current.filter(({ is_own }) => !is_own)),
  };
}

async function get(db: Db, id: string): Promise<PriceImport> {
  const sql = `select ${shown} from price_imports i where i.id = :id`;
  const found = await maybe<PriceImport>(db, sql, { id });
  if (found === undefined)
    throw new AppError('not_found', 'No import of prices was found under this id.');
  return found;
}

function choose(rows: readonly DiffRow[], consent: Consent): DiffRow[] {
  const moved = rows.filter(({ group }) => group === 'moved').map(nameOf);
  if (moved.length > 0)
    throw new AppError(
      'prices_changed',
      `Prices have changed since the plan was made: ${few(moved)}. Make the plan again.`,
      { extra: { changed: moved } },
    );
  const taken = new Set([...consent.take, ...consent.free]);
  const unknown = [...taken].filter((name) => !rows.some((row) => nameOf(row) === name));
  if (unknown.length > 0)
    throw new AppError('invalid_field', `The plan has no row for ${few(unknown)}.`, {
      param: 'take',
    });
  const free = new Set(consent.free);
  const priced = rows.filter((row) => !row.is_empty && free.has(nameOf(row))).map(nameOf);
  if (priced.length > 0)
    throw new AppError(
      'invalid_field',
      `The catalog says amounts for ${few(priced)}: take it, or set free: true by hand.`,
      { param: 'free' },
    );
  const empty = rows.filter((row) => row.is_empty && taken.has(nameOf(row)));
  const unsaid = empty.map(nameOf).filter((name) => !free.has(name));
  if (unsaid.length > 0)
    throw new AppError(
      'invalid_field',
      `No catalog says an amount for ${few(unsaid)}. Name it as free if it costs nothing.`,
      { param: 'free' },
    );
  const asks = rows.filter((row) => row.group === 'asks' && !taken.has(nameOf(row))).map(nameOf);
  if (asks.length > 0 && consent.skip_asking !== true)
    throw new AppError(
      'import_asks',
      `Somebody has to say yes to ${few(asks)}: name what to take, or skip what asks.`,
      { extra: { asks } },
    );
  return rows.filter(
    (row) =>
      row.group === 'new' ||
      row.group === 'changed' ||
      (row.group !== 'same' && taken.has(nameOf(row))),
  );
}

function few(names: readonly string[]): string {
  const NAMED_MAX = 5;
  const rest = names.length - NAMED_MAX;
  return `${names.slice(0, NAMED_MAX).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

async function insertImport(trx: Db, plan: Plan, actor: string): Promise<string> {
  const { id } = await one<{ id: string }>(
    trx,
    `insert into price_imports (created_at, actor, sources, plan_sha256)
     values (clock_timestamp(), :actor, :sources, :plan_sha256) returning id`,
    {
      actor,
      sources: JSON.stringify(plan.sources),
      plan_sha256: await sha256(JSON.stringify(plan)),
    },
  );
  return id;
}

/** A version that is to be made, as the statement takes it. */
type Version = Record<string, unknown>;

function versionsOf(
  row: PlanRow,
  { coming, group, changes }: DiffRow,
  consent: Consent,
): Version[] {
  const free = consent.free.includes(nameOf(row));
  const days = row.coming.filter(({ from }) => coming.includes(from));
  const facts = {
    ...{ provider: row.provider, model: row.model, catalog: row.catalog, against: row.against },
    metadata: Object.keys(row.metadata).length > 0 ? row.metadata : null,
    max_output_tokens: row.metadata.max_output_tokens ?? null,
    reasoning: row.metadata.reasoning ?? false,
  };
  // A price that only has a later one to come stays as it is until then.
  const now = group !== 'changed' || changes.length > 0;
  return [
    ...(now ? [{ ...facts, ...columnsOf(row.price), free, effective_from: null }] : []),
    ...days.map(({ from, price }) => ({
      ...facts,
      ...columnsOf(price),
      free: false,
      effective_from: `${from}T00:00:00Z`,
    })),
  ];
}

function columnsOf(price: ListedPrice): Version {
  const tiers = price.tiers.map(({ above_prompt_tokens, ...list }) => ({
    above_prompt_tokens,
    ...numbered(list),
  }));
  const lists = Object.entries(price.service_tiers).map(([name, list]) => [
    name,
    {
      ...numbered(list.amounts),
      ...(list.tiers.length > 0
        ? {
            tiers: list.tiers.map(({ above_prompt_tokens, ...own }) => ({
              above_prompt_tokens,
              ...numbered(own),
            })),
          }
        : {}),
    },
  ]);
  return {
    ...Object.fromEntries(amounts.map((name) => [name, price.amounts[name] ?? null])),
    input_per_1m: price.amounts.input_per_1m ?? '0',
    output_per_1m: price.amounts.output_per_1m ?? '0',
    tiers: tiers.length > 0 ? tiers : null,
    service_tiers: lists.length > 0 ? Object.fromEntries(lists) : null,
  };
}

/** Lists stand as JSON: a double says the at most 15 digits of an amount exactly. */
function numbered(list: Listed): Record<string, number> {
  return Object.fromEntries(Object.entries(list).map(([name, amount]) => [name, Number(amount)]));
}

async function insertVersions(trx: Db, import_id: string, versions: Version[]): Promise<void> {
  const typed = amounts.map((name) => `${name} numeric`).join(', ');
  await many(
    trx,
    `insert into model_prices (id, provider, model, ${amounts.join(', ')}, max_output_tokens, reasoning, tiers, service_tiers, free,
       effective_from, created_at, updated_at, source, import_id, catalog, replaced_version_id, metadata)
     select coalesce(p.id, m.id), n.provider, n.model, ${amounts.map((name) => `n.${name}`).join(', ')},
       coalesce(n.max_output_tokens, p.max_output_tokens), n.reasoning or coalesce(p.reasoning, false), n.tiers, n.service_tiers, n.free,
       coalesce(n.effective_from, clock_timestamp()), coalesce(p.created_at, clock_timestamp()), clock_timestamp(),
       'import', :import_id, n.catalog, case when n.effective_from is null then p.version_id end, coalesce(n.metadata, p.metadata)
     from jsonb_to_recordset(:versions::jsonb) as n (provider text, model text, ${typed}, max_output_tokens integer, reasoning boolean,
       tiers jsonb, service_tiers jsonb, free boolean, effective_from timestamptz, catalog text, against text, metadata jsonb)
     join (
       select name, new_id('price') as id from (
         select distinct v ->> 'provider' || '/' || (v ->> 'model') as name from jsonb_array_elements(:versions::jsonb) as v) as d
     ) as m on m.name = n.provider || '/' || n.model
     left join model_prices p on p.version_id = n.against
     returning id`,
    { import_id, versions: JSON.stringify(versions) },
  );
}
