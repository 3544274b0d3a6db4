import { AppError, tooMany } from '../errors';
import { type Db, many, one, owns } from '../sql';
import { momentIn, requireZone } from '../time-zones';
import { requireUsable } from './destinations';
import { type Export, type Format, get, lock, startNext } from './exports';
import { keptFrom } from './kept-events';
import { copied_kinds, dailyKind, type KindName } from './kinds';
import { copies } from './record-kinds';

/** What to export, and for whom. */
export interface NewExport {
  /** Null: all organizations. */
  org_id: string | null;
  kinds: readonly KindName[];
  format: Format;
  from: Date;
  to: Date;
  /** The bucket that its files go to; null: the folder of the installation. */
  destination_id: string | null;
  created_by: string;
  created_with: string | null;
  /** The schedule that makes it, if one does. */
  schedule_id?: string | undefined;
}

const MONTHS_MAX = 13;
/** Beside the one that runs. */
const QUEUED_MAX = 5;
/** Completed ones of an organization whose files are in the folder that all share. */
const KEPT_MAX = 50;
/** Bytes of those, and of what is being written. */
const BYTES_MAX = 20 * 2 ** 30;
const DAY_MS = 86_400_000;
/** Files past their time are deleted by a look each so long. */
const LOOK_MS = 5 * 60_000;

const ledger_kinds: readonly string[] = ['ledger', 'requests', 'statement'] satisfies KindName[];
/** Kinds whose rows are read later and name people; others copy their names with their rows. */
const naming_kinds: readonly string[] = [...ledger_kinds, 'audit_log' satisfies KindName];

/** A period of an export. */
export interface Period {
  from: Date;
  to: Date;
  /** The latest end that it may have. */
  latest: Date;
}

/**
 * The period between two days of a time zone, or two instants. Throws 422 for a zone that nobody
 * knows.
 */
export async function periodIn(
  db: Db,
  time_zone: string,
  asked: { from: string; to: string },
): Promise<Period> {
  await requireZone(db, time_zone);
  const from = await momentIn(db, time_zone, asked.from);
  const { latest } = await one<{ latest: Date }>(
    db,
    `select (:from::timestamptz at time zone :time_zone + :months * interval '1 month') at time zone :time_zone as latest`,
    { from, time_zone, months: MONTHS_MAX },
  );
  return { from, to: await momentIn(db, time_zone, asked.to), latest };
}

/**
 * Refuses a period that is none: it ends before it begins, in the future, or after over 13 months.
 * `now` is the database's time.
 */
export function requirePeriod({ from, to, latest }: Period, now: Date): void {
  if (to <= from) throw wrong('to', 'must be after from');
  if (to > now) throw wrong('to', `must not lie in the future: it is ${now.toISOString()} here`);
  if (to > latest) throw wrong('to', `must be at most ${MONTHS_MAX} months after from`);
}

/** Refuses a period whose events are deleted in part: it would look as if there had been none. */
export function requireKept(kinds: readonly KindName[], from: Date, now: Date): void {
  const oldest = keptFrom(now);
  if (kinds.includes('events') && from < oldest)
    throw wrong(
      'from',
      `must be ${oldest.toISOString()} at the earliest for events, which are kept for 90 days; ask for the other kinds by themselves`,
    );
}

function wrong(param: string, message: string): AppError {
  return new AppError('invalid_field', `${param} ${message}.`, { param });
}

/**
 * Makes an export in the given transaction and fixes what it holds: one statement, which sees one
 * snapshot, notes of each wallet from which entry to which, which transactions' events belong to
 * it, and copies rows that go on changing. It starts at once unless another one runs. Throws
 * `exports_exceeded` (429), also if the shared folder keeps `bytes_max` bytes of its organization
 * already, or `not_found` if its bucket is out of use.
 */
export async function create(
  trx: Db,
  given: NewExport,
  bytes_max: number = BYTES_MAX,
): Promise<Export> {
  const { org_id, kinds } = given;
  await lock(trx, org_id);
  const { queued } = await one<{ queued: number }>(
    trx,
    `select count(*)::int as queued from exports where ${owns('org_id', org_id)} and status = 'queued'`,
    { org_id },
  );
  if (queued >= QUEUED_MAX)
    throw tooMany(
      'exports_exceeded',
      `${queued} exports wait here already, and no more may. Wait for one to end, or cancel one.`,
      { limit: QUEUED_MAX, resets_at: new Date(Date.now() + 60_000), is_final: true },
    );
  if (given.destination_id === null) await requireRoom(trx, org_id, bytes_max);
  else await requireUsable(trx, given.destination_id, org_id);
  const { id } = await one<{ id: string }>(trx, 'select new_id(:prefix) as id', { prefix: 'exp' });
  const parts = partsOf(given);
  await many(trx, fixing(kinds), {
    ...given,
    schedule_id: given.schedule_id ?? null,
    export_id: id,
    kinds: [...kinds],
    has_ledger: kinds.some((kind) => ledger_kinds.includes(kind)),
    has_names: kinds.some((kind) => naming_kinds.includes(kind)),
    part_kinds: parts.map(({ kind }) => kind),
    part_days: parts.map(({ day }) => day),
  });
  await startNext(trx, org_id);
  return get(trx, id, org_id);
}

