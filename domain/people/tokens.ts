import { sha256 } from '../digest';
import { AppError } from '../errors';
import { isMadeBefore, type Page, type PageRequest, pageOf } from '../pages';
import { type Db, many, maybe, one } from '../sql';
import { invalidKey, newKey, type TokenType } from './keys';
import type { Role } from './members';

export const permissions = [
  'org:billing',
  'agents:read',
  'agents:write',
  'tokens:write',
  'org:members',
  'events:read',
  'platform:admin',
  'control_plane',
] as const;
export type Permission = (typeof permissions)[number];

/** Scopes that belong to the platform: no organization's key carries them. */
export const platformPermissions: readonly Permission[] = ['platform:admin', 'control_plane'];

/**
 * The permissions of each role. A key made for a person never has more, also when the role shrinks
 * later.
 */
export const rolePermissions: Record<Role, readonly Permission[]> = {
  owner: permissions.filter((scope) => !platformPermissions.includes(scope)),
  admin: ['agents:read', 'agents:write', 'tokens:write', 'org:members', 'events:read'],
  billing_admin: ['org:billing'],
  member: [],
};

export interface LivingToken {
  id: string;
  secret_id: string;
  org_id: string | null;
  token_type: TokenType;
  scopes: Permission[];
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  allowed_models: string[] | null;
  expires_at: Date | null;
}

/** A token as people see it: everything but its secret. */
interface Token {
  id: string;
  name: string;
  token_type: TokenType;
  prefix: string;
  scopes: Permission[];
  allowed_models: string[] | null;
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  max_budget_nanos: bigint | null;
  spent_nanos: bigint;
  created_at: Date;
  expires_at: Date | null;
  last_used_at: Date | null;
  status: 'active' | 'expired' | 'revoked';
}

export interface NewToken {
  org_id: string | null;
  name: string;
  token_type: TokenType;
  scopes: readonly Permission[];
  allowed_models: readonly string[] | null;
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  max_budget_nanos: bigint | null;
  expires_at: Date | null;
  created_by: string;
}

const tokenRows = `
  select t.id, t.name, t.token_type, s.prefix, t.scopes, t.allowed_models, t.user_id, t.team_id, t.agent_id, t.max_budget_nanos,
    t.spent_nanos, t.created_at, t.expires_at, t.last_used_at,
    case when t.revoked_at is not null then 'revoked' when t.expires_at <= clock_timestamp() then 'expired' else 'active' end as status
  from tokens t
  join lateral (select prefix from token_secrets where token_id = t.id order by created_at desc, id desc limit 1) s on true
  where t.org_id is not distinct from :org_id`;

/**
 * Issues a key. Its value is in this answer and nowhere else. A name is free again once its key
 * expired or was revoked.
 */
export function issue(db: Db, token: NewToken): Promise<Token & { key: string }> {
  const { org_id, name } = token;
  return db.transaction(async (trx) => {
    await checkOwners(trx, token);
    await many(
      trx,
      `update tokens set revoked_at = expires_at
       where org_id is not distinct from :org_id and name = :name and revoked_at is null and expires_at <= clock_timestamp()`,
      { org_id, name },
    );
    const made = await maybe<{ id: string }>(
      trx,
      `insert into tokens (org_id, name, token_type, scopes, allowed_models, user_id, team_id, agent_id, max_budget_nanos, expires_at, created_by)
       values (:org_id, :name, :token_type, :scopes, :allowed_models, :user_id, :team_id, :agent_id, :max_budget_nanos, :expires_at, :created_by)
       on conflict do nothing returning id`,
      { ...token },
    );
    if (!made)
      throw new AppError(
        'already_exists',
        `A living key is named ${name}. Revoke it or choose another name.`,
        { param: 'name' },
      );
    const key = await addSecret(trx, made.id, token.token_type);
    return { ...(await find(trx, org_id, name)), key };
  });
}

/** Newest first; living, expired and revoked ones. */
export function list(
  db: Db,
  org_id: string | null,
  { type = null, ...window }: PageRequest & { type?: TokenType | null | undefined },
): Promise<Page<Token>> {
  return pageOf(
    db,
    `${tokenRows} and (:type::text is null or t.token_type = :type) and ${isMadeBefore('t.created_at')} order by t.id desc`,
    { org_id, type },
    window,
  );
}

/** The living key of a name, else the newest that bore it; `not_found` otherwise. */
export function find(db: Db, org_id: string | null, name: string): Promise<Token> {
  return one<Token>(
    db,
    `${tokenRows} and t.name = :name order by t.revoked_at is null desc, t.id desc limit 1`,
    { org_id, name },
    'No key',
  );
}

/** Revokes at once: the next request with the key is refused everywhere; calls in flight finish. */
export async function revoke(db: Db, org_id: string | null, name: string): Promise<Token> {
  const token = await find(db, org_id, name);
  await many(
    db,
    'update tokens set revoked_at = clock_timestamp() where id = :id and revoked_at is null',
    { id: token.id },
  );
  return find(db, org_id, name);
}

/**
 * A new secret for the same token: id, budget, spending and holds stay. The old secret works for
 * the overlap, then ends.
 */
