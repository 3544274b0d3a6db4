import { AppError } from '../errors';
import { type Db, many, maybe, owns } from '../sql';
import { freeName, nameTaken } from './keys';
import { unique } from './organizations';
import { get, type Token } from './tokens';

/** What may be changed of a key: absent stays as it is, null takes the bound away. */
export interface TokenChange {
  name?: string | undefined;
  allowed_models?: readonly string[] | null | undefined;
  expires_at?: Date | null | undefined;
  rpm?: number | null | undefined;
  tpm?: number | null | undefined;
  max_parallel_requests?: number | null | undefined;
  include_cost?: boolean | undefined;
}

const limits = ['rpm', 'tpm', 'max_parallel_requests'] as const;
const others = ['name', 'allowed_models', 'include_cost', 'expires_at'] as const;

/**
 * Changes a living key; its value, its scopes and whom it stands for stay. The organization is
 * locked, as budgets are counted under its lock. With `of` it takes no name of an expired key of
 * somebody else. Calls under way go on by what they began with.
 */
export async function change(
  trx: Db,
  org_id: string | null,
  { id, status }: Pick<Token, 'id' | 'status'>,
  { of, ...wanted }: TokenChange & { of?: string | undefined },
): Promise<Token> {
  if (status !== 'active')
    throw new AppError('key_not_active', 'This key is expired or revoked; issue a new one.', {
      param: 'name',
    });
  const { name } = wanted;
  if (name !== undefined) await requireFree(trx, { org_id, id, name, of });
  // Keys of the platform have no organization whose lock keeps two from taking one name.
  const taken = nameTaken(name ?? '');
  await unique(taken.message, () => write(trx, id, others, wanted), taken.details);
  await write(trx, id, limits, wanted);
  return get(trx, org_id, id);
}

/** True for a session that somebody began with this key: it acts for the key. */
export async function isMadeWith(db: Db, session_id: string, id: string): Promise<boolean> {
  const found = await maybe(
    db,
    `select 1 from tokens where id = :session_id and purpose = 'session' and made_with = :id`,
    { session_id, id },
  );
  return found !== undefined;
}

async function requireFree(
  trx: Db,
  at: { org_id: string | null; id: string; name: string; of: string | undefined },
): Promise<void> {
  await freeName(trx, at);
  const taken = await maybe(
    trx,
    `select 1 from tokens where ${owns('org_id', at.org_id)} and name = :name and revoked_at is null and id <> :id`,
    at,
  );
  if (taken) throw nameTaken(at.name);
}

async function write(
  trx: Db,
  id: string,
  columns: readonly (keyof TokenChange)[],
  wanted: TokenChange,
): Promise<void> {
  const changed = columns.filter((column) => wanted[column] !== undefined);
  if (changed.length === 0) return;
  await many(
    trx,
    `update tokens set ${changed.map((column) => `${column} = :${column}`).join(', ')} where id = :id`,
    { ...wanted, id },
  );
}

/** True if a key is to end later than it does; null is never. */
export function isLonger(
  { expires_at: now }: Pick<Token, 'expires_at'>,
  { expires_at: wanted }: { expires_at?: Date | null | undefined },
): boolean {
  if (wanted === undefined || now === null) return false;
  return wanted === null || wanted > now;
}
