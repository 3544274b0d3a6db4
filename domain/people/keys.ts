import { sha256 } from '../digest';
import { AppError } from '../errors';
import { type Db, many, owns } from '../sql';

export type TokenType = 'access' | 'gateway';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const CHECKSUM_LENGTH = 6;
const pattern = /^svc_(ak|gk)_[0-9A-Za-z]{30,60}$/;

/**
 * A new key: prefix, 32 random bytes in base62, and six characters by which a typo is noticed
 * without a query.
 */
export async function newKey(type: TokenType): Promise<string> {
  const secret = `${type === 'access' ? 'svc_ak_' : 'svc_gk_'}${randomText()}`;
  return secret + (await checksum(secret));
}

/** 32 random bytes in base62. */
export function randomText(): string {
  return base62(crypto.getRandomValues(new Uint8Array(32)));
}

/** True if the text has a key's form and its checksum fits. */
export async function isWellFormed(key: string): Promise<boolean> {
  if (!pattern.test(key)) return false;
  return (await checksum(key.slice(0, -CHECKSUM_LENGTH))) === key.slice(-CHECKSUM_LENGTH);
}

/** The refusal (401) of a key that is mistyped, unknown, expired or revoked. */
export function invalidKey(): AppError {
  return new AppError('invalid_credential', 'This key is mistyped, unknown, expired or revoked.');
}

/** The refusal (403) of the keys and people of a suspended organization. */
export function suspended(): AppError {
  return new AppError(
    'organization_suspended',
    'This organization is suspended: its keys and people are refused. Ask its platform admin.',
  );
}

/** True of a token `t` that was revoked; one that gave its name away as it had expired was not. */
export const wasRevoked =
  '(t.revoked_at is not null and t.revoked_at is distinct from t.expires_at)';

/** An expired key gives its name to another one; with `of` only if it stands for that person. */
export async function freeName(
  trx: Db,
  { org_id, name, of }: { org_id: string | null; name: string; of?: string | undefined },
): Promise<void> {
  await many(
    trx,
    `update tokens set revoked_at = expires_at
     where ${owns('org_id', org_id)} and name = :name and revoked_at is null and expires_at <= clock_timestamp()
       and (:of::text is null or user_id = :of)`,
    { org_id, name, of: of ?? null },
  );
}

/** The refusal (409) of a name that a living key bears. */
export function nameTaken(name: string): AppError {
  return new AppError(
    'already_exists',
    `A living key is named ${name}. Choose another name, or revoke that key if it is yours to revoke.`,
    { param: 'name' },
  );
}

async function checksum(secret: string): Promise<string> {
  const digest = await sha256(secret);
  const bytes = Uint8Array.from(digest.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
  return base62(bytes).slice(-CHECKSUM_LENGTH);
}

function base62(bytes: Uint8Array): string {
  let number = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = '';
  for (; number > 0n; number /= 62n) text = alphabet[Number(number % 62n)] + text;
  return text.padStart(Math.ceil((bytes.length * 8) / Math.log2(62)), '0');
}
