import { lockOrganization } from '../known';
import { type Db, deleteInSteps, many } from '../sql';

// Nobody is left whose calls such a budget counts: its key has ended, its person or team has gone.
// A key that has only expired may be given more time.
const isOfNobody = `b.archived_at is null and case b.owner_type
  when 'key' then exists (select 1 from tokens k where k.id = b.owner_id and k.revoked_at <= clock_timestamp())
  when 'user' then not exists (select 1 from memberships m where m.org_id = b.org_id and m.user_id = b.owner_id
    and m.archived_at is null)
  when 'team' then exists (select 1 from teams t where t.id = b.owner_id and t.archived_at is not null)
  else false end`;

/** Archives the budgets whose owner has gone, under each organization's lock; says how many. */
async function archiveOfNobody(db: Db): Promise<number> {
  const orgs = await many<{ org_id: string }>(
    db,
    `select distinct b.org_id from budgets b where ${isOfNobody}`,
  );
  let archived = 0;
  for (const { org_id } of orgs) {
    archived += await db.transaction(async (trx) => {
      await lockOrganization(trx, org_id);
      const rows = await many(
        trx,
        `update budgets b set archived_at = clock_timestamp() where b.org_id = :org_id and ${isOfNobody} returning 1`,
        { org_id },
      );
      return rows.length;
    });
  }
  return archived;
}

/**
 * Forgets windows that are over and that nothing is counted in any more: those of archived budgets,
 * and those that ended a week ago with no hold open. What settles later still is on record with its
 * call alone.
 */
function forgetWindows(db: Db): Promise<number> {
  return deleteInSteps(
    db,
    'budget_windows',
    `(exists (select 1 from budgets b where b.id = budget_id and b.archived_at is not null)
      or (held_nanos = 0 and ends_at < clock_timestamp() - interval '7 days'))`,
  );
}

/** The housekeeping of budgets; says how many rows it changed or forgot. */
export async function keep(db: Db): Promise<number> {
  return (await archiveOfNobody(db)) + (await forgetWindows(db));
}
