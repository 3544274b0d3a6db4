import { AppError } from '../errors';
import { isMadeBefore, type Page, type PageRequest, pageOf } from '../pages';
import { type Db, many, maybe, one } from '../sql';
import { suspended } from './keys';

/** A subject of an identity provider that stands for a member. */
export interface BoundIdentity {
  id: string;
  issuer_id: string;
  /** The name of the identity provider. */
  issuer: string;
  subject: string;
  /** Who invited; null if the member was made at the first sign-in. */
  created_by: string | null;
  created_at: Date;
}

interface Subject {
  org_id: string;
  user_id: string;
}

/** What is bound to a member in an organization, newest first. */
export function list(db: Db, member: Subject, window: PageRequest): Promise<Page<BoundIdentity>> {
  return pageOf(
    db,
    {
      select: 'select i.id, i.issuer_id, p.name as issuer, i.subject, i.created_by, i.created_at',
      all: `from identities i join identity_issuers p on p.id = i.issuer_id
        where i.org_id = :org_id and i.user_id = :user_id and ${isMadeBefore('i.created_at')}`,
      ordered: 'order by i.created_at desc, i.id desc',
    },
    { ...member },
    window,
  );
}

/**
 * The member whose id a token names. Throws `permission_denied` if the organization has none of
 * that id, and `organization_suspended`.
 */
export async function livingMember(db: Db, { org_id, user_id }: Subject): Promise<string> {
  const found = await maybe<{ is_suspended: boolean }>(
    db,
    `select o.suspended_at is not null as is_suspended
     from memberships m join organizations o on o.id = m.org_id
     where m.org_id = :org_id and m.user_id = :user_id and m.archived_at is null`,
    { org_id, user_id },
  );
  if (found?.is_suspended) throw suspended();
  if (found) return user_id;
  throw new AppError(
    'permission_denied',
    'The claim "sub" of this assertion names nobody of the organization that this gateway serves.',
    { param: 'subject' },
  );
}

/** So many sign-ins a member has at most: each is a way to be them. */
const IDENTITIES_MAX = 20;

/**
 * Refuses (409 `already_exists`) one sign-in more for a member who has as many as a person needs.
 * `param` is the field that asks for it. The organization is locked.
 */
export async function requireRoom(
  trx: Db,
  { org_id, user_id, issuer_id, subject }: Subject & { issuer_id: string; subject: string },
  param: string,
): Promise<void> {
  const { others } = await one<{ others: number }>(
    trx,
    `select count(*)::int as others from identities
     where org_id = :org_id and user_id = :user_id and (issuer_id, subject) <> (:issuer_id, :subject)`,
    { org_id, user_id, issuer_id, subject },
  );
  if (others < IDENTITIES_MAX) return;
  throw new AppError(
    'already_exists',
    `This member has ${IDENTITIES_MAX} sign-ins already. Unbind one of them first: DELETE .../members/{user_id}/identities/{identity_id}.`,
    { param },
  );
}

/** A subject that was unbound from a member. */
export type Unbound = Pick<BoundIdentity, 'id' | 'issuer' | 'subject'> & { user_id: string };

/** Unbinds a subject, and ends in the same transaction the sessions that came by it. */
export async function unbind(
  trx: Db,
  { id, ...member }: Subject & { id: string },
): Promise<Unbound> {
  const gone = await one<Unbound>(
    trx,
    `delete from identities i using identity_issuers p
     where p.id = i.issuer_id and i.id = :id and i.org_id = :org_id and i.user_id = :user_id
     returning i.id, i.user_id, i.subject, p.name as issuer`,
    { id, ...member },
    'No identity of this member',
  );
  await many(
    trx,
    `update tokens set revoked_at = clock_timestamp()
     where org_id = :org_id and user_id = :user_id and identity_id = :id and purpose = 'session' and revoked_at is null`,
    { ...member, id },
  );
  return gone;
}

/** Unbinds those of a member's subjects whose ids are named, however many others there are. */
export async function unbindAmong(
  trx: Db,
  { ids, ...member }: Subject & { ids: readonly string[] },
): Promise<Unbound[]> {
  const bound = await many<{ id: string }>(
    trx,
    `select i.id from identities i
     where i.org_id = :org_id and i.user_id = :user_id and i.id = any(:ids) order by i.created_at, i.id`,
    { ...member, ids: [...ids] },
  );
  const gone: Unbound[] = [];
  for (const { id } of bound) gone.push(await unbind(trx, { id, ...member }));
  return gone;
}

/**
 * Unbinds what a person bound, themselves or with a credential that they may hold: of their own
 * subjects only with `with_own`. The subject by which the caller themselves has signed in stays,
 * and is the caller's from now on.
 */
export async function unbindThoseOf(
  trx: Db,
  { caller_id, ...person }: Subject & { with_own: boolean; caller_id: string },
): Promise<Unbound[]> {
  const { org_id } = person;
  const at = { ...person, own: await signedInBy(trx, caller_id), caller_id };
  const bound = await many<{ id: string; user_id: string }>(
    trx,
    `select i.id, i.user_id from identities i where i.org_id = :org_id and i.id is distinct from :own
       and (:with_own or i.user_id <> :user_id)
       and (i.created_by = :user_id or array[i.created_by, i.created_with] && array(select keys_held_by_2(:org_id, :user_id, :own)))
     order by i.created_at, i.id`,
    at,
  );
  const gone: Unbound[] = [];
  for (const { id, user_id: of } of bound)
    gone.push(await unbind(trx, { id, org_id, user_id: of }));
  await many(
    trx,
    `with own as (update identities set created_by = maker_of(:caller_id), created_with = :caller_id
       where id = :own and org_id = :org_id returning id)
     update tokens set bound_by = maker_of(:caller_id), bound_with = null where identity_id in (select id from own)`,
    at,
  );
  return gone;
}

/** The subject by which the bearer of a session has signed in; null for other credentials. */
export async function signedInBy(trx: Db, credential_id: string): Promise<string | null> {
  const found = await maybe<{ identity_id: string | null }>(
    trx,
    'select identity_id from tokens where id = :credential_id',
    { credential_id },
  );
  return found?.identity_id ?? null;
}

/** The id of a subject's binding in an organization; null if it is bound to nobody there. */
export async function idOf(
  trx: Db,
  at: { org_id: string; issuer_id: string; subject: string },
): Promise<string | null> {
  const found = await maybe<{ id: string }>(
    trx,
    `select id from identities where issuer_id = :issuer_id and subject = :subject and org_id = :org_id`,
    at,
  );
  return found?.id ?? null;
}
