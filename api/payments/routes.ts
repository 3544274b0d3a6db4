import { z } from 'zod';
import { AppError } from '../../domain/errors';
import { noteAsked } from '../../domain/payments/cancellation';
import type { ProviderName } from '../../domain/payments/currencies';
import * as sessionLists from '../../domain/payments/session-lists';
import * as payments from '../../domain/payments/sessions';
import { isPlatformAdmin } from '../../domain/people/rights';
import * as answers from '../answers/payments';
import * as shared from '../answers/shared';
import { actingOrg, member, ofNone, type Principal, permission } from '../http/access';
import { inName } from '../http/acting';
import {
  id,
  instant,
  listParts,
  paymentProvider,
  positiveAmount,
  providerId,
} from '../http/fields';
import { type Ctx, route } from '../http/route';
import { buyerOf, makeCheckout } from './checkouts';
import { message, settle, terminal } from './looks';

const url = z.string().min(1).max(2_000);

const checkout = z.strictObject({
  org_id: id.optional(),
  amount: positiveAmount('amount'),
  target_wallet_owner_type: z.enum(['user', 'team', 'organization']),
  target_wallet_owner_id: id.optional(),
  surface: z.enum(['console', 'chat']),
  return_url: url,
  cancel_url: url,
});
const confirmation = z.strictObject({
  payment_session_id: id,
  provider_session_token: providerId,
  checkout_state: id,
  provider: paymentProvider,
});
const one = z.strictObject({ id });
export const sessionFilter = {
  provider: paymentProvider.optional(),
  status: z.enum(payments.statuses).optional(),
  from_date: instant.optional(),
  to_date: instant.optional(),
  ...listParts(),
};
const history = z.strictObject({ org_id: id.optional(), ...sessionFilter });

export const paymentRoutes = [
  route({
    method: 'post',
    path: '/v1/payments/create-checkout',
    access: member,
    input: checkout,
    handler: createCheckout,
    summary: 'Make a hosted checkout for a top-up; send the buyer to its approval_url.',
    status: 201,
    is_idempotent: true,
    is_run_once: true,
    answer: answers.checkout,
  }),
  route({
    method: 'post',
    path: '/v1/payments/confirm-checkout',
    access: member,
    input: confirmation,
    handler: confirmCheckout,
    summary: 'The buyer is back from the provider: take the payment and credit the wallet, once.',
    answer: answers.confirmation,
  }),
  route({
    method: 'get',
    path: '/v1/payments/sessions',
    access: member,
    input: history,
    handler: listOwn,
    summary: "The caller's own payment sessions, newest first.",
    answer: shared.parts({ sessions: answers.paymentSession }),
  }),
  route({
    method: 'get',
    path: '/v1/payments/sessions/:id',
    access: member,
    input: one,
    handler: inspect,
    summary: "A payment session of the caller; with org:billing, any of the organization's.",
    answer: answers.paymentSession,
  }),
  route({
    method: 'post',
    path: '/v1/payments/sessions/:id/cancel',
    access: member,
    input: one,
    handler: cancel,
    summary: 'Give up a checkout that is not paid.',
    answer: answers.paymentSession,
  }),
  route({
    method: 'get',
    path: '/v1/payments/history',
    access: permission('org:billing'),
    input: history,
    handler: list,
    summary: "The organization's payment sessions, newest first.",
    answer: shared.parts({ sessions: answers.paymentHistoryItem }),
  }),
];

async function createCheckout(ctx: Ctx, input: z.infer<typeof checkout>) {
  const { session_id, buyer, approval } = await makeCheckout(ctx, input);
  const { provider: name, approval_url, expires_at } = approval;
  const checkout_state = await stateOf(ctx, session_id, name, buyer);
  return {
    payment_session_id: session_id,
    provider: name,
    approval_url,
    expires_at,
    checkout_state,
  };
}

async function confirmCheckout(ctx: Ctx, input: z.infer<typeof confirmation>) {
  const { db } = ctx;
  const session = await own(ctx, input.payment_session_id);
  if (input.provider !== session.provider)
    throw new AppError('invalid_field', `This session was made at ${session.provider}.`, {
      param: 'provider',
    });
  const buyer = buyerOf(ctx.principal, session.org_id);
  const isOurs = await ctx.secrets.isSigned(
    input.checkout_state,
    'checkout_state',
    ...partsOf(session.id, session.provider, buyer),
  );
  if (!isOurs)
    throw new AppError(
      'checkout_state_invalid',
      'checkout_state is not the one that create-checkout answered for this session.',
      { param: 'checkout_state' },
    );
  if (input.provider_session_token !== session.provider_order_id)
    throw new AppError(
      'checkout_state_invalid',
      'provider_session_token is not the one of this session.',
      { param: 'provider_session_token' },
    );
  await settle(ctx, session);
  return payments.outcomeOf(db, session.id);
}

