import type { Context } from 'koa';
import { sha256 } from '../../domain/digest';
import { AppError, errorHeaders, isAppError, toErrorBody } from '../../domain/errors';
import { type Db, withRetry } from '../../domain/sql';
import * as storedAnswers from '../../domain/stored-answers';
import { toWire } from '../../runtime/wire';
import { actorOf, type Principal } from './access';
import { inName } from './acting';
import type { Ctx } from './route';

const KEY_LENGTH_MAX = 200;

/**
 * Runs an action in one transaction, under the caller's Idempotency-Key if one was sent: a repeat
 * gets the stored answer, another body under the key 422. Answers of 5xx, 422 and 429 are not kept:
 * what was too many a moment ago may be taken now. What is kept is not sealed: no secret is in it.
 */
export async function once<T>(
  ctx: Ctx,
  org_id: string | null,
  action: (db: Db) => Promise<T>,
): Promise<unknown> {
  const wanted = await claimOf(ctx, org_id);
  if (wanted === undefined) return withRetry(() => inName(ctx, action));
  return replay(
    ctx,
    await withRetry(() =>
      inName(ctx, async (trx) => {
        const known = await storedAnswers.claim(trx, wanted);
        if (known) return asReplayed(ctx, known);
        // In a savepoint, so that a refusal undoes its writes but keeps the stored answer.
        const given = await answerOf(ctx, () => trx.transaction(action));
        await storedAnswers.keep(trx, wanted, given);
        return given;
      }),
    ),
  );
}

/**
 * Answers a repeat of a call whose answer is stored; false if there is none. For calls that look at
 * more than rows before they act.
 */
export async function isRepeated(ctx: Ctx, org_id: string | null): Promise<boolean> {
  const wanted = await claimOf(ctx, org_id);
  const known = wanted && (await storedAnswers.find(ctx.db, wanted));
  if (known === undefined) return false;
  replay(ctx, asReplayed(ctx, known));
  return true;
}

/**
 * As `once`, for an action that a workflow carries out, and that a repeat finds done: no connection
 * is held while it runs. If this process dies before the answer is stored, a repeat runs the action
 * again. `within` gives the statuses of parts that an answer of 200 tells of: with one that is not
 * kept, the whole is not.
 */
export async function onceElsewhere<T>(
  ctx: Ctx,
  org_id: string | null,
  action: () => Promise<T>,
  within: (answer: T) => readonly number[] = () => [],
): Promise<unknown> {
  const wanted = await claimOf(ctx, org_id);
  if (wanted === undefined) return action();
  const known = await storedAnswers.claim(ctx.db, wanted);
  if (known) return replay(ctx, asReplayed(ctx, known));
  let isKept = true;
  const given = await answerOf(ctx, async () => {
    const answer = await action();
    isKept = !within(answer).some(isPassing);
    return answer;
  }).catch(async (error) => {
    // Nothing is kept of it: the key is free for a body that is right.
    await storedAnswers.release(ctx.db, wanted);
    throw error;
  });
  if (isKept) await storedAnswers.keep(ctx.db, wanted, given);
  else await storedAnswers.release(ctx.db, wanted);
  return replay(ctx, given);
}

/** The scope of the call's Idempotency-Key; undefined if none was sent. */
async function claimOf(ctx: Ctx, org_id: string | null): Promise<storedAnswers.Claim | undefined> {
  const { http, principal } = ctx;
  const key = idempotencyKey(http);
  if (key === undefined) return undefined;
  const body_sha256 = await sha256(JSON.stringify([http.query, http.state.body]));
  const route = `${http.method} ${http.path}`;
  return { org_id, principal: senderOf(principal), route, key, body_sha256 };
}

/**
 * Whose an Idempotency-Key is: an access key's own; that of a session is its person's, or the
 * platform key's that it was made with, as a repeat may come from the next session.
 */
export function senderOf(principal: Principal): string {
  const { id, lasting_key_id } = principal;
  return id === lasting_key_id ? id : actorOf(principal);
}

/** The call's Idempotency-Key; undefined if none was sent. */
export function idempotencyKey(http: Context): string | undefined {
  const key = http.get('idempotency-key');
  if (key === '') return undefined;
  if (key.length <= KEY_LENGTH_MAX) return key;
  throw new AppError(
    'invalid_field',
    `An Idempotency-Key may have at most ${KEY_LENGTH_MAX} characters.`,
    { param: 'Idempotency-Key' },
  );
}

/**
 * Refusals that the same call may not meet again, or whose body is corrected under its key. What is
 * wrong with a credential or a right at one moment (it was lost while the call waited for its turn)
 * says nothing of the next session's.
 */
function isPassing(status: number): boolean {
  return status >= 500 || [401, 403, 422, 429].includes(status);
}

async function answerOf<T>(
  ctx: Ctx,
  action: () => Promise<T>,
): Promise<storedAnswers.StoredAnswer> {
  try {
    return { status: ctx.status, answer: jsonOf(await action()) };
  } catch (error) {
    if (!isAppError(error) || isPassing(error.status)) throw error;
    return { status: error.status, answer: jsonOf(toErrorBody(error, ctx.request_id)) };
  }
}

function asReplayed({ http }: Ctx, known: storedAnswers.StoredAnswer): storedAnswers.StoredAnswer {
  http.set('idempotent-replayed', 'true');
  return known;
}

function replay({ http }: Ctx, { status, answer }: storedAnswers.StoredAnswer): undefined {
  http.status = status;
  http.type = 'json';
  http.body = answer;
  // The codes' own headers are not stored; a refusal's status says whether a model SDK may retry
  // it.
  if (status >= 400) http.set(errorHeaders(new AppError('invalid_request', '', { status })));
}

function jsonOf(answer: unknown): string {
  return JSON.stringify(toWire(answer));
}
