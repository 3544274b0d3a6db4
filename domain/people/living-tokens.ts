import { type Db, many, maybe, prepared } from '../sql';
import { invalidKey, suspended, type TokenType } from './keys';
import { type Permission, type Role, rolePermissions } from './roles';

// The keys that callers send, as they stand now.

export interface LivingToken {
  id: string;
  secret_id: string;
  org_id: string | null;
  token_type: TokenType;
  purpose: 'key' | 'session';
  /** The key itself, or the one that a session was made with: it stays when the session ends. */
  lasting_key_id: string | null;
  scopes: Permission[];
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  allowed_models: string[] | null;
  rpm: number | null;
  tpm: number | null;
  max_parallel_requests: number | null;
  include_cost: boolean;
  expires_at: Date | null;
  /** Its organization is suspended: the key is good, and refused. */
  is_suspended: boolean;
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
 * notes their use, but for sessions of which `isUse` says that it is none. None lives on for a
 * person who has left its organization.
 */
export async function findLiving(
  db: Db,
  hashes: readonly string[],
  isUse: (hash: string) => boolean = () => true,
): Promise<Map<string, LivingToken>> {
  const found = await prepared<FoundToken>(
    db,
    'living_tokens_5',
    `select s.hash, t.id, s.id as secret_id, t.org_id, t.token_type, t.purpose,
       case when t.purpose = 'key' then t.id else t.made_with end as lasting_key_id,
       case when t.purpose = 'key' or t.made_with is null then t.scopes
         else array(select c from unnest(t.scopes) as c where c = any((select k.scopes from tokens k where k.id = t.made_with)::text[]))
       end as scopes, t.user_id, t.team_id, t.agent_id,
       t.allowed_models, t.rpm, t.tpm, t.max_parallel_requests, t.include_cost, least(t.expires_at, s.expires_at) as expires_at, m.role,
       o.suspended_at is not null as is_suspended,
       coalesce(t.last_used_at < clock_timestamp() - interval '1 minute', true) as is_unnoted
     from token_secrets s
     join tokens t on t.id = s.token_id
     left join memberships m on m.org_id = t.org_id and m.user_id = t.user_id and m.archived_at is null
     left join organizations o on o.id = t.org_id
     where s.hash = any(:hashes) and t.revoked_at is null
       and (t.org_id is null or t.user_id is null or m.user_id is not null)
       and coalesce(t.expires_at > clock_timestamp(), true) and coalesce(s.expires_at > clock_timestamp(), true)
       and (t.purpose = 'key' or session_lives(t))`,
    { hashes },
  );
  for (const { id, hash, purpose, is_unnoted } of found)
    if (is_unnoted && (purpose !== 'session' || isUse(hash))) await touch(db, id);
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
  if (token.is_suspended) throw suspended();
  return token;
}

function withinRole({ hash: _, role, is_unnoted: __, ...token }: FoundToken): LivingToken {
  if (role === null) return token;
  return {
    ...token,
    scopes: token.scopes.filter((scope) => rolePermissions[role].includes(scope)),
  };
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
