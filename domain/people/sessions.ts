import { type Db, many, maybe, one, owns } from '../sql';
import { suspended } from './keys';
import type { Permission, Role } from './roles';
import { addSecret } from './tokens';

// A session is an access key that a person gets by signing in. What it may do is looked up with
// each use, as with every key of a person (living-tokens).

/** So many sessions of a person, or of a key of the platform, live at one time: the oldest end. */
const LIVING_MAX = 50;

/** Whose sessions: a person's of an organization, or those of platform keys. */
type Holder = { org_id: string; user_id: string } | { org_id: null; user_id: null };

/** A living session as its person sees it. */
export interface Session {
  id: string;
  /** Null, as is the person: an operator's, made with a platform key. */
  org_id: string | null;
  user_id: string | null;
  /** How the person signed in. */
  method: 'access_key' | 'one_time_code' | 'oidc';
  /** The name of the identity provider; null for other methods. */
  issuer: string | null;
  created_at: Date;
  last_used_at: Date | null;
  /** Twelve hours after it was made, or when the key ends that it was made with. */
  expires_at: Date;
  /** An hour after its last use. */
  idle_ends_at: Date;
}

export type NewSession = Holder & {
  /** At most: its person's role cuts them at each use. */
  scopes: readonly Permission[];
  /** The access key that it was made with, and ends with. */
  key?: { id: string; secret_id: string; expires_at: Date | null };
  issuer_id?: string;
  /** The bound subject that the person has signed in by. */
  identity_id?: string | null;
};

const living = (org_id: string | null) => `
  select t.id, t.org_id, t.user_id, i.name as issuer, t.created_at, t.last_used_at, t.expires_at,
    case when t.made_with is not null then 'access_key' when t.issuer_id is not null then 'oidc' else 'one_time_code' end as method,
    coalesce(t.last_used_at, t.created_at) + interval '1 hour' as idle_ends_at
  from tokens t left join identity_issuers i on i.id = t.issuer_id
  where t.purpose = 'session' and t.revoked_at is null and t.expires_at > clock_timestamp() and session_lives(t)
    and ${owns('t.org_id', org_id)}`;

const ofHolder = ({ org_id }: Holder) =>
  org_id === null
    ? 't.org_id is null and t.user_id is null'
    : 't.org_id = :org_id and t.user_id = :user_id';

/**
 * The role of a session's person, whose membership is held until the transaction ends: else their
 * removal would end the sessions that it sees, and not this one. Undefined if they have left.
 */
export async function holdRole(
  trx: Db,
  person: { org_id: string; user_id: string },
): Promise<Role | undefined> {
  const held = await maybe<{ role: Role }>(
    trx,
    `select role from memberships
     where org_id = :org_id and user_id = :user_id and archived_at is null for share`,
    person,
  );
  return held?.role;
}

/** Makes a session. Its key is in this answer and nowhere else. */
export async function create(
  trx: Db,
  { scopes, key, issuer_id, identity_id, ...holder }: NewSession,
): Promise<Session & { key: string }> {
  const { org_id, user_id } = holder;
  if (org_id !== null) await requireActive(trx, org_id);
  await forgetOld(trx, holder, key?.id ?? null);
  const { id } = await one<{ id: string }>(
    trx,
    `insert into tokens (org_id, name, token_type, purpose, scopes, user_id, created_by, session_secret_id, issuer_id,
       identity_id, bound_by, bound_with, expires_at)
     select :org_id, case when :org_id::text is null then coalesce('session of ' || (select left(k.name, 100) from tokens k where k.id = :created_by), 'session')
         else 'session' end || ' ' || :uuid, 'access', 'session', :scopes, :user_id, :created_by, :secret_id, :issuer_id,
       i.id, i.created_by, i.created_with, least(clock_timestamp() + interval '12 hours', :key_ends_at)
     from (select 1) as always left join identities i on i.id = :identity_id returning id`,
    {
      org_id,
      user_id,
      uuid: crypto.randomUUID(),
      scopes: [...scopes],
      created_by: key?.id ?? user_id,
      secret_id: key?.secret_id ?? null,
      issuer_id: issuer_id ?? null,
      identity_id: identity_id ?? null,
      key_ends_at: key?.expires_at ?? null,
    },
  );
  const value = await addSecret(trx, id, 'access');
  const made = await one<Session>(trx, `${living(org_id)} and t.id = :id`, {
    org_id,
    id,
  });
  return { ...made, key: value };
}

/** The living sessions of a person in an organization, newest first. */
export function list(db: Db, person: { org_id: string; user_id: string }): Promise<Session[]> {
  return many(db, `${living(person.org_id)} and t.user_id = :user_id order by t.id desc`, person);
}

/** A living session of an organization, or of the platform for null; `not_found` otherwise. */
export function get(db: Db, org_id: string | null, id: string): Promise<Session> {
  return one(db, `${living(org_id)} and t.id = :id`, { org_id, id }, 'No session');
}

/** Ends sessions of a person: the named one, or all. Returns how many. */
export async function end(trx: Db, { id, ...holder }: Holder & { id?: string }): Promise<number> {
  const ended = await many(
    trx,
    `update tokens t set revoked_at = clock_timestamp()
     where t.purpose = 'session' and ${ofHolder(holder)} and (:id::text is null or t.id = :id)
       and t.revoked_at is null and t.expires_at > clock_timestamp() returning t.id`,
    { ...holder, id: id ?? null },
  );
  return ended.length;
}

/** Nobody signs in to an organization that is suspended. */
async function requireActive(trx: Db, org_id: string): Promise<void> {
  // Held until the session is there, so that an end of the organization ends it too.
  const active = await maybe(
    trx,
    'select 1 from organizations where id = :org_id and suspended_at is null for share',
    { org_id },
  );
  if (!active) throw suspended();
}

/**
 * Ends the sessions beyond the bound, and deletes those that are over for a week: but none with
 * which a key, an invitation or a sign-in was made, for by it these fall with its holder.
 */
async function forgetOld(trx: Db, holder: Holder, key_id: string | null): Promise<void> {
  await many(
    trx,
    `update tokens set revoked_at = clock_timestamp() where id in (
       select t.id from tokens t where ${ofHolder(holder)} and t.purpose = 'session'
         and (t.org_id is not null or t.made_with = :key_id)
         and t.revoked_at is null and t.expires_at > clock_timestamp() and session_lives(t)
       order by t.id desc offset :most - 1)`,
    { ...holder, key_id, most: LIVING_MAX },
  );
  const old = await many<{ id: string }>(
    trx,
    `select t.id from tokens t where ${ofHolder(holder)} and t.purpose = 'session'
       and coalesce(t.revoked_at, t.expires_at) < clock_timestamp() - interval '7 days'
       and not exists (select 1 from tokens n where n.made_with = t.id)
       and not exists (select 1 from token_secrets n where n.issued_with = t.id)
       and not exists (select 1 from tokens n where n.bound_with = t.id)
       and not exists (select 1 from identities n where n.created_with = t.id)
       and not exists (select 1 from one_time_codes n where n.org_id = t.org_id and n.created_with = t.id)
     order by t.id limit 100 for update skip locked`,
    { ...holder },
  );
  const ids = old.map(({ id }) => id);
  await many(trx, 'delete from token_secrets where token_id = any(:ids)', { ids });
  await many(trx, 'delete from tokens where id = any(:ids)', { ids });
}
