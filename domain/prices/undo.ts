import { AppError } from '../errors';
import { tellImport } from '../events';
import { amounts } from '../ledger/price-lists';
import { lockPriceEdits } from '../ledger/pricing';
import { type Db, many } from '../sql';
import { get } from './imports';

/** What an undo did. Names are `provider/model`. */
export interface Undone {
  /** Back at the version before. */
  restored: string[];
  /** Had no price before. */
  removed: string[];
  /** Changed since by somebody: left alone. */
  kept: string[];
}

interface Current {
  price_id: string;
  name: string;
  import_id: string | null;
  replaced: string | null;
  /** The import made a version that came into force, rather than one of a later day. */
  was_current: boolean;
  /** A later import that has planned a version of a day to come. */
  planned_by: string | null;
}

/**
 * Makes the versions before an import current again, as new versions; requests under way keep
 * theirs. A price that a person has changed since is left alone. 409 `import_undone` the second
 * time; 409 `prices_changed` while a later import stands on it, which is to be undone first.
 */
export function undo(db: Db, id: string, actor: string): Promise<Undone> {
  return db.transaction(async (trx) => {
    await lockPriceEdits(trx);
    const { undone_at } = await get(trx, id);
    if (undone_at !== null)
      throw new AppError('import_undone', `The import ${id} was undone already.`);
    const current = await currentOf(trx, id);
    refuseIfStoodOn(id, current);
    await many(
      trx,
      'update price_imports set undone_at = clock_timestamp(), undone_by = :actor where id = :id returning id',
      { id, actor },
    );
    const undone = await giveBack(trx, id, current);
    await planAgain(trx, id);
    const prices = undone.restored.length + undone.removed.length;
    await tellImport(trx, 'prices.import_undone', { import_id: id, actor, prices });
    return undone;
  });
}

/**
 * What a later import planned follows upon what this one made: it would begin over the version that
 * comes back, and its own undo would bring this one's back.
 */
function refuseIfStoodOn(id: string, current: readonly Current[]): void {
  for (const { import_id, planned_by, name } of current) {
    const later = import_id !== null && import_id > id ? import_id : planned_by;
    if (later === null) continue;
    throw new AppError(
      'prices_changed',
      `The import ${later} has changed ${name} since. Undo that one first.`,
      { extra: { changed: [name] } },
    );
  }
}

/**
 * The version in force of each price that the import touched, else the one that comes next. A price
 * whose planned version it only ended counts too.
 */
function currentOf(trx: Db, id: string): Promise<Current[]> {
  return many<Current>(
    trx,
    `select distinct on (p.id) p.id as price_id, p.provider || '/' || p.model as name, p.import_id, p.replaced_version_id as replaced,
       exists (select from model_prices q where q.id = p.id and q.import_id = :id and q.effective_from <= clock_timestamp()) as was_current,
       (select max(q.import_id collate "C") from model_prices q where q.id = p.id and q.retired_at is null
         and q.effective_from > clock_timestamp() and q.import_id collate "C" > :id) as planned_by
     from model_prices p
     where (p.retired_at is null or p.retired_by_import_id = :id)
       and p.id in (select q.id from model_prices q where q.import_id = :id or q.retired_by_import_id = :id)
     order by p.id, p.effective_from <= clock_timestamp() desc,
       case when p.effective_from <= clock_timestamp() then p.effective_from end desc, p.effective_from, p.updated_at desc`,
    { id },
  );
}

async function giveBack(trx: Db, id: string, current: readonly Current[]): Promise<Undone> {
  const own = current.filter(({ import_id }) => import_id === id);
  const back = own.filter(({ replaced }) => replaced !== null);
  const gone = own.filter(({ replaced }) => replaced === null);
  // Its own versions end, planned ones too; what people planned stays.
  await many(
    trx,
    `update model_prices set retired_at = clock_timestamp()
     where retired_at is null and (import_id = :id and effective_from > clock_timestamp()
       or id = any (:gone) and effective_from <= clock_timestamp()) returning id`,
    { id, gone: gone.map(({ price_id }) => price_id) },
  );
  await many(
    trx,
    `insert into model_prices (id, provider, model, ${amounts.join(', ')}, max_output_tokens, reasoning, tiers, service_tiers, regions,
       free, effective_from, created_at, updated_at, source, import_id, catalog, seller, price_factor, replaced_version_id, metadata)
     select id, provider, model, ${amounts.join(', ')}, max_output_tokens, reasoning, tiers, service_tiers, regions,
       free, clock_timestamp(), created_at, clock_timestamp(), source, import_id, catalog, seller, price_factor, replaced_version_id, metadata
     from model_prices where version_id = any (:versions) returning id`,
    { versions: back.map(({ replaced }) => replaced) },
  );
  const names = (rows: readonly Current[]) => rows.map(({ name }) => name).sort();
  const others = current.filter(({ import_id }) => import_id !== id);
  return {
    // Where it changed a later day alone, the price in force was never another's.
    restored: names([...back, ...others.filter(({ was_current }) => !was_current)]),
    removed: names(gone),
    kept: names(others.filter(({ was_current }) => was_current)),
  };
}

/** Versions of days to come that the import ended, unless their own import is undone as well. */
async function planAgain(trx: Db, id: string): Promise<void> {
  await many(
    trx,
    `update model_prices p set retired_at = null, retired_by_import_id = null
     where p.retired_by_import_id = :id and p.effective_from > clock_timestamp()
       and not exists (select from price_imports i where i.id = p.import_id and i.undone_at is not null)
       and not exists (select from model_prices q where q.id = p.id and q.effective_from = p.effective_from and q.retired_at is null)
     returning id`,
    { id },
  );
}
