import { AppError, isAppError } from '../errors';
import { lockOrganization } from '../known';
import { type Db, many, maybe } from '../sql';
import { cut, isEmail, isKept, keepable } from '../texts';
import { applyGroups } from './group-grants';
import { idOf, requireRoom } from './identities';
import { SUBJECT_MAX } from './identity';
import { hold, type Issuer, type SealedIssuer } from './issuers';
import { invalidKey, suspended } from './keys';
import * as members from './members';
import { use } from './one-time-codes';
import { lock, requireRank } from './rights';
import { requireTeamRank } from './team-rights';

// Who a person of an identity provider is here: by issuer and subject, never by e-mail.

const NAME_MAX = 200;
/** More names of groups than a person has: the token is not what it should be. */
const GROUPS_MAX = 5_000;

/** The claims of a verified id token. */
export type Claims = Readonly<Record<string, unknown>> & { sub: string };

interface Place {
  org_id: string;
  user_id: string;
}

/** Who has signed in, and by which bound subject; null if the platform, or no one, bound it. */
interface SignedIn extends Place {
  identity_id: string | null;
}

/** A living membership that a subject stands for, with the name of its organization. */
interface BoundMembership extends Place {
  name: string;
}

/**
 * The person of an id token, and the organization that they sign in to: the named one, or their
 * only one. Binds them if they bring an invitation, makes them a member if their domain may, and
 * applies their groups, by the issuer as it is under the lock. Throws 401 if that was taken out
 * since the token was verified, 403 if they are nobody here, and 422 `org_required` if they are in
 * several organizations and name none.
 */
export async function signIn(
  trx: Db,
  verified: SealedIssuer,
  claims: Claims,
  { org_id, invitation }: { org_id?: string | undefined; invitation?: string | undefined },
): Promise<SignedIn> {
  const { sub } = claims;
  if (sub.length > SUBJECT_MAX || !isKept(sub)) throw stranger();
  if (verified.org_id !== null) await lockOrganization(trx, verified.org_id);
  const issuer = await hold(trx, verified);
  const groups = groupsOf(claims, issuer.groups_claim);
  const bound = invitation === undefined ? undefined : await bind(trx, issuer, sub, invitation);
  if (bound === undefined && (await isUnknown(trx, issuer, sub)))
    await createMember(trx, issuer, claims);
  const all = await membershipsOf(trx, issuer, sub);
  const { user_id, org_id: chosen } = choose(all, org_id ?? bound?.org_id);
  const person = { org_id: chosen, user_id, subject: sub };
  if (issuer.org_id === chosen) await applyGroups(trx, issuer, { ...person, groups });
  const identity_id = await idOf(trx, { org_id: chosen, issuer_id: issuer.id, subject: sub });
  return { org_id: chosen, user_id, identity_id };
}

/**
 * The user that a subject stands for in an organization: as at a sign-in, what was bound there goes
 * before what the platform bound. Throws 403 if it stands for nobody.
 */
export async function personOf(
  db: Db,
  { org_id, issuer, subject }: { org_id: string; issuer: string; subject: string },
): Promise<string> {
  const found = await maybe<{ user_id: string; is_suspended: boolean }>(
    db,
    `select m.user_id, o.suspended_at is not null as is_suspended
     from (
       select i.user_id, true as is_bound from identities i join identity_issuers p on p.id = i.issuer_id
       where p.issuer = :issuer and p.archived_at is null and p.subject = 'bound'
         and i.org_id = :org_id and i.subject = :subject
       union all
       select u.id, false from users u where u.issuer = :issuer and u.subject = :subject
     ) as s join memberships m on m.user_id = s.user_id and m.org_id = :org_id and m.archived_at is null
     join organizations o on o.id = m.org_id
     order by s.is_bound desc, m.user_id limit 1`,
    { org_id, issuer, subject },
  );
  if (found?.is_suspended) throw suspended();
  if (found) return found.user_id;
  throw new AppError(
    'permission_denied',
    'The person of this assertion is nobody of the organization that this gateway serves. Sign in at the console first, or ask for an invitation.',
    { param: 'subject' },
  );
}

