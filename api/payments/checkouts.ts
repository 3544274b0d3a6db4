import { sha256 } from '../../domain/digest';
import { AppError } from '../../domain/errors';
import * as questions from '../../domain/payments/questions';
import * as payments from '../../domain/payments/sessions';
import { type Db, withRetry } from '../../domain/sql';
import { actingOrg, type Principal } from '../http/access';
import { inName } from '../http/acting';
import { idempotencyKey, senderOf } from '../http/idempotency';
import type { Ctx } from '../http/route';
import { type CheckoutWish, judged } from './checkout-rules';
import { message } from './looks';

// A checkout at the provider, by whichever route it is asked for.

/** What a caller asks for; `org_id` is for callers of the platform. */
type Wanted = CheckoutWish & { org_id?: string | undefined };

/**
 * Makes the session and waits for its checkout at the provider: the part that both families of
 * routes share. Only its own transactions are repeated: a session that stands is not made again.
 */
export async function makeCheckout(ctx: Ctx, input: Wanted) {
  const { db, principal } = ctx;
  const org_id = await actingOrg(db, principal, input.org_id);
  const buyer = buyerOf(principal, org_id);
  const once = await onceOf(ctx, org_id);
  const resumed = once && (await withRetry(() => payments.madeUnder(db, once)));
  if (resumed !== undefined) ctx.http.set('idempotent-replayed', 'true');
  const session_id = resumed ?? (await made(ctx, { buyer, once }, input));
  // Only a session that is resumed can be further than this.
  const isBegun = once && (await isOpened(db, session_id));
  if (!isBegun) {
    // All who ask under one Idempotency-Key wait for one try at the provider.
    const asked = await withRetry(() => questions.ask(db, session_id, { pause_s: 0 }));
    // Answered meanwhile: the row says it.
    if (asked !== undefined)
      await message(ctx, { org_id, session_id }, 'approval', { update_id: `approval-${asked}` });
  }
  const approval = await payments.approvalOf(db, session_id);
  const { approval_url, status, error_message } = approval;
  // One that failed after the provider made it: its page takes no money any more, or took it.
  const isOver = status === 'failed' && approval_url !== null;
  if (status === 'canceled' || status === 'expired' || isOver)
    throw new AppError(
      'payment_state',
      `The session of this Idempotency-Key is ${status}. Send another key for a new checkout.`,
    );
  if (approval_url !== null) return { session_id, buyer, approval };
  if (status === 'created')
    throw new AppError(
      'unavailable',
      'The payment provider has not made the checkout yet. Repeat this with the same Idempotency-Key: it resumes the session. If this lasts, a platform admin sees why: GET /v1/admin/payments.',
      { retry_after: 5 },
    );
  throw new AppError(
    'provider_error',
    `The payment provider refused this checkout. ${error_message ?? ''}`.trim(),
  );
}

async function made(
  ctx: Ctx,
  { buyer, once }: Pick<payments.NewSession, 'buyer' | 'once'>,
  input: CheckoutWish,
): Promise<string> {
  const wanted = await judged(ctx.db, ctx.principal, buyer.org_id, input);
  return withRetry(() => inName(ctx, (trx) => payments.create(trx, { buyer, once, ...wanted })));
}

async function isOpened(db: Db, session_id: string): Promise<boolean> {
  const { approval_url, status } = await payments.approvalOf(db, session_id);
  return approval_url !== null || status !== 'created';
}

/** The buyer, for an organization. */
export function buyerOf(principal: Principal, org_id: string): payments.Buyer {
  return { org_id, user_id: principal.user_id, created_by: principal.id };
}

/** The call's Idempotency-Key, hashed with its caller: it resumes the session that it made. */
async function onceOf(ctx: Ctx, org_id: string) {
  const key = idempotencyKey(ctx.http);
  if (key === undefined) return undefined;
  const { principal, http } = ctx;
  // A checkout of the platform is its maker's alone, so another session could not confirm it.
  const sender = principal.org_id === null ? principal.id : senderOf(principal);
  return {
    idempotency: await sha256(JSON.stringify([org_id, sender, http.path, key])),
    body_sha256: await sha256(JSON.stringify([http.query, http.state.body])),
  };
}
