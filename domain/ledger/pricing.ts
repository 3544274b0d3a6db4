import { AppError } from '../errors';
import { newId } from '../ids';
import { type Db, many, maybe, one } from '../sql';
import {
  amounts,
  blankFigures,
  type Figures,
  hasAmount,
  type Metadata,
  type PriceList,
  type PriceTier,
} from './price-lists';

/** A model price as people edit it; USD per million tokens, or per unit. */
export interface Price extends Figures {
  provider: string;
  model: string;
  max_output_tokens: number | null;
  reasoning: boolean;
  tiers: PriceTier[] | null;
  /** By the name that an answer gives the tier of service it was served at. */
  service_tiers: Record<string, PriceList> | null;
  /** By the name of the region that an answer was made in. */
  regions: Record<string, PriceList> | null;
  free: boolean;
  /** `hand`: an import leaves it alone. What a person changes is so; `import` gives it back. */
  source: 'hand' | 'import';
  /** Absent: from now on, by the database's clock. */
  effective_from?: Date | undefined;
}

/** A price that says nothing yet: no amount, no limit, not free. */
export const blankPrice = {
  ...blankFigures,
  max_output_tokens: null,
  reasoning: false,
  tiers: null,
  service_tiers: null,
  regions: null,
  free: false,
  source: 'hand' as const,
};

interface StoredPrice extends Price {
  id: string;
  /** The catalog of an imported price, with its version and day. */
  catalog: string | null;
  import_id: string | null;
  /** What the catalog knows of the model beside its price. */
  metadata: Metadata | null;
  effective_from: Date;
  created_at: Date;
  updated_at: Date;
}

const columns = `id, provider, model, ${amounts.map((name) => `${name}::float`).join(', ')}, max_output_tokens, reasoning, tiers,
  service_tiers, regions, free, source, catalog, import_id, metadata, effective_from, created_at, updated_at`;

// The version of each price that is in force now, else the one that comes next.
const current = `
  select distinct on (id) * from model_prices where retired_at is null
  order by id, effective_from <= clock_timestamp() desc,
    case when effective_from <= clock_timestamp() then effective_from end desc, effective_from, updated_at desc`;

/** The catalog that reserve uses now. */
export function catalog(db: Db): Promise<StoredPrice[]> {
  return many(
    db,
    `select ${columns} from (${current}) p where effective_from <= clock_timestamp() order by provider, model`,
  );
}

/**
 * Every price that is not deleted, as it stands and as it is planned: each version that comes into
 * force later is a row under the same id.
 */
export function list(db: Db): Promise<StoredPrice[]> {
  return many(
    db,
    `select ${columns} from (
       select * from (${current}) c union
       select * from model_prices where retired_at is null and effective_from > clock_timestamp()
     ) p order by provider, model, effective_from`,
  );
}

/** Makes a price. 409 `already_exists` if the provider's model has one. */
export function create(db: Db, price: Price): Promise<StoredPrice> {
  checkPaid(price);
  return db.transaction(async (trx) => {
    await lockPriceEdits(trx);
    await refuseDuplicate(trx, price, null);
    return insertVersion(trx, newId('price'), price);
  });
}

/**
 * Makes a new version of a price; reservations keep the one they froze. An `effective_from` that is
 * over counts as absent: the newest start wins, so an older one would never count, and what holds
 * already is not rewritten. 422 for a new name that is to hold later. A planned version stays,
 * unless the change names its very start: then it takes its place; or unless an import planned it
 * and a person sets the price by hand.
 */
export function update(db: Db, id: string, change: Partial<Price>): Promise<StoredPrice> {
  return db.transaction(async (trx) => {
    await lockPriceEdits(trx);
    const old = await one<StoredPrice>(
      trx,
      `select ${columns} from (${current}) p where id = :id`,
      { id },
      'No price',
    );
    const start = await laterStart(trx, change.effective_from);
    const planned = await plannedAt(trx, id, start);
    const price = {
      ...(planned ?? old),
      source: 'hand' as const,
      ...change,
      effective_from: start,
    };
    checkPaid(price);
    await refuseDuplicate(trx, price, id);
    const isRenamed = price.provider !== old.provider || price.model !== old.model;
    if (isRenamed) await requireRenamable(trx, old, start);
    if (isRenamed) await retire(trx, id);
    else if (start) await retire(trx, id, start);
    else if (price.source === 'hand') await retirePlannedImports(trx, id);
    return insertVersion(trx, id, price, old);
  });
}

/**
 * Deletes a price: new reserves of its models are refused, open ones are settled as frozen. If the
 * start of a planned version is named, only that one goes.
 */
export function remove(db: Db, id: string, planned_for?: Date): Promise<void> {
  return db.transaction(async (trx) => {
    await lockPriceEdits(trx);
    const isPast = planned_for !== undefined && !(await plannedAt(trx, id, planned_for));
    if (isPast || (await retire(trx, id, planned_for)) === 0)
      throw new AppError('not_found', 'No price was found under this id.');
  });
}

/** The version that is planned to start at an instant. */
function plannedAt(trx: Db, id: string, at: Date | undefined): Promise<StoredPrice | undefined> {
  return maybe<StoredPrice>(
    trx,
    `select ${columns} from model_prices where id = :id and retired_at is null
       and effective_from = :at::timestamptz and effective_from > clock_timestamp()`,
    { id, at: at ?? null },
  );
}