/** What the shared folder keeps of an owner. */
interface Kept {
  /** Completed exports. */
  kept: number;
  bytes: bigint;
  /** When the oldest of them expires. */
  next: Date | null;
  /** Whether files of ended exports wait to be deleted. */
  is_clearing: boolean;
}

/** Refuses one more export whose files the shared folder would keep: the disk is everybody's. */
async function requireRoom(trx: Db, org_id: string | null, bytes_max: number): Promise<void> {
  // Files that are not deleted yet fill the disk, whatever became of their export.
  const { kept, bytes, next, is_clearing } = await one<Kept>(
    trx,
    `select count(*) filter (where x.status = 'completed')::int as kept, coalesce(sum(f.bytes), 0)::bigint as bytes,
       min(x.expires_at) filter (where x.status = 'completed') as next,
       coalesce(bool_or(x.status in ('failed', 'canceled', 'expired') and f.bytes > 0), false) as is_clearing
     from exports x cross join lateral (select sum(q.bytes) as bytes from export_files q where q.export_id = x.id) as f
     where ${owns('x.org_id', org_id)} and x.target = 'folder' and x.cleared_at is null`,
    { org_id },
  );
  const is_full = bytes >= BigInt(bytes_max);
  if (kept < KEPT_MAX && !is_full) return;
  // What has ended, and all if none is completed, makes room with the next look.
  const look_at = new Date(Date.now() + LOOK_MS);
  const resets_at = is_full && is_clearing ? look_at : (next ?? look_at);
  const what = is_full
    ? `${bytes} bytes of files of exports are kept here, and no more than ${bytes_max} may be.`
    : `The files of ${kept} exports are kept here, and no more may.`;
  throw tooMany(
    'exports_exceeded',
    `${what} The oldest are deleted on ${resets_at.toISOString()}, or by DELETE /v1/exports/{id}; a bucket of your own has no such bound.`,
    { limit: is_full ? bytes_max : KEPT_MAX, resets_at, is_final: true },
  );
}

/**
 * The statement that makes the rows of an export. After a clock was set back a wallet may be
 * younger than its first entries.
 */
function fixing(kinds: readonly KindName[]): string {
  const copied = copied_kinds.filter((kind) => kinds.includes(kind));
  return `
    with made as (
      insert into exports (id, org_id, kinds, format, from_time, to_time, target, destination_id, snapshot, created_by, created_with,
        schedule_id, events_after)
      values (:export_id, :org_id, :kinds, :format, :from, :to,
        case when :destination_id::text is null then 'folder' else 's3' end, :destination_id, pg_current_snapshot(), :created_by,
        :created_with, :schedule_id, (select q.snapshot from exports q where q.schedule_id = :schedule_id
          and q.status in ('completed', 'expired') order by q.id desc limit 1))
    ), bounds as (
      insert into export_wallets (export_id, wallet_id, org_id, from_seq, to_seq)
      select :export_id, w.id, w.org_id, seq_before(w.id, :from, 0, w.seq), seq_before(w.id, :to, 0, w.seq)
      from wallets w where :has_ledger and (:org_id::text is null or w.org_id = :org_id)
        and (w.created_at < :to or seq_before(w.id, :to, 0, w.seq) > 0)
    ), names as (
      insert into export_names (export_id, id, name, email)
      select :export_id, q.id, q.name, q.email from (
        select o.id, o.name, null as email from organizations o where :org_id::text is null or o.id = :org_id
        union all select t.id, t.name, null from teams t where :org_id::text is null or t.org_id = :org_id
        union all select a.id, a.name, null from agents a where :org_id::text is null or a.org_id = :org_id
        union all select k.id, k.name, null from tokens k where (:org_id::text is null or k.org_id = :org_id or k.org_id is null) and k.purpose = 'key'
        union all select u.id, u.name, u.email from users u
          where :org_id::text is null or exists (select from memberships m where m.org_id = :org_id and m.user_id = u.id)
      ) as q where :has_names
    ), ${copied.map((kind) => `copied_${kind} as (${copies[kind]}), `).join('')} manifest as (
      insert into export_files (export_id, n, kind) values (:export_id, 0, 'manifest')
    )
    insert into export_files (export_id, n, kind, day)
    select :export_id, p.n, p.kind, p.day
    from unnest(:part_kinds::text[], :part_days::date[]) with ordinality as p (kind, day, n)`;
}

/** A file for each kind and UTC day, or one of the whole period. */
function partsOf({ kinds, from, to }: NewExport): { kind: KindName; day: string | null }[] {
  const days: string[] = [];
  for (let day = from.getTime() - (from.getTime() % DAY_MS); day < to.getTime(); day += DAY_MS)
    days.push(new Date(day).toISOString().slice(0, 10));
  return kinds.flatMap<{ kind: KindName; day: string | null }>((kind) =>
    dailyKind(kind) === undefined ? [{ kind, day: null }] : days.map((day) => ({ kind, day })),
  );
}
