import { AppError } from '../errors';
import { noOrganization } from '../known';
import * as wallets from '../ledger/wallets';
import { type Db, many, maybe, one } from '../sql';
import { type Buyer, isOwn } from './buyer';
import type { ProviderName } from './currencies';
import { requireRoom } from './open-checkouts';

export type { Buyer };

export const statuses = [
  'created',
  'capturing',
  'captured',
  'confirming',
  'confirmed',
  'completed',
  'canceled',
  'failed',
  'refunded',
  'expired',
] as const;

export type SessionStatus = (typeof statuses)[number];

// The state table. `payment_moves` of the database has the same rows, and `move_payment` refuses
// all others.
export const moves: Record<SessionStatus, readonly SessionStatus[]> = {
  created: ['capturing', 'canceled', 'expired', 'failed'],
  capturing: ['captured', 'created', 'failed'],
  captured: ['confirming', 'failed'],
  confirming: ['confirmed'],
  confirmed: ['completed'],
  completed: ['refunded'],
  refunded: ['completed'],
  canceled: ['captured'],
  expired: ['captured'],
  failed: ['captured'],
};

export type ErrorReason =
  | 'provider_unavailable'
  | 'not_approved'
  | 'declined'
  | 'amount_mismatch'
  | 'canceled_by_buyer'
  | 'session_expired'
  | 'provider_error';

/** A payment session as people see it. */
export interface Session {
  id: string;
  org_id: string;
  user_id: string | null;
  provider: ProviderName;
  surface: 'console' | 'chat';
  provider_order_id: string | null;
  provider_capture_id: string | null;
  amount_nanos: bigint;
  currency: string;
  target_wallet_owner_type: wallets.OwnerType;
  target_wallet_owner_id: string | null;
  wallet_id: string;
  status: SessionStatus;
  wallet_transaction_id: string | null;
  credited_amount_nanos: bigint;
  /** The amount that refunds and disputes have taken back from the wallet. */
  refunded_amount_nanos: bigint;
  /** How the newest refund that was asked for here stands. */
  refund_status: 'pending' | 'succeeded' | 'failed' | null;
  late: boolean;
  error_code: ErrorReason | null;
  error_message: string | null;
  /** What was decided about money that came in another amount or currency. */
  resolution: 'credited' | 'refunded' | 'closed' | null;
  created_at: Date;
  updated_at: Date;
  expires_at: Date;
}

export const sessionColumns = `
  select s.id, s.org_id, s.user_id, s.provider, s.surface, s.provider_order_id, s.provider_capture_id, s.amount_nanos, s.currency,
  s.target_wallet_owner_type, coalesce(w.owner_team_id, w.owner_user_id) as target_wallet_owner_id, s.wallet_id, s.status,
  s.wallet_transaction_id, s.credited_nanos as credited_amount_nanos, s.debited_nanos as refunded_amount_nanos, s.is_late as late,
  (select r.status from payment_refunds r where r.payment_session_id = s.id order by r.created_at desc limit 1) as refund_status,
  s.error_code, s.error_message, s.resolution, s.created_at, s.updated_at, s.expires_at`;

export const sessionTable = 'from payment_sessions s join wallets w on w.id = s.wallet_id';

const sessionRows = `${sessionColumns} ${sessionTable}`;

/** One session of its buyer; another person's or organization's is `not_found`. */
export function get(db: Db, id: string, buyer: Buyer): Promise<Session> {
  return one<Session>(
    db,
    `${sessionRows} where s.id = :id and ${isOwn}`,
    { id, ...buyer },
    'No payment session',
  );
}

/** The buyer's session by its provider's order id, as the legacy routes name it. */
export function getByOrder(db: Db, order_id: string, buyer: Buyer): Promise<Session> {
  return one<Session>(
    db,
    `${sessionRows} where s.provider_order_id = :order_id and ${isOwn} order by s.created_at desc limit 1`,
    { order_id, ...buyer },
    'No payment session',
  );
}

/** A session that a platform key made for an organization. */
export function getMade(db: Db, id: string, created_by: string): Promise<Session> {
  const sql = `${sessionRows} where s.id = :id and s.user_id is null and s.created_by = :created_by`;
  return one<Session>(db, sql, { id, created_by }, 'No payment session');
}

/** Any session, for platform admins; those of one organization, for who may bill it. */
export function getAny(db: Db, id: string, org_id: string | null = null): Promise<Session> {
  const sql = `${sessionRows} where s.id = :id and (:org_id::text is null or s.org_id = :org_id)`;
  return one<Session>(db, sql, { id, org_id }, 'No payment session');
}

export interface NewSession {
  buyer: Buyer;
  provider: ProviderName;
  surface: 'console' | 'chat';
  amount_nanos: bigint;
  currency: string;
  owner: wallets.Owner;
  return_url: string;
  cancel_url: string;
  /** The hash of the caller's Idempotency-Key and of the caller, and the body's hash. */
  once?: { idempotency: string; body_sha256: string } | undefined;
}

