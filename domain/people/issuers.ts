import { AppError } from '../errors';
import { requireLiving } from '../known';
import { type ListRequest, listOf, type Part } from '../lists';
import { type Page, type PageRequest, pageOf } from '../pages';
import { type Db, many, maybe, one, owns } from '../sql';
import { unique } from './organizations';
import type { Role } from './roles';

// The identity providers whose people may sign in.

/** What the members of a group are given: a place in a team, or a role below the owner's. */
export interface GroupGrant {
  group: string;
  team_id: string | null;
  team_role: 'member' | 'admin' | null;
  role: Exclude<Role, 'owner'> | null;
}

export interface Issuer {
  id: string;
  /** The organization whose people it signs in; null: those of all. */
  org_id: string | null;
  name: string;
  /** `iss` of its tokens. */
  issuer: string;
  /** Our client there: `aud` of its id tokens. */
  client_id: string;
  jwks_url: string;
  authorization_url: string | null;
  token_url: string | null;
  /** How `sub` is read: as the id of a user here, or by what it was bound to. */
  subject: 'user_id' | 'bound';
  /** People with a verified address of these domains become members when they first sign in. */
  email_domains: string[];
  groups_claim: string | null;
  group_grants: GroupGrant[];
  has_client_secret: boolean;
  created_at: Date;
}

/** An issuer with its client's secret, sealed. */
export interface SealedIssuer extends Issuer {
  credentials: string | null;
}

/** What of an issuer its operators write. */
export type IssuerFields = Omit<Issuer, 'id' | 'created_at' | 'has_client_secret'>;

const columns = `i.id, i.org_id, i.name, i.issuer, i.client_id, i.jwks_url, i.authorization_url, i.token_url, i.subject,
  i.email_domains, i.groups_claim, i.group_grants, i.credentials is not null as has_client_secret, i.created_at`;
const living = 'from identity_issuers i where i.archived_at is null';
const has_words = 'has_words(array[i.name, i.issuer], :q)';

/** The living issuers, for the platform: those that all words of `q` are found in. */
export function list(
  db: Db,
  { q }: { q?: string | undefined },
  request: ListRequest,
): Promise<Page<Issuer> | Part<Issuer>> {
  return listOf(
    db,
    {
      name: 'issuers',
      select: `select ${columns}`,
      from: q === undefined ? living : `${living} and ${has_words}`,
      bindings: { q: q ?? null },
      id: 'i.id',
      created_at: 'i.created_at',
      orders: { created_at: undefined, name: { by: 'lower(i.name)', type: 'text' } },
    },
    request,
  );
}

/** Which of the issuers that people may choose from when they sign in. */
interface Choice {
  id?: string | undefined;
  /** Words of its name or address. */
  q?: string | undefined;
}

/** The living issuers that people may choose from when they sign in, by name. */
export function choices(
  db: Db,
  { id, q }: Choice,
  window: Omit<PageRequest, 'as_of'>,
): Promise<Page<Issuer>> {
  const conditions = [
    living,
    'not exists (select 1 from organizations o where o.id = i.org_id and o.archived_at is not null)',
    ...(id === undefined ? [] : ['i.id = :id']),
    ...(q === undefined ? [] : [has_words]),
  ];
  return pageOf(
    db,
    {
      select: `select ${columns}`,
      all: conditions.join(' and '),
      ordered: 'order by i.name, i.id',
    },
    { id: id ?? null, q: q ?? null },
    window,
  );
}

export function get(db: Db, id: string): Promise<SealedIssuer> {
  return one(
    db,
    `select ${columns}, i.credentials ${living} and i.id = :id`,
    { id },
    'No identity provider',
  );
}

/** An issuer that is about to be changed: another change of it waits until the transaction ends. */
export function lock(trx: Db, id: string): Promise<SealedIssuer> {
  return one(
    trx,
    `select ${columns}, i.credentials ${living} and i.id = :id for update`,
    { id },
    'No identity provider',
  );
}

/**
 * An issuer as it is now, held until the transaction ends, so that its removal comes before it or
 * finds what it made. Throws `invalid_credential` if it was taken out, or trusts other tokens than
 * when one of them was verified.
 */
export async function hold(trx: Db, verified: SealedIssuer): Promise<SealedIssuer> {
  const now = await maybe<SealedIssuer>(
    trx,
    `select ${columns}, i.credentials ${living} and i.id = :id for share`,
    { id: verified.id },
  );
  if (now !== undefined && trusts(now) === trusts(verified)) return now;
  throw new AppError(
    'invalid_credential',
    'This identity provider was taken out or changed meanwhile. Sign in again.',
  );
}

/** Whose tokens an issuer takes. */
function trusts({ issuer, client_id, jwks_url }: Issuer): string {
  return JSON.stringify([issuer, client_id, jwks_url]);
}

/** The living issuers that call themselves so; each has a client of its own. */
export function named(db: Db, issuer: string): Promise<SealedIssuer[]> {
  return many(db, `select ${columns}, i.credentials ${living} and i.issuer = :issuer`, { issuer });
}

/**
 * Makes an issuer. One that was taken out and is set up again for the same organization, with the
 * same client, is the one of before: it knows its people.
 */
