import { type Db, deleteInSteps, many, maybe, one } from '../sql';

/** The rollup that is read of an organization; 0 before one is made: then the ledger is read. */
export interface Edition {
  edition: string;
  time_zone: string;
}

/** The edition that figures of an organization come from. They are of its time zone. */
export async function currentEdition(db: Db, org_id: string): Promise<Edition> {
  return one<Edition>(
    db,
    `select coalesce(e.edition, 0)::text as edition, coalesce(e.time_zone, o.time_zone) as time_zone
     from organizations o left join spend_editions e on e.org_id = o.id and e.state = 'current'
     where o.id = :org_id`,
    { org_id },
    'No organization',
  );
}

/** Gives each organization an edition, and another one where its time zone has changed. */
export async function openEditions(db: Db): Promise<void> {
  await many(db, 'select open_spend_editions()');
}

/** So many entries are folded in one transaction. */
export const STEP_ENTRIES = 10_000;

/** Folds what settled since, at most `entries` of it; how many there were. */
export async function foldStep(db: Db, entries = STEP_ENTRIES): Promise<number> {
  const { count } = await one<{ count: number }>(db, 'select fold_spend(:entries)::int as count', {
    entries,
  });
  return count;
}

/**
 * Begins to fold an organization's ledger anew, or each organization's; of how many. What is read
 * stays as it is until the new edition has caught up.
 */
export async function rebuild(db: Db, org_id: string | undefined): Promise<number> {
  await openEditions(db);
  const begun = await many(
    db,
    `insert into spend_editions (org_id, time_zone, state)
     select o.id, o.time_zone, 'making' from organizations o where coalesce(o.id = :org_id, true)
     on conflict do nothing returning edition`,
    { org_id: org_id ?? null },
  );
  return begun.length;
}

/** How many editions are being made: of an organization, or of all. */
export async function madeNow(db: Db, org_id?: string): Promise<number> {
  const { count } = await one<{ count: number }>(
    db,
    `select count(*)::int as count from spend_editions
     where state = 'making' and coalesce(org_id = :org_id::text, true)`,
    { org_id: org_id ?? null },
  );
  return count;
}

/** Hours are kept so long, and the days that a period of hours may begin ago are fewer. */
const HOURS_KEPT = '36 days';

/** Deletes hours that are too old, and all that was folded into editions of before. */
export async function sweep(db: Db): Promise<void> {
  await deleteInSteps(
    db,
    'spend_hours',
    `edition in (select edition from spend_editions) and hour < now() - interval '${HOURS_KEPT}'`,
  );
  const dropped = `edition in (select edition from spend_editions where state = 'dropped')`;
  if (!(await maybe(db, `select 1 from spend_editions where state = 'dropped' limit 1`))) return;
  for (const table of [
    'spend_cursors',
    'spend_hours',
    'spend_days',
    'spend_tag_days',
    'spend_tags',
  ])
    await deleteInSteps(db, table, dropped);
  await many(
    db,
    `delete from spend_editions e where e.state = 'dropped'
       and not exists (select 1 from spend_cursors c where c.edition = e.edition)
       and not exists (select 1 from spend_days d where d.edition = e.edition)`,
  );
}
