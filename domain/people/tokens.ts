import { sha256 } from '../digest';
import { AppError } from '../errors';
import { type Db, many, maybe, one, owns } from '../sql';
import { freeName, nameTaken, newKey, type TokenType, wasRevoked } from './keys';
import { type Caller, requireMaker, requirePerson, requireRank } from './rights';
import { type Permission, type Role, rolePermissions } from './roles';
import { requireInTeam, requireTeamRank } from './team-rights';

/** A token as people see it: everything but its secret. */
export interface Token {
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
  /** The calendar window of max_budget; null if that is for the key's life. */
  budget_window: 'hour' | 'day' | 'week' | 'month' | null;
  /** What is spent and held in that window, or in the key's life; and when the window ends. */
  budget_used_nanos: bigint | null;
  budget_resets_at: Date | null;
  /** Limits of this key alone; null: as the gateway's configuration says of every key. */
  rpm: number | null;
  tpm: number | null;
  max_parallel_requests: number | null;
  /** Gateways tell what calls with it cost, unless a call says otherwise. */
  include_cost: boolean;
  /** The person who made it; the key, if that stood for nobody. */
  created_by: string | null;
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
  rpm?: number | null | undefined;
  tpm?: number | null | undefined;
  max_parallel_requests?: number | null | undefined;
  include_cost?: boolean | undefined;
  expires_at: Date | null;
  created_by: string;
}

/** So many keys of one organization may live at one time: lists and counts of them stay short. */
const LIVING_MAX = 10_000;

/** A token's columns, of `tokenTable`. */
export const tokenColumns = `
  select t.id, t.name, t.token_type, s.prefix, t.scopes, t.allowed_models, t.user_id, t.team_id, t.agent_id,
    coalesce(t.max_budget_nanos, kb.limit_nanos) as max_budget_nanos, t.spent_nanos, kb.budget_window,
    case when t.max_budget_nanos is not null then least(t.spent_nanos::numeric + t.held_nanos, 9223372036854775807)::bigint
      when kb.ends_at <= clock_timestamp() then 0::bigint
      when kb.id is not null then least(kb.spent_nanos::numeric + kb.held_nanos, 9223372036854775807)::bigint end as budget_used_nanos,
    case when kb.ends_at <= clock_timestamp() then (reporting_window(kb.budget_window, (select o.time_zone from organizations o
      where o.id = t.org_id), clock_timestamp())).ends_at else kb.ends_at end as budget_resets_at,
    t.rpm, t.tpm, t.max_parallel_requests, t.include_cost, t.created_by, t.created_at, t.expires_at, t.last_used_at,
    case when ${wasRevoked} then 'revoked' when t.expires_at <= clock_timestamp() then 'expired' else 'active' end as status`;

/** Tokens with the newest of their secrets. */
export const tokenTable = `
  from tokens t
  join lateral (select prefix from token_secrets where token_id = t.id order by created_at desc, id desc limit 1) s on true
  left join budgets kb on kb.owner_id = t.id and kb.is_max_budget and kb.archived_at is null`;

/** The keys of an organization, without sessions; more conditions may follow. */
export function tokenRows(org_id: string | null): string {
  return `${tokenColumns} ${tokenTable} where ${owns('t.org_id', org_id)} and t.purpose = 'key'`;
}

/**
 * Issues a key. Its value is in this answer and nowhere else. A name is free again once its key
 * expired or was revoked. Without a caller it is made by the installation itself. `needed` is the
 * permission that the role of its maker must have.
 */
export function issue(
  db: Db,
  token: NewToken,
  caller?: Caller,
  needed: Permission | null = 'tokens:write',
): Promise<Token & { key: string }> {
  const { org_id, name } = token;
  return db.transaction(async (trx) => {
    await requireMaker(trx, token, needed);
    await checkOwners(trx, token, caller);
    // Who needs no permission to make it takes the names of others' keys from nobody.
    await freeName(trx, {
      ...token,
      of: needed === null ? (token.user_id ?? undefined) : undefined,
    });
    await requireRoom(trx, org_id);
    const made = await maybe<{ id: string }>(
      trx,
      `insert into tokens (org_id, name, token_type, scopes, allowed_models, user_id, team_id, agent_id, max_budget_nanos, rpm, tpm,
         max_parallel_requests, include_cost, expires_at, created_by)
       values (:org_id, :name, :token_type, :scopes, :allowed_models, :user_id, :team_id, :agent_id, :max_budget_nanos, :rpm, :tpm,
         :max_parallel_requests, :include_cost, :expires_at, :created_by)
       on conflict do nothing returning id`,
      {
        ...token,
        rpm: token.rpm ?? null,
        tpm: token.tpm ?? null,
        max_parallel_requests: token.max_parallel_requests ?? null,
        include_cost: token.include_cost ?? false,
      },
    );
    if (!made) throw nameTaken(name);
    const key = await addSecret(trx, made.id, token.token_type);
    if (caller !== undefined && drawsOnPerson(token)) await emitKeyIssued(trx, made.id);
    return { ...(await get(trx, org_id, made.id)), key };
  });
}