export async function create(trx: Db, fields: IssuerFields): Promise<Issuer> {
  const { org_id, issuer, client_id } = fields;
  await requireLiving(trx, org_id);
  await checkGrants(trx, fields);
  const former = await maybe<{ id: string }>(
    trx,
    `select id from identity_issuers where issuer = :issuer and client_id = :client_id
       and ${owns('org_id', org_id)} and archived_at is not null
     order by archived_at desc limit 1 for update`,
    { org_id, issuer, client_id },
  );
  if (former !== undefined) {
    await write(trx, former.id, fields);
    return get(trx, former.id);
  }
  const { id } = await unique(IS_SET_UP, () =>
    one<{ id: string }>(
      trx,
      `insert into identity_issuers (org_id, name, issuer, client_id, jwks_url, authorization_url, token_url, subject,
         email_domains, groups_claim, group_grants)
       values (:org_id, :name, :issuer, :client_id, :jwks_url, :authorization_url, :token_url, :subject,
         :email_domains, :groups_claim, :group_grants) returning id`,
      bindingsOf(fields),
    ),
  );
  return get(trx, id);
}

/**
 * Changes what is given of an issuer; what it is bound to stays. Its organization never changes.
 * What is not given is not judged: a team of its grants may have been archived meanwhile.
 */
export async function update(trx: Db, id: string, changed: Partial<IssuerFields>): Promise<Issuer> {
  const { credentials: _, has_client_secret: __, created_at: ___, ...before } = await lock(trx, id);
  const { org_id } = before;
  const { email_domains = [], group_grants = [] } = changed;
  await checkGrants(trx, { org_id, email_domains, group_grants });
  if (changed.issuer !== undefined && changed.issuer !== before.issuer)
    await requireUnbound(trx, id);
  const fields = { ...before, ...changed, org_id };
  await write(trx, id, fields);
  return get(trx, id);
}

/** Refuses (422) another provider for people who are bound here: its subjects are others. */
async function requireUnbound(trx: Db, id: string): Promise<void> {
  const bound = await maybe(trx, 'select 1 from identities where issuer_id = :id limit 1', { id });
  if (bound === undefined) return;
  throw new AppError(
    'invalid_field',
    'People are bound to this issuer, and the subjects of another one are other people. Set the other one up as a new issuer, and take this one out.',
    { param: 'issuer' },
  );
}

const IS_SET_UP =
  'This issuer is set up with this client already, here or for another organization. Change that one, or register another client there.';

/** Writes what operators give, also over an issuer that was taken out, which lives again. */
async function write(trx: Db, id: string, fields: IssuerFields): Promise<void> {
  await unique(IS_SET_UP, () =>
    many(
      trx,
      `update identity_issuers set name = :name, issuer = :issuer, client_id = :client_id, jwks_url = :jwks_url,
         authorization_url = :authorization_url, token_url = :token_url, subject = :subject, email_domains = :email_domains,
         groups_claim = :groups_claim, group_grants = :group_grants, archived_at = null
       where id = :id`,
      { ...bindingsOf(fields), id },
    ),
  );
}

/** Keeps the sealed secret of the client; null for a client without one. */
export async function setCredentials(
  trx: Db,
  id: string,
  credentials: string | null,
): Promise<void> {
  await many(trx, 'update identity_issuers set credentials = :credentials where id = :id', {
    id,
    credentials,
  });
}

/**
 * Ends an issuer, and in the same transaction the sessions that came from it. What its groups gave
 * is taken back afterwards, by `takeBack`.
 */
export async function archive(trx: Db, id: string): Promise<void> {
  await lock(trx, id);
  await many(
    trx,
    'update identity_issuers set archived_at = clock_timestamp(), credentials = null where id = :id',
    { id },
  );
  await many(
    trx,
    `update tokens set revoked_at = clock_timestamp()
     where issuer_id = :id and purpose = 'session' and revoked_at is null`,
    { id },
  );
}

/** The same members for every statement: knex takes lists of PostgreSQL as they are, not JSON. */
function bindingsOf({ group_grants, ...fields }: IssuerFields): Record<string, unknown> {
  return { ...fields, group_grants: JSON.stringify(group_grants) };
}

/** Groups and domains make people of one organization, and its teams alone can be given. */
async function checkGrants(
  trx: Db,
  {
    org_id,
    email_domains,
    group_grants,
  }: Pick<IssuerFields, 'org_id' | 'email_domains' | 'group_grants'>,
): Promise<void> {
  if (org_id === null && email_domains.length > 0) throw needsOrg('email_domains');
  if (org_id === null && group_grants.length > 0) throw needsOrg('group_grants');
  const teams = await many<{ id: string }>(
    trx,
    'select id from teams where org_id = :org_id and archived_at is null and id = any(:ids)',
    { org_id, ids: group_grants.flatMap(({ team_id }) => team_id ?? []) },
  );
  const known = new Set(teams.map(({ id }) => id));
  for (const [n, { team_id }] of group_grants.entries())
    if (team_id !== null && !known.has(team_id))
      throw new AppError('not_found', 'No team of this organization was found under this id.', {
        param: `group_grants.${n}.team_id`,
      });
}

function needsOrg(param: string): AppError {
  return new AppError('invalid_field', `${param} is for an issuer of one organization: org_id.`, {
    param,
  });
}
