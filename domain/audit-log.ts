import { type AuditSight, isSeen } from './audit-events';
import { type ListRequest, listOf, type Part } from './lists';
import type { Page } from './pages';
import type { Db } from './sql';

export const actor_types = ['user', 'key', 'platform', 'system'] as const;
export type ActorType = (typeof actor_types)[number];

/** The chain of what concerns no organization, and how it is asked for. */
export const PLATFORM_CHAIN = 'platform';

/** A row of the audit log: who changed what, when and by which way, and its place in the chain. */
export interface AuditEntry {
  id: string;
  created_at: Date;
  /** Null if it concerns the whole platform. */
  org_id: string | null;
  /** `id` is null for a program; `name` is that of now, and null if it is gone. */
  actor: { type: ActorType; id: string | null; name: string | null };
  /** The credential that was used; null for a person with a JWT. */
  key_id: string | null;
  /** The session that they had signed in with. */
  session_id: string | null;
  request_id: string | null;
  /** `key.created`: a noun, and what became of it. */
  action: string;
  object: { type: string; id: string };
  /** Null: there was nothing before, or is nothing after. */
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  /**
   * Its place in the chain of its organization, from 1 and without gaps; null, as the hashes are,
   * if somebody took its link away.
   */
  seq: bigint | null;
  /** Empty for the first. */
  prev_hash: string | null;
  /** SHA-256 of `audit_text` in hex. */
  hash: string | null;
}

/** Which entries; `from` is in, `to` is not. */
export interface AuditLogFilter {
  /** Null: those of all organizations and of the platform; `platform`: of the platform alone. */
  org_id: string | null;
  /** The id of a person or key, or the name of a program. */
  actor?: string | undefined;
  actor_type?: ActorType | undefined;
  action?: string | undefined;
  object_type?: string | undefined;
  object_id?: string | undefined;
  session_id?: string | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
}

const select = `select a.id, a.created_at, a.org_id,
  jsonb_build_object('type', a.actor_type, 'id', case when a.actor_type <> 'system' then a.actor end, 'name',
    coalesce(a.system, (select u.name from users u where u.id = a.actor), (select t.name from tokens t where t.id = a.actor))) as actor,
  a.key_id, a.session_id, a.request_id, a.action,
  jsonb_build_object('type', split_part(a.action, '.', 1), 'id', a.object_id) as object, a.before, a.after,
  l.seq, l.prev_hash, l.hash`;

// The order of the indexes that begin with what is asked for. The primary key has another, so that
// none is read by it, past all rows in between.
const CHAIN_ID = 'a.id collate ucs_basic';

/** Each filter as a condition, so that only those that are given are asked of the database. */
const conditions: Record<keyof AuditLogFilter, (id: string) => string> = {
  org_id: () => `coalesce(a.org_id, '${PLATFORM_CHAIN}') = :org_id`,
  actor: () => 'coalesce(a.actor, a.system) = :actor',
  actor_type: () => 'a.actor_type = :actor_type',
  action: () => 'a.action = :action',
  object_type: () => `split_part(a.action, '.', 1) = :object_type`,
  object_id: () => 'a.object_id = :object_id',
  session_id: () => 'a.session_id = :session_id',
  from: (id) => `a.created_at >= :from and ${id} > ${idAt(':from', '- 60')}`,
  to: (id) => `a.created_at < :to and ${id} < ${idAt(':to', '+ 60')}`,
};

/**
 * Ids begin with their time: those of a period stand together, except for a clock's last minute.
 * That minute before 1970 has no number in them.
 */
function idAt(time: string, margin: string): string {
  const ms = `((extract(epoch from ${time}::timestamptz) ${margin}) * 1000)::bigint`;
  return `('aud_' || lpad(to_hex(greatest(0, ${ms})), 12, '0'))`;
}

/**
 * The audit log, newest first unless it is sorted the other way: of it the rows that are in sight.
 */
export function list(
  db: Db,
  { org_id, ...filter }: AuditLogFilter,
  sight: AuditSight,
  request: ListRequest,
): Promise<Page<AuditEntry> | Part<AuditEntry>> {
  // Of all organizations the primary key is such an index.
  const id = org_id === null ? 'a.id' : CHAIN_ID;
  const bindings = Object.fromEntries(
    Object.entries({ org_id: org_id ?? undefined, ...filter }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  const wanted = [
    ...Object.keys(bindings).map((name) => conditions[name as keyof AuditLogFilter](id)),
    isSeen(sight) ?? 'true',
  ];
  return listOf<AuditEntry>(
    db,
    {
      name: 'audit_log',
      select,
      // Of a page's count the links are no part, and PostgreSQL leaves out an outer join.
      from: `from audit_events a left join audit_links l on l.event_id = a.id where ${wanted.join(' and ')}`,
      bindings,
      id,
      created_at: 'a.created_at',
    },
    request,
  );
}