function choose(all: readonly BoundMembership[], named: string | undefined): BoundMembership {
  const [first, second] = all;
  if (first === undefined) throw stranger();
  const found = named === undefined ? first : all.find(({ org_id }) => org_id === named);
  if (found === undefined)
    throw new AppError('not_found', 'No organization was found under this id.', {
      param: 'org_id',
    });
  if (named === undefined && second !== undefined)
    throw new AppError(
      'org_required',
      'You are a member of several organizations; name one: org_id.',
      {
        param: 'org_id',
        extra: { organizations: all.map(({ org_id, name }) => ({ org_id, name })) },
      },
    );
  return found;
}

/** One membership an organization: what was bound there goes before what the platform bound. */
function membershipsOf(db: Db, issuer: Issuer, sub: string): Promise<BoundMembership[]> {
  return many(
    db,
    `select distinct on (m.org_id) m.org_id, m.user_id, o.name
     from (
       select i.user_id, i.org_id, true as is_bound from identities i
       where i.issuer_id = :issuer_id and i.subject = :sub and not :by_id
       union all
       select u.id, null, false from users u where u.issuer = :issuer and u.subject = :sub and not :by_id
       union all
       select u.id, null, false from users u where u.id = :sub and :by_id
     ) as s join memberships m on m.user_id = s.user_id and m.org_id = coalesce(s.org_id, m.org_id) and m.archived_at is null
     join organizations o on o.id = m.org_id and o.archived_at is null
     where :only::text is null or m.org_id = :only
     order by m.org_id, s.is_bound desc, m.user_id`,
    {
      issuer_id: issuer.id,
      issuer: issuer.issuer,
      only: issuer.org_id,
      by_id: issuer.subject === 'user_id',
      sub,
    },
  );
}

/**
 * True for a subject that never stood for anybody here: not for somebody who has left, nor for
 * anybody whom it was unbound from. A person is the same by whichever client of their issuer they
 * come, so all of them are asked about, as far as they are of this organization or of all.
 */
async function isUnknown(trx: Db, issuer: Issuer, sub: string): Promise<boolean> {
  if (issuer.subject === 'user_id') return false;
  const of_issuer = `p.issuer = :issuer and (p.id = :id or p.org_id is null or p.org_id = :org_id)`;
  const found = await maybe(
    trx,
    `select 1 from identities i join identity_issuers p on p.id = i.issuer_id where i.subject = :sub and ${of_issuer}
     union all select 1 from unbound_subjects u join identity_issuers p on p.id = u.issuer_id
       where u.subject = :sub and ${of_issuer}
     union all select 1 from users where issuer = :issuer and subject = :sub limit 1`,
    { id: issuer.id, issuer: issuer.issuer, org_id: issuer.org_id, sub },
  );
  return found === undefined;
}

/** Binds a subject to the member whom an invitation is for. */
async function bind(trx: Db, issuer: Issuer, sub: string, invitation: string): Promise<Place> {
  const param = 'invitation';
  if (issuer.subject === 'user_id')
    throw new AppError('invalid_field', 'The subjects of this issuer are users; none is bound.', {
      param,
    });
  const code = await use(trx, invitation, 'invitation');
  const { org_id, user_id, created_by, created_with, scopes } = code;
  if (issuer.org_id !== null && issuer.org_id !== org_id)
    throw new AppError(
      'permission_denied',
      'This invitation is of an organization that this identity provider signs nobody in to.',
      { param },
    );
  const maker = { id: created_by, user_id: isPerson(created_by) ? created_by : null, scopes };
  try {
    await requireKey(trx, created_with);
    const now = await lock(trx, org_id, maker, 'org:members');
    requireRank(now, (await members.get(trx, org_id, user_id)).role);
    await requireTeamRank(trx, { org_id, user_id, caller: now }, param);
  } catch (error) {
    if (!isAppError(error)) throw error;
    throw new AppError(
      'permission_denied',
      'Whoever made this invitation may not invite this member any more. Ask for a new one.',
      { param },
    );
  }
  await requireRoom(trx, { org_id, user_id, issuer_id: issuer.id, subject: sub }, param);
  const other = await maybe<{ user_id: string }>(
    trx,
    `insert into identities as q (issuer_id, org_id, subject, user_id, created_by, created_with)
     values (:issuer_id, :org_id, :sub, :user_id, :created_by, :created_with)
     on conflict (issuer_id, org_id, subject) do update set subject = q.subject returning user_id`,
    { issuer_id: issuer.id, org_id, sub, user_id, created_by, created_with },
  );
  if (other?.user_id !== user_id)
    throw new AppError(
      'already_exists',
      'This sign-in is bound to another member of the organization. Unbind it there first.',
      { param },
    );
  return { org_id, user_id };
}

