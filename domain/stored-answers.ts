import { AppError } from './errors';
import { type Db, deleteInSteps, many, maybe, owns } from './sql';

/** The scope of an Idempotency-Key: its sender, the route, and the organization (null for none). */
export interface Claim {
  org_id: string | null;
  principal: string;
  route: string;
  key: string;
  /** Of query and body: another body under the key is refused. */
  body_sha256: string;
}

export interface StoredAnswer {
  status: number;
  /**
   * The answer's JSON, kept as text: jsonb would put the members of an object into an order of its
   * own.
   */
  answer: string;
}

function ofClaim({ org_id }: Claim): string {
  return `${owns('org_id', org_id)} and principal = :principal and route = :route and key = :key`;
}

/**
 * Takes the key for one action. Undefined if its answer is still to be given; else the stored one.
 * A second call under the key waits until the first one's transaction ends; after 7 days a key is
 * new. Throws `idempotency_key_reused` for another body.
 */
export async function claim(db: Db, wanted: Claim): Promise<StoredAnswer | undefined> {
  const isFirst = await maybe(
    db,
    `insert into idempotency_keys (org_id, principal, route, key, body_sha256)
     values (:org_id, :principal, :route, :key, :body_sha256)
     on conflict (org_id, principal, route, key) do update
       set body_sha256 = excluded.body_sha256, status = null, answer = null, created_at = clock_timestamp()
       where idempotency_keys.created_at < clock_timestamp() - interval '7 days'
     returning key`,
    { ...wanted },
  );
  if (isFirst) return undefined;
  const known = await maybe<Stored>(db, storedRow(wanted), { ...wanted });
  // Given back since: whoever had it got no answer to keep.
  return known ? answerIn(known, wanted) : claim(db, wanted);
}

/**
 * The stored answer of a key, which is not taken by it; undefined if there is none. Throws
 * `idempotency_key_reused` for another body.
 */
export async function find(db: Db, wanted: Claim): Promise<StoredAnswer | undefined> {
  const found = await maybe<Stored>(
    db,
    `${storedRow(wanted)} and created_at >= clock_timestamp() - interval '7 days'`,
    { ...wanted },
  );
  return found && answerIn(found, wanted);
}

interface Stored {
  body_sha256: string;
  status: number | null;
  answer: string;
}

function storedRow(wanted: Claim): string {
  return `select body_sha256, status, answer from idempotency_keys where ${ofClaim(wanted)}`;
}

function answerIn(
  { body_sha256, status, answer }: Stored,
  wanted: Claim,
): StoredAnswer | undefined {
  if (body_sha256 !== wanted.body_sha256) {
    throw new AppError(
      'idempotency_key_reused',
      'This Idempotency-Key was used with another body.',
      { param: 'Idempotency-Key' },
    );
  }
  return status === null ? undefined : { status, answer };
}

/**
 * Stores the answer of a claimed key; the first one stays. Of two that run under one key, one may
 * have given it back.
 */
export async function keep(db: Db, wanted: Claim, { status, answer }: StoredAnswer): Promise<void> {
  await many(
    db,
    `insert into idempotency_keys (org_id, principal, route, key, body_sha256, status, answer)
     values (:org_id, :principal, :route, :key, :body_sha256, :status, :answer)
     on conflict (org_id, principal, route, key) do update set status = excluded.status, answer = excluded.answer
       where idempotency_keys.status is null and idempotency_keys.body_sha256 = excluded.body_sha256`,
    { ...wanted, status, answer: JSON.stringify(answer) },
  );
}

/** Gives back a claimed key whose action had no answer to keep. */
export async function release(db: Db, wanted: Claim): Promise<void> {
  await many(db, `delete from idempotency_keys where ${ofClaim(wanted)} and status is null`, {
    ...wanted,
  });
}

/** Forgets answers after 7 days; how many. */
export function forget(db: Db): Promise<number> {
  return deleteInSteps(
    db,
    'idempotency_keys',
    `created_at < clock_timestamp() - interval '7 days'`,
  );
}