export function rotate(
  db: Db,
  token: Pick<Token, 'id' | 'token_type'>,
  overlap_seconds: number,
): Promise<string> {
  return db.transaction(async (trx) => {
    // Two rotations at once would each miss the other's new secret and leave it alive.
    const living = await maybe(
      trx,
      `select 1 from tokens where id = :id and revoked_at is null and coalesce(expires_at > clock_timestamp(), true)
       for no key update`,
      { id: token.id },
    );
    if (!living)
      throw new AppError('key_not_active', 'This key is expired or revoked; issue a new one.', {
        param: 'name',
      });
    await many(
      trx,
      `update token_secrets set expires_at = least(expires_at, clock_timestamp() + :overlap_seconds * interval '1 second')
       where token_id = :id`,
      { id: token.id, overlap_seconds },
    );
    return addSecret(trx, token.id, token.token_type);
  });
}

/**
 * Notes that a key was used, at most once a minute; a row that money is just moving on is noted by
 * that.
 */
async function touch(db: Db, id: string): Promise<void> {
  await many(
    db,
    `update tokens set last_used_at = clock_timestamp()
     where id = (select id from tokens where id = :id for no key update skip locked)`,
    { id },
  );
}

async function addSecret(trx: Db, token_id: string, type: TokenType): Promise<string> {
  const key = await newKey(type);
  await many(
    trx,
    'insert into token_secrets (token_id, hash, prefix) values (:token_id, :hash, :prefix)',
    {
      token_id,
      hash: await sha256(key),
      prefix: key.slice(0, 12),
    },
  );
  return key;
}

/**
 * User, team and agent of a key belong to its organization, and the user's role carries its scopes.
 */
async function checkOwners(trx: Db, token: NewToken): Promise<void> {
  const { org_id, user_id, team_id, agent_id } = token;
  // Locked, so that a key cannot slip past the removal of its owner, which revokes the keys that it
  // sees.
  const living = (table: string, column: string) =>
    `select * from ${table} where org_id = :org_id and ${column} = :id and archived_at is null for share`;
  const owner = async (param: keyof NewToken, id: string | null, sql: string) => {
    if (id === null) return undefined;
    const row = await maybe<{ role?: Role }>(trx, sql, { org_id, id });
    if (row) return row;
    throw new AppError('not_found', `${param} is not of this organization.`, { param });
  };
  const user = await owner('user_id', user_id, living('memberships', 'user_id'));
  await owner('team_id', team_id, living('teams', 'id'));
  await owner('agent_id', agent_id, living('agents', 'id'));
  const allowed = user?.role && rolePermissions[user.role];
  const excess = allowed && token.scopes.find((scope) => !allowed.includes(scope));
  if (excess)
    throw new AppError('invalid_field', `The role ${user?.role} does not carry ${excess}.`, {
      param: 'scopes',
    });
}

interface FoundToken extends LivingToken {
  hash: string;
  /** The present role of the key's person. */
  role: Role | null;
  /** True if the last noted use is over a minute old. */
  is_unnoted: boolean;
}

/**
 * The living tokens among keys' hashes, with the scopes that their persons' roles still allow;
 * notes their use.
 */
export async function findLiving(
  db: Db,
  hashes: readonly string[],
): Promise<Map<string, LivingToken>> {
  const found = await many<FoundToken>(
    db,
    `select s.hash, t.id, s.id as secret_id, t.org_id, t.token_type, t.scopes, t.user_id, t.team_id, t.agent_id,
       t.allowed_models, least(t.expires_at, s.expires_at) as expires_at, m.role,
       coalesce(t.last_used_at < clock_timestamp() - interval '1 minute', true) as is_unnoted
     from token_secrets s
     join tokens t on t.id = s.token_id
     left join memberships m on m.org_id = t.org_id and m.user_id = t.user_id
     where s.hash = any(:hashes) and t.revoked_at is null
       and coalesce(t.expires_at > clock_timestamp(), true) and coalesce(s.expires_at > clock_timestamp(), true)`,
    { hashes },
  );
  for (const { id, is_unnoted } of found) if (is_unnoted) await touch(db, id);
  return new Map(found.map((token) => [token.hash, withinRole(token)]));
}

/**
 * The living token of an organization by its id, with its newest secret; `invalid_credential` if
 * there is none.
 */
export async function findLivingById(db: Db, org_id: string, id: string): Promise<LivingToken> {
  const found = await maybe<{ hash: string }>(
    db,
    `select s.hash from token_secrets s join tokens t on t.id = s.token_id
     where t.id = :id and t.org_id = :org_id and coalesce(s.expires_at > clock_timestamp(), true)
     order by s.expires_at desc nulls first limit 1`,
    { id, org_id },
  );
  const token = found && (await findLiving(db, [found.hash])).get(found.hash);
  if (token === undefined) throw invalidKey();
  return token;
}

function withinRole({ hash: _, role, is_unnoted: __, ...token }: FoundToken): LivingToken {
  if (role === null) return token;
  return {
    ...token,
    scopes: token.scopes.filter((scope) => rolePermissions[role].includes(scope)),
  };
}
