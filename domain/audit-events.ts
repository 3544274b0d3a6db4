import { isMadeBefore, type Page, type PageRequest, pageOf } from './pages';
import { type Db, many } from './sql';

/** A change that somebody made: who, what, and how it was before and after, without secrets. */
interface AuditEvent {
  id: string;
  created_at: Date;
  /** Null if it concerns the whole platform. */
  org_id: string | null;
  /** The person, or the key that stands for nobody; null if the installation acted by itself. */
  actor: string | null;
  /** The access key that was used; null for a person with a JWT. */
  key_id: string | null;
  request_id: string | null;
  /** `key.created`, `member.changed`, `price.ended`: a noun, and what became of it. */
  action: string;
  object_id: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}

interface AuditFilter {
  sight: AuditSight;
  /** Null: of all organizations and of the platform. */
  org_id: string | null;
  actor?: string | undefined;
  action?: string | undefined;
  object_id?: string | undefined;
  since?: Date | undefined;
  until?: Date | undefined;
}

/** Rows that show money: what is read with `org:billing` alone. */
const money_nouns = [
  'wallet',
  'payment',
  'payment_refund',
  'settlement_excess',
  'cost_ticket',
  'budget',
  'approval_rule',
  'provider_key',
] as const;

/** What `org:billing` sets up and what shows no money: either permission reads these rows. */
const billing_nouns = [
  'payment_settings',
  'export',
  'export_schedule',
  'export_destination',
  'notice_destination',
  'notice_message',
  'notice_recipient',
] as const;

/** Which rows of an organization somebody may read. */
export interface AuditSight {
  members: boolean;
  money: boolean;
}

/** The rows of `a` that are seen, as a condition; undefined: all of them. */
export function isSeen({ members, money }: AuditSight): string | undefined {
  if (members && money) return undefined;
  if (!members && !money) return 'false';
  const nouns = money ? [...money_nouns, ...billing_nouns] : money_nouns;
  const listed = nouns.map((noun) => `'${noun}'`).join(', ');
  return `split_part(a.action, '.', 1) ${money ? 'in' : 'not in'} (${listed})`;
}

// Clients of this list know a sealed member as the word alone.
const after = `case when a.after is not null then (
    select coalesce(jsonb_object_agg(m.key, case m.value when '{"changed": true}' then '"changed"' else m.value end), '{}')
    from jsonb_each(a.after) as m) end`;

/** Audit events, newest first. */
export function list(
  db: Db,
  { org_id, sight, actor, action, object_id, since, until }: AuditFilter,
  window: PageRequest,
): Promise<Page<AuditEvent>> {
  return pageOf(
    db,
    {
      select: `select a.id, a.created_at, a.org_id, a.actor, a.key_id, a.request_id, a.action, a.object_id, a.before,
        ${after} as after`,
      all: `from audit_events a
     where (:org_id::text is null or a.org_id = :org_id) and (:actor::text is null or a.actor = :actor)
       and (:action::text is null or a.action = :action) and (:object_id::text is null or a.object_id = :object_id)
       and (:since::timestamptz is null or a.created_at >= :since) and (:until::timestamptz is null or a.created_at < :until)
       and ${isSeen(sight) ?? 'true'} and ${isMadeBefore('a.created_at')}`,
      ordered: 'order by a.id desc',
    },
    {
      org_id,
      actor: actor ?? null,
      action: action ?? null,
      object_id: object_id ?? null,
      since: since ?? null,
      until: until ?? null,
    },
    window,
  );
}

/** Who acts: the person or else the key, the key that was used, and the request's label. */
export interface Acting {
  actor: string;
  key_id?: string | undefined;
  request_id?: string | undefined;
}

/**
 * Names who acts for the rest of the transaction: its ledger entries and audit events say so.
 */
export async function actAs(trx: Db, { actor, key_id, request_id }: Acting): Promise<void> {
  await many(
    trx,
    `select set_config('svc.actor', :actor, true), set_config('svc.key_id', :key_id, true),
       set_config('svc.request_id', :request_id, true)`,
    { actor, key_id: key_id ?? '', request_id: request_id ?? '' },
  );
}