/**
 * Makes a session and asks for its workflow, in one transaction; the id. The same Idempotency-Key
 * within 7 days answers the session that it made; throws `idempotency_key_reused` for another body,
 * and `open_checkouts_exceeded` for one more than the buyer or the organization may have open.
 */
export async function create(db: Db, wanted: NewSession): Promise<string> {
  const { buyer, owner, once, ...columns } = wanted;
  return db.transaction(async (trx) => {
    await lockFor(trx, buyer.org_id, wanted.currency);
    const known = once && (await madeUnder(trx, once));
    if (known) return known;
    await requireRoom(trx, buyer);
    const { wallet_id, owner_type } = await wallets.ensure(trx, buyer.org_id, owner);
    // The caller starts the workflow by itself; the message is for the case that it dies before.
    const { id } = await one<{ id: string }>(
      trx,
      `with made as (
         insert into payment_sessions (org_id, user_id, created_by, provider, surface, amount_nanos, currency,
           target_wallet_owner_type, wallet_id, return_url, cancel_url, idempotency, body_sha256, asked, asked_at)
         values (:org_id, :user_id, :created_by, :provider, :surface, :amount_nanos, :currency, :owner_type, :wallet_id,
           :return_url, :cancel_url, :idempotency, :body_sha256, 1, clock_timestamp()) returning id, org_id
       ), told as (
         insert into outbox (org_id, workflow, workflow_id, input, next_at)
         select org_id, 'paymentSession', id, jsonb_build_object('payment_session_id', id), clock_timestamp() + interval '5 seconds' from made
       )
       select id from made`,
      {
        ...buyer,
        ...columns,
        wallet_id,
        owner_type,
        idempotency: once?.idempotency ?? null,
        body_sha256: once?.body_sha256 ?? null,
      },
    );
    return id;
  });
}

/**
 * The session that was made under an Idempotency-Key in the last 7 days. Throws
 * `idempotency_key_reused` for another body.
 */
export async function madeUnder(
  trx: Db,
  once: { idempotency: string; body_sha256: string },
): Promise<string | undefined> {
  await many(
    trx,
    `update payment_sessions set idempotency = null where idempotency = :idempotency and created_at < clock_timestamp() - interval '7 days'`,
    once,
  );
  const found = await maybe<{ id: string; body_sha256: string }>(
    trx,
    'select id, body_sha256 from payment_sessions where idempotency = :idempotency',
    once,
  );
  if (found && found.body_sha256 !== once.body_sha256) {
    throw new AppError(
      'idempotency_key_reused',
      'This Idempotency-Key was used with another body.',
      { param: 'Idempotency-Key' },
    );
  }
  return found?.id;
}

/** Takes the organization's lock; its currency must still be that of the checked amount. */
async function lockFor(trx: Db, org_id: string, currency: string): Promise<void> {
  const { currency: present, archived_at } = await one<{
    currency: string;
    archived_at: Date | null;
  }>(trx, 'select currency, archived_at from lock_organization(:org_id)', { org_id });
  if (archived_at) throw noOrganization();
  if (present !== currency)
    throw new AppError('unavailable', "The organization's currency has just changed. Repeat this.");
}

/** The checkout of a session; `url` is null until the provider has made it. */
interface Approval {
  provider: ProviderName;
  status: SessionStatus;
  attempt: number;
  provider_order_id: string | null;
  approval_url: string | null;
  expires_at: Date;
  error_code: ErrorReason | null;
  error_message: string | null;
}

/** Throws 404 if there is no such session. */
export function approvalOf(db: Db, id: string): Promise<Approval> {
  return one<Approval>(
    db,
    `select provider, status, attempt, provider_order_id, approval_url, expires_at, error_code, error_message
     from payment_sessions where id = :id`,
    { id },
    'No payment session',
  );
}

/**
 * The answer to a buyer who comes back: the session's status, and its credit with the wallet's
 * balance after it.
 */
interface SessionOutcome {
  payment_session_id: string;
  provider: ProviderName;
  status: SessionStatus;
  wallet_id: string;
  currency: string;
  credited_amount_nanos: bigint | null;
  wallet_balance_after_nanos: bigint | null;
  error_code: ErrorReason | null;
  error_message: string | null;
}

/** Throws 404 if there is no such session. */
export function outcomeOf(db: Db, id: string): Promise<SessionOutcome> {
  return one<SessionOutcome>(
    db,
    `select s.id as payment_session_id, s.provider, s.status, s.wallet_id, s.currency, t.amount_nanos as credited_amount_nanos,
       t.balance_after_nanos as wallet_balance_after_nanos, s.error_code, s.error_message
     from payment_sessions s left join wallet_transactions t on t.id = s.wallet_transaction_id and t.wallet_id = s.wallet_id
     where s.id = :id`,
    { id },
    'No payment session',
  );
}
