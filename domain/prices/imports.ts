import { sha256 } from '../digest';
import { AppError } from '../errors';
import { tellImport } from '../events';
import { amounts } from '../ledger/price-lists';
import { lockPriceEdits } from '../ledger/pricing';
import { type Db, many, maybe, one } from '../sql';
import type { Listed, ListedPrice, Source } from './catalogs/catalog';
import { type Judged, judge, presentMoment } from './judge';
import { nameOf, type Plan } from './plan';

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
    const free = new Set(consent.free);
    const now = await presentMoment(trx);
    const chosen = choose(await judge(trx, plan, now), consent);
    const id = await insertImport(trx, plan, consent, actor);
    await retirePlanned(trx, id, chosen);
    await insertVersions(
      trx,
      { id, now },
      chosen.flatMap((row) => versionsOf(row, free.has(nameOf(row.row)))),
    );
    const made = await get(trx, id);
    await tellImport(trx, 'prices.imported', { import_id: id, actor, prices: made.prices });
    return made;
  });
}

/** The newest 200 imports. */
export function list(db: Db): Promise<PriceImport[]> {
  return many(db, `select ${shown} from price_imports i order by i.id desc limit 200`);
}

export async function get(db: Db, id: string): Promise<PriceImport> {
  const sql = `select ${shown} from price_imports i where i.id = :id`;
  const found = await maybe<PriceImport>(db, sql, { id });
  if (found === undefined)
    throw new AppError('not_found', 'No import of prices was found under this id.');
  return found;
}

function choose(rows: readonly Judged[], { take, free, skip_asking }: Consent): Judged[] {
  const by_name = new Map(rows.map((judged) => [nameOf(judged.row), judged]));
  const moved = namesOf(rows.filter(({ group }) => group === 'moved'));
  if (moved.length > 0)
    throw new AppError(
      'prices_changed',
      `Prices have changed since the plan was made: ${few(moved)}. Make the plan again.`,
      { extra: { changed: moved } },
    );
  const is_free = new Set(free);
  const taken = new Set([...take, ...free]);
  for (const [param, names] of Object.entries({ take, free })) {
    const unknown = names.filter((name) => !by_name.has(name));
    if (unknown.length > 0)
      throw new AppError('invalid_field', `The plan has no row for ${few(unknown)}.`, { param });
  }
  const named = [...taken].map((name) => by_name.get(name) as Judged);
  const priced = namesOf(named.filter((row) => is_free.has(nameOf(row.row)) && !row.may_be_free));
  if (priced.length > 0)
    throw new AppError(
      'invalid_field',
      `The catalog lists figures for ${few(priced)}: if they cost nothing, set free: true by hand.`,
      { param: 'free' },
    );
  const empty = namesOf(named.filter((row) => row.is_empty && !is_free.has(nameOf(row.row))));
  if (empty.length > 0)
    throw new AppError(
      'invalid_field',
      `No catalog says an amount for ${few(empty)} that a price has a place for: set it by hand, or name it as free if it costs nothing.`,
      { param: 'free' },
    );
  const asking = rows.filter((row) => row.group === 'asks' && !taken.has(nameOf(row.row)));
  const asks = namesOf(asking);
  if (asks.length > 0 && skip_asking !== true)
    throw new AppError(
      'import_asks',
      `Somebody has to say yes to ${few(asks)}: name what to take, or skip what asks.`,
      { extra: { asks } },
    );
  return rows.filter(
    ({ row, group }) =>
      group === 'new' || group === 'changed' || (group !== 'same' && taken.has(nameOf(row))),
  );
}

function namesOf(rows: readonly Judged[]): string[] {
  return rows.map(({ row }) => nameOf(row));
}

const NAMED_MAX = 5;