function isPerson(id: string): boolean {
  return id.startsWith('user_');
}

/**
 * What was made with a key falls with it, also if it was in a session that the key had opened. A
 * session without a key ends by itself, and its person stays.
 */
async function requireKey(trx: Db, id: string): Promise<void> {
  const ended = await maybe(
    trx,
    `select 1 from tokens t join tokens k on k.id in (t.id, t.made_with)
     where t.id = :id and k.purpose = 'key' and (k.id = t.id or t.purpose = 'session')
       and (k.revoked_at is not null or k.expires_at <= clock_timestamp())`,
    { id },
  );
  if (ended) throw invalidKey();
}

/** Makes a member of a person whose verified e-mail address is of a domain that may. */
async function createMember(trx: Db, issuer: Issuer, claims: Claims): Promise<void> {
  const { sub, email, email_verified, name, preferred_username } = claims;
  const { org_id, email_domains } = issuer;
  if (org_id === null || typeof email !== 'string' || !isKept(email)) throw stranger();
  const domain = email.split('@').at(-1)?.toLowerCase() ?? '';
  if (!email_domains.includes(domain)) throw stranger();
  if (!isEmail(email))
    throw new AppError(
      'permission_denied',
      'Your identity provider gives an e-mail address (email) that is none. Correct it there, or ask for an invitation.',
      { param: 'id_token' },
    );
  if (email_verified !== true)
    throw new AppError(
      'permission_denied',
      'Your identity provider has not verified your e-mail address (email_verified). Verify it there, or ask for an invitation.',
      { param: 'email_verified' },
    );
  const shown = [name, preferred_username].find((one) => typeof one === 'string' && one !== '');
  const person = {
    name: cut(keepable(String(shown ?? email)), NAME_MAX),
    email,
    role: 'member' as const,
  };
  const { user_id } = await members.add(trx, org_id, person).catch((error) => {
    if (!isAppError(error) || error.details.param !== 'email') throw error;
    throw new AppError(
      'permission_denied',
      'A member of the organization has your e-mail address already. Ask an owner or admin for an invitation, which binds your sign-in to them.',
      { param: 'email' },
    );
  });
  await many(
    trx,
    'insert into identities (issuer_id, org_id, subject, user_id) values (:issuer_id, :org_id, :sub, :user_id)',
    { issuer_id: issuer.id, org_id, sub, user_id },
  );
}

/**
 * The names of a person's groups. Throws if the claim is no list of names: rights are neither given
 * nor taken by half a list.
 */
function groupsOf(claims: Claims, claim: string | null): ReadonlySet<string> {
  if (claim === null) return new Set();
  const elsewhere = claims._claim_names as Record<string, unknown> | undefined;
  const given = claims[claim] ?? [];
  const names = typeof given === 'string' ? [given] : given;
  if (elsewhere?.[claim] !== undefined || (Array.isArray(names) && names.length > GROUPS_MAX))
    throw new AppError(
      'permission_denied',
      `You have too many groups for a token. Let your identity provider send only those that matter here, ${GROUPS_MAX} at most.`,
      { param: 'groups_claim' },
    );
  const isName = (one: unknown) => typeof one === 'string' && isKept(one);
  if (!Array.isArray(names) || !names.every(isName))
    throw new AppError(
      'invalid_credential',
      `The claim "${claim}" of this id token is no list of names of groups.`,
      { param: 'id_token' },
    );
  return new Set(names as string[]);
}

function stranger(): AppError {
  return new AppError(
    'permission_denied',
    'This person is a member of no organization. Ask an owner or admin to invite them.',
  );
}