/** A start that is still to come, by the database's clock; undefined: from now on. */
async function laterStart(trx: Db, at: Date | undefined): Promise<Date | undefined> {
  const sql = 'select 1 where :at::timestamptz > clock_timestamp()';
  const isLater = await maybe(trx, sql, { at: at ?? null });
  return isLater === undefined ? undefined : at;
}

/** A price that is in force gets a new name at once, and only while no version is planned. */
async function requireRenamable(
  trx: Db,
  { id, effective_from }: StoredPrice,
  start: Date | undefined,
): Promise<void> {
  await requireNonePlanned(trx, id);
  const isInForce = (await laterStart(trx, effective_from)) === undefined;
  if (start === undefined || !isInForce) return;
  throw new AppError(
    'invalid_field',
    'A new name counts from now, as until then no price would be in force: leave effective_from out.',
    { param: 'effective_from' },
  );
}

/** A planned version has its model's name: under another one it would be a second price. */
async function requireNonePlanned(trx: Db, id: string): Promise<void> {
  const planned = await maybe<{ effective_from: Date }>(
    trx,
    `select effective_from from model_prices
     where id = :id and retired_at is null and effective_from > clock_timestamp()
     and exists (select 1 from model_prices p where p.id = :id and p.retired_at is null and p.effective_from <= clock_timestamp())
     order by effective_from limit 1`,
    { id },
  );
  if (planned === undefined) return;
  throw new AppError(
    'invalid_field',
    `A version of this price is planned for ${planned.effective_from.toISOString()}. ` +
      'Delete it first (DELETE with ?effective_from=), then give the price another name.',
    { param: 'model' },
  );
}

/** Refuses a price without an amount: a forgotten one must not make a model free. */
export function checkPaid(price: Price): void {
  if (hasAmount(price) || price.free) return;
  throw new AppError(
    'invalid_field',
    'Every amount is zero. Say free: true if this model costs nothing.',
    { param: 'free' },
  );
}

/** One edit of prices at a time, until the transaction ends. */
export async function lockPriceEdits(trx: Db): Promise<void> {
  await trx.raw(`select pg_advisory_xact_lock(hashtext('model_prices'))`);
}

async function refuseDuplicate(trx: Db, price: Price, id: string | null): Promise<void> {
  const other = await maybe(
    trx,
    `select 1 from model_prices where provider = :provider and model = :model and retired_at is null and id is distinct from :id limit 1`,
    { provider: price.provider, model: price.model, id },
  );
  if (other)
    throw new AppError(
      'already_exists',
      `${price.provider} ${price.model} has a price. Change it with PUT.`,
      { param: 'model' },
    );
}

/** What a person sets holds: a catalog's later price would take its place in silence. */
async function retirePlannedImports(trx: Db, id: string): Promise<void> {
  await many(
    trx,
    `update model_prices set retired_at = clock_timestamp()
     where id = :id and retired_at is null and source = 'import' and effective_from > clock_timestamp() returning id`,
    { id },
  );
}

/** Retires the version that starts at an instant; all of them if none is named. */
async function retire(trx: Db, id: string, from?: Date): Promise<number> {
  const rows = await many(
    trx,
    `update model_prices set retired_at = clock_timestamp()
     where id = :id and retired_at is null and coalesce(effective_from = :from::timestamptz, true) returning id`,
    { id, from: from ?? null },
  );
  return rows.length;
}

/** A price that is given back to imports is of the last one that wrote it. */
function insertVersion(trx: Db, id: string, price: Price, old?: StoredPrice): Promise<StoredPrice> {
  const { provider, model, max_output_tokens, reasoning, free, source, effective_from } = price;
  const figures = Object.fromEntries(
    amounts.map((name) => [name, price[name] == null ? null : String(price[name])]),
  );
  return one<StoredPrice>(
    trx,
    `insert into model_prices (id, provider, model, ${amounts.join(', ')}, max_output_tokens, reasoning, tiers,
       service_tiers, regions, free, source, metadata, effective_from, created_at, updated_at,
       import_id, catalog, seller, price_factor, replaced_version_id)
     select :id::text, :provider::text, :model::text, ${amounts.map((name) => `:${name}::text::numeric`).join(', ')}, :max_output_tokens::integer, :reasoning::boolean,
       :tiers::jsonb, :service_tiers::jsonb, :regions::jsonb, :free::boolean, :source::text, :metadata::jsonb, coalesce(:effective_from::timestamptz, clock_timestamp()),
       coalesce(:created_at::timestamptz, clock_timestamp()), clock_timestamp(), o.import_id, o.catalog, o.seller, o.price_factor, o.replaced_version_id
     from (values (1)) as v left join lateral (
       select * from model_prices p where p.id = :id and p.import_id is not null and :source = 'import' order by p.updated_at desc limit 1) as o on true
     returning ${columns}`,
    {
      id,
      provider,
      model,
      ...figures,
      max_output_tokens,
      reasoning,
      free,
      source,
      metadata: asJson(old?.metadata ?? null),
      effective_from: effective_from ?? null,
      tiers: asJson(price.tiers),
      service_tiers: asJson(price.service_tiers),
      regions: asJson(price.regions),
      created_at: old?.created_at ?? null,
    },
  );
}

function asJson(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}