function few(names: readonly string[]): string {
  const rest = names.length - NAMED_MAX;
  return `${names.slice(0, NAMED_MAX).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/**
 * The factors that the import was told; those of targets are read there each time. One that it has
 * of the import before is told too, and stands in its rows.
 */
function toldOf({ factors, told, rows }: Plan): Record<string, string> {
  if (told === undefined) return factors;
  const found = told.map((provider) => [
    provider,
    factors[provider] ?? rows.find((row) => row.provider === provider)?.factor ?? undefined,
  ]);
  return Object.fromEntries(found.filter(([, factor]) => factor !== undefined));
}

async function insertImport(
  trx: Db,
  plan: Plan,
  { take, free }: Consent,
  actor: string,
): Promise<string> {
  const { id } = await one<{ id: string }>(
    trx,
    `insert into price_imports (created_at, actor, sources, plan_sha256, factors, taken, free)
     values (clock_timestamp(), :actor, :sources, :plan_sha256, :factors, :taken, :free) returning id`,
    {
      actor,
      sources: JSON.stringify(plan.sources),
      plan_sha256: await sha256(JSON.stringify(plan)),
      factors: JSON.stringify(toldOf(plan)),
      taken: JSON.stringify(take),
      free: JSON.stringify(free),
    },
  );
  return id;
}

/** Ends versions that an import planned, and that this one says otherwise or not at all. */
async function retirePlanned(trx: Db, id: string, chosen: readonly Judged[]): Promise<void> {
  const rows = chosen.flatMap(({ row, coming, withdrawn }) =>
    [...coming.map(({ from }) => from), ...withdrawn].map((day) => ({
      ...{ provider: row.provider, model: row.model, starts: `${day}T00:00:00Z` },
    })),
  );
  await many(
    trx,
    `update model_prices p set retired_at = clock_timestamp(), retired_by_import_id = :id
     from jsonb_to_recordset(:rows::jsonb) as d (provider text, model text, starts timestamptz)
     where p.provider = d.provider and p.model = d.model and p.effective_from = d.starts and p.retired_at is null
       and p.source = 'import' and p.effective_from > clock_timestamp() returning p.id`,
    { id, rows: JSON.stringify(rows) },
  );
}

/** A version that is to be made, as the statement takes it. */
type Version = Record<string, unknown>;

function versionsOf(judged: Judged, is_free: boolean): Version[] {
  const { row, present, price, changes, has_news, coming, group } = judged;
  const facts = {
    ...{ provider: row.provider, model: row.model, catalog: row.catalog, seller: row.seller },
    ...{ price_factor: row.factor, against: row.against, price_id: present?.id ?? null },
    metadata: Object.keys(row.metadata).length > 0 ? row.metadata : null,
    max_output_tokens: row.metadata.max_output_tokens ?? null,
    reasoning: row.metadata.reasoning ?? false,
  };
  // A price that only has a later one to come stays as it is until then.
  const is_now = group !== 'changed' || changes.length > 0 || has_news;
  return [
    ...(is_now ? [{ ...facts, ...columnsOf(price), free: is_free, effective_from: null }] : []),
    ...coming.map(({ from, price: later }) => ({
      ...facts,
      ...columnsOf(later),
      ...{ free: false, effective_from: `${from}T00:00:00Z` },
    })),
  ];
}

function columnsOf(price: ListedPrice): Version {
  const lists = Object.entries(price.service_tiers).map(([name, list]) => {
    const own = list.tiers.length > 0 ? { tiers: list.tiers.map(numbered) } : {};
    return [name, { ...numbered(list.amounts), ...own }];
  });
  return {
    ...Object.fromEntries(amounts.map((name) => [name, price.amounts[name] ?? null])),
    input_per_1m: price.amounts.input_per_1m ?? '0',
    output_per_1m: price.amounts.output_per_1m ?? '0',
    tiers: price.tiers.length > 0 ? price.tiers.map(numbered) : null,
    service_tiers: lists.length > 0 ? Object.fromEntries(lists) : null,
  };
}

/** Lists stand as JSON: a double says the at most 15 digits of an amount exactly. */
function numbered(list: Listed): Record<string, number> {
  return Object.fromEntries(Object.entries(list).map(([name, amount]) => [name, Number(amount)]));
}

// What no catalog says of a price goes on: its regions, and factors of tiers of service.
async function insertVersions(
  trx: Db,
  { id, now }: { id: string; now: string },
  versions: Version[],
): Promise<void> {
  const typed = amounts.map((name) => `${name} numeric`).join(', ');
  await many(
    trx,
    `with named as (
       select n.*, m.new_id from jsonb_to_recordset(:versions::jsonb) as n (provider text, model text, ${typed},
         max_output_tokens integer, reasoning boolean, tiers jsonb, service_tiers jsonb, free boolean, effective_from timestamptz,
         catalog text, seller text, price_factor numeric, against text, price_id text, metadata jsonb)
       join (
         select provider, model, new_id('price') as new_id from (
           select distinct v ->> 'provider' as provider, v ->> 'model' as model from jsonb_array_elements(:versions::jsonb) as v) as d
       ) as m on m.provider = n.provider and m.model = n.model
     )
     insert into model_prices (id, provider, model, ${amounts.join(', ')}, max_output_tokens, reasoning, tiers, service_tiers, regions,
       free, effective_from, created_at, updated_at, source, import_id, catalog, seller, price_factor, replaced_version_id, metadata)
     select coalesce(n.price_id, n.new_id), n.provider, n.model, ${amounts.map((name) => `n.${name}`).join(', ')},
       coalesce(n.max_output_tokens, p.max_output_tokens), n.reasoning or coalesce(p.reasoning, false), n.tiers,
       nullif(coalesce((select jsonb_object_agg(f.key, f.value) from jsonb_each(p.service_tiers) as f where jsonb_typeof(f.value) = 'number'),
         '{}') || coalesce(n.service_tiers, '{}'), '{}'), p.regions,
       n.free, coalesce(n.effective_from, :now), coalesce(p.created_at, clock_timestamp()), clock_timestamp(),
       'import', :id, n.catalog, n.seller, n.price_factor, case when p.effective_from <= :now then n.against end, coalesce(p.metadata, '{}') || coalesce(n.metadata, '{}')
     from named n left join model_prices p on p.version_id = n.against
     returning id`,
    { id, now, versions: JSON.stringify(versions) },
  );
}