/** A session of the caller; who may bill reads the organization's, platform admins anybody's. */
async function inspect({ db, principal }: Ctx, input: z.infer<typeof one>) {
  if (isPlatformAdmin(principal)) return payments.getAny(db, input.id);
  const org_id = requireOrg(principal);
  if (principal.scopes.includes('org:billing')) return payments.getAny(db, input.id, org_id);
  return payments.get(db, input.id, buyerOf(principal, org_id));
}

async function cancel(ctx: Ctx, input: z.infer<typeof one>) {
  const session = await own(ctx, input.id);
  if (!terminal.includes(session.status)) {
    // Those that come within one second are one.
    const options = { update_id: `cancel-${Math.floor(Date.now() / 1_000)}` };
    // The workflow cancels it once the provider knows; who asked stands in the audit log by then.
    await inName(ctx, (trx) => noteAsked(trx, session));
    await message(ctx, { org_id: session.org_id, session_id: session.id }, 'cancel', options);
  }
  const after = await payments.getAny(ctx.db, session.id);
  if (after.status === 'canceled') return after;
  throw new AppError('payment_state', `This payment is ${after.status}; it cannot be canceled.`);
}

async function list({ db, principal }: Ctx, { org_id, ...input }: z.infer<typeof history>) {
  const { from_date: from, to_date: until, provider: name, status, ...request } = input;
  const acting = await actingOrg(db, principal, org_id);
  const filter = { org_id: acting, provider: name, status, from, until };
  const { rows, ...envelope } = await sessionLists.list(db, filter, request);
  return { sessions: rows.map(historyItem), ...envelope };
}

async function listOwn({ db, principal }: Ctx, { org_id, ...input }: z.infer<typeof history>) {
  const { from_date: from, to_date: until, provider: name, status, ...request } = input;
  const buyer = buyerOf(principal, await actingOrg(db, principal, org_id));
  const filter = { provider: name, status, from, until };
  const { rows, ...envelope } = await sessionLists.listOwn(db, buyer, filter, request);
  return { sessions: rows, ...envelope };
}

/** What the list of an organization says of a payment: not what its provider refused, or why. */
function historyItem(session: payments.Session) {
  const { id: session_id, user_id, provider: name, surface, amount_nanos, currency } = session;
  const { status, provider_order_id, provider_capture_id, created_at } = session;
  const { target_wallet_owner_type, target_wallet_owner_id, wallet_id } = session;
  const { credited_amount_nanos, refunded_amount_nanos, refund_status } = session;
  return {
    id: session_id,
    user_id,
    provider: name,
    surface,
    amount_nanos,
    currency,
    status,
    provider_order_id,
    provider_capture_id,
    created_at,
    target_wallet_owner_type,
    target_wallet_owner_id,
    wallet_id,
    credited_amount_nanos,
    refunded_amount_nanos,
    refund_status,
  };
}

function own({ db, principal }: Ctx, session_id: string): Promise<payments.Session> {
  if (principal.org_id === null) return payments.getMade(db, session_id, principal.id);
  return payments.get(db, session_id, buyerOf(principal, principal.org_id));
}

/** A session of the caller by the order id that its provider gave it. */
export function ownOrder({ db, principal }: Ctx, order_id: string): Promise<payments.Session> {
  const buyer = buyerOf(principal, requireOrg(principal));
  return payments.getByOrder(db, order_id, buyer);
}

function requireOrg({ org_id }: Principal): string {
  if (org_id === null) throw ofNone();
  return org_id;
}

function stateOf({ secrets }: Ctx, session_id: string, name: ProviderName, buyer: payments.Buyer) {
  return secrets.sign('checkout_state', ...partsOf(session_id, name, buyer));
}

function partsOf(session_id: string, name: ProviderName, buyer: payments.Buyer): string[] {
  return [session_id, buyer.user_id ?? buyer.created_by, buyer.org_id, name];
}
