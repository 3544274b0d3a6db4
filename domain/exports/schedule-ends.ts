import type { AppError, ErrorCode } from '../errors';
import { type Permission, type Role, rolePermissions } from '../people/roles';
import { type Db, many, one } from '../sql';
import { type KindName, neededFor } from './kinds';

// What keeps a schedule from its next export: its maker's rights, its bucket, and a full folder.

/** What is said of a schedule. */
interface Stopped {
  id: string;
  kinds: readonly KindName[];
}

interface Made {
  org_id: string | null;
  kinds: readonly KindName[];
  created_by: string;
  created_with: string | null;
}

/** True if whoever made the schedule could make this export by themselves now. */
export async function mayHave(
  trx: Db,
  { org_id, kinds, created_by, created_with }: Made,
): Promise<boolean> {
  const found = await one<{ scopes: Permission[] | null; is_person: boolean; role: Role | null }>(
    trx,
    `select (select k.scopes from tokens k where k.id = :created_with and k.revoked_at is null
         and coalesce(k.expires_at > clock_timestamp(), true)) as scopes,
       exists (select 1 from users u where u.id = :created_by) as is_person,
       (select m.role from memberships m where m.org_id = :org_id and m.user_id = :created_by and m.archived_at is null) as role`,
    { org_id, created_by, created_with },
  );
  const { scopes, is_person, role } = found;
  if (created_with !== null && scopes === null) return false;
  if (scopes?.includes('platform:admin')) return true;
  if (org_id === null) return false;
  const more = kinds.map(neededFor).filter((scope) => scope !== undefined);
  const wanted: Permission[] = ['org:billing', ...more];
  return wanted.every(
    (scope) =>
      (scopes === null || scopes.includes(scope)) &&
      (!is_person || (role !== null && rolePermissions[role].includes(scope))),
  );
}

/** A wait of so long is said; others pass before somebody reads of them. */
const LONG_MS = 60 * 60_000;

/** A schedule whose window is due so long after its end. */
interface Waiting extends Stopped {
  to: Date;
  lag_minutes: number;
}

/** Notes why a schedule waits, if it does for long or will, with an event as that begins. */
export async function wait(
  trx: Db,
  due: Waiting,
  { code, message, details }: AppError,
): Promise<void> {
  const { id, kinds } = due;
  const resets_at = details.rate_limit?.resets_at.getTime() ?? 0;
  // Where nothing makes room each try is told of the next few minutes, for ever.
  if (resets_at < Date.now() + LONG_MS && !(await isLate(trx, due))) return;
  await many(
    trx,
    `update export_schedules set waiting_since = clock_timestamp() where id = :id and waiting_since is null
     returning append_event(coalesce(org_id, 'platform'), 'export.failed', :payload::jsonb)`,
    { id, payload: JSON.stringify({ schedule_id: id, kinds, error_code: code }) },
  );
  await many(trx, 'update export_schedules set waiting_reason = :message where id = :id', {
    id,
    message,
  });
}

/** True if there was no room for long: since it was due, made, or had its last export. */
async function isLate(trx: Db, { id, to, lag_minutes }: Waiting): Promise<boolean> {
  const { is_late } = await one<{ is_late: boolean }>(
    trx,
    `select greatest(:to::timestamptz + :lag_minutes * interval '1 minute', s.created_at,
       (select max(q.ended_at) from exports q where q.schedule_id = s.id)) < clock_timestamp() - make_interval(secs => :seconds) as is_late
     from export_schedules s where s.id = :id`,
    { id, to, lag_minutes, seconds: LONG_MS / 1_000 },
  );
  return is_late;
}

/** Forgets why a schedule waited: it makes exports again. */
export async function goOn(trx: Db, id: string): Promise<void> {
  await many(
    trx,
    `update export_schedules set waiting_since = null, waiting_reason = null where id = :id and waiting_since is not null`,
    { id },
  );
}

/** The end of a schedule that may make no more exports, with an event that says so. */
export async function fall(
  trx: Db,
  { id, kinds }: Stopped,
  { error_code, words }: { error_code: ErrorCode; words: string },
): Promise<void> {
  await many(
    trx,
    `update export_schedules set archived_at = clock_timestamp(), ended_reason = :words
     where id = :id
     returning append_event(coalesce(org_id, 'platform'), 'export.failed', :payload::jsonb)`,
    { id, words, payload: JSON.stringify({ schedule_id: id, kinds, error_code }) },
  );
}
