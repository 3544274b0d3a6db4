import { AppError, errorHeaders, isAppError, toErrorBody } from '../domain/errors';
import { sha256 } from '../domain/ids';
import { type Db, many, maybe, one, withRetry } from '../domain/sql';
import { toWire } from '../http';
import type { Ctx } from './route';

interface Stored {
  body_sha256: string;
  status: number;
  /** The answer's JSON, kept as text: jsonb would put the members of an object into an order of its own. */
  answer: string;
}

/**
 * Runs an action that moves money in one transaction, under the caller's Idempotency-Key where one was sent: a repeat gets
 * the stored answer, another body under the key 422. Answers of 5xx and 422 are not kept (design: HTTP conventions).
 */
export async function once<T>(
  ctx: Ctx,
  org_id: string | null,
  action: (db: Db) => Promise<T>,
): Promise<unknown> {
  const key = ctx.http.get('idempotency-key');
  if (key === '') return withRetry(() => ctx.db.transaction(action));
  if (key.length > 200) {
    throw new AppError('invalid_field', 'An Idempotency-Key may have at most 200 characters.', {
      param: 'Idempotency-Key',
    });
  }
  const { status, answer } = await withRetry(() =>
    ctx.db.transaction((trx) => stored(trx, ctx, { org_id, key, action })),
  );
  ctx.http.status = status;
  ctx.http.type = 'json';
  ctx.http.body = answer;
  // The codes' own headers are not stored; a refusal's status says whether a model SDK may retry it.
  if (status >= 400) ctx.http.set(errorHeaders(new AppError('invalid_request', '', { status })));
  return undefined;
}

interface Call<T> {
  org_id: string | null;
  key: string;
  action: (db: Db) => Promise<T>;
}

async function stored<T>(
  trx: Db,
  ctx: Ctx,
  { org_id, key, action }: Call<T>,
): Promise<Omit<Stored, 'body_sha256'>> {
  const row = {
    org_id,
    principal: ctx.principal.id,
    route: `${ctx.http.method} ${ctx.http.path}`,
    key,
  };
  const body_sha256 = await sha256(JSON.stringify([ctx.http.query, ctx.http.state.body]));
  await forgetOld(trx);
  // A second call under the key waits here until the first one's transaction ends.
  const isFirst = await maybe(
    trx,
    `insert into idempotency_keys (org_id, principal, route, key, body_sha256)
     values (:org_id, :principal, :route, :key, :body_sha256)
     on conflict do nothing returning key`,
    { ...row, body_sha256 },
  );
  if (!isFirst) return replay(trx, row, body_sha256);
  const { status, answer } = await answerOf(trx, ctx, action);
  await one(
    trx,
    `update idempotency_keys set status = :status, answer = :answer
     where org_id is not distinct from :org_id and principal = :principal and route = :route and key = :key returning key`,
    { ...row, status, answer: JSON.stringify(answer) },
  );
  return { status, answer };
}

/** Answers are kept for 7 days; each call takes away a few that are older. */
async function forgetOld(trx: Db): Promise<void> {
  await many(
    trx,
    `delete from idempotency_keys where ctid = any(array(
       select ctid from idempotency_keys where created_at < clock_timestamp() - interval '7 days'
       order by created_at limit 10 for update skip locked))`,
  );
}

async function replay(trx: Db, row: Record<string, unknown>, body_sha256: string): Promise<Stored> {
  const found = await one<Stored>(
    trx,
    `select body_sha256, status, answer from idempotency_keys
     where org_id is not distinct from :org_id and principal = :principal and route = :route and key = :key`,
    row,
  );
  if (found.body_sha256 === body_sha256) return found;
  throw new AppError('idempotency_key_reused', 'This Idempotency-Key was used with another body.', {
    param: 'Idempotency-Key',
  });
}

/** Runs the action in a savepoint, so that a refusal undoes its writes but keeps the stored answer. */
async function answerOf<T>(
  trx: Db,
  ctx: Ctx,
  action: (db: Db) => Promise<T>,
): Promise<Omit<Stored, 'body_sha256'>> {
  try {
    return { status: ctx.status, answer: jsonOf(await trx.transaction(action)) };
  } catch (error) {
    if (!isAppError(error) || error.status >= 500 || error.status === 422) throw error;
    return { status: error.status, answer: jsonOf(toErrorBody(error, ctx.request_id)) };
  }
}

function jsonOf(answer: unknown): string {
  return JSON.stringify(toWire(answer));
}