/** Keys that are issued at one moment may pass the bound together, by as many as they are. */
async function requireRoom(trx: Db, org_id: string | null): Promise<void> {
  const beyond = await maybe(
    trx,
    `select 1 from tokens where org_id = :org_id and purpose = 'key' and revoked_at is null and coalesce(expires_at > clock_timestamp(), true)
     offset :living_max - 1 limit 1`,
    { org_id, living_max: LIVING_MAX },
  );
  if (beyond)
    throw new AppError(
      'living_keys_exceeded',
      `This organization has ${LIVING_MAX} living keys, which is as many as one may have. Revoke keys that nobody uses.`,
    );
}

/** A key by its id, also one that has ended; `not_found` for that of another organization. */
export function get(db: Db, org_id: string | null, id: string): Promise<Token> {
  return one<Token>(db, `${tokenRows(org_id)} and t.id = :id`, { org_id, id }, 'No key');
}

/** The living key of a name, else the newest that bore it; `not_found` otherwise. */
export function find(db: Db, org_id: string | null, name: string): Promise<Token> {
  return one<Token>(
    db,
    `${tokenRows(org_id)} and t.name = :name ${newest}`,
    { org_id, name },
    'No key',
  );
}

/** The same among the gateway keys that stand for a person. */
export function findOwn(
  db: Db,
  { org_id, user_id }: { org_id: string; user_id: string },
  name: string,
): Promise<Token> {
  return one<Token>(
    db,
    `${tokenRows(org_id)} and t.name = :name and t.user_id = :user_id and t.token_type = 'gateway' ${newest}`,
    { org_id, user_id, name },
    'No key',
  );
}

/** Of the keys of one name the living one comes first, then the newest: so its index has them. */
const newest = 'order by t.revoked_at is null desc, t.id desc limit 1';

/**
 * Revokes at once: the next request with the key is refused everywhere; calls in flight finish. The
 * answer is this very key: several that have ended may bear its name.
 */
export async function revoke(
  db: Db,
  org_id: string | null,
  { id }: Pick<Token, 'id'>,
): Promise<Token> {
  await many(
    db,
    'update tokens set revoked_at = clock_timestamp() where id = :id and revoked_at is null',
    { id },
  );
  return get(db, org_id, id);
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

/** Gives a token a new value, which is shown in this answer only. */
export async function addSecret(trx: Db, token_id: string, type: TokenType): Promise<string> {
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
async function checkOwners(trx: Db, token: NewToken, caller?: Caller): Promise<void> {
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
  if (user_id !== null && team_id !== null) await requireInTeam(trx, { team_id, user_id });
  if (caller === undefined || org_id === null) return;
  requirePerson(caller, token);
  // Whoever holds an access key for a person is that person on the routes of members.
  if (user_id === null || !user?.role || token.token_type !== 'access') return;
  if (user_id !== caller.user_id)
    requireRank(caller, user.role, {
      whose: 'this member',
      action: 'have a key that stands for them',
      param: 'user_id',
    });
  await requireTeamRank(trx, { org_id, user_id, caller }, 'user_id');
}

// Also if the caller is that person: somebody else may hold the key that they call with.
function drawsOnPerson({ token_type, user_id }: NewToken): boolean {
  return token_type === 'gateway' && user_id !== null;
}

/** Says in the events that a key may now spend a person's money, and who made it. */
async function emitKeyIssued(trx: Db, id: string): Promise<void> {
  await many(
    trx,
    `select append_event(t.org_id, 'key.issued', jsonb_build_object('key_id', t.id, 'name', t.name, 'user_id', t.user_id,
       'team_id', t.team_id, 'created_by', t.created_by))
     from tokens t where t.id = :id`,
    { id },
  );
}
