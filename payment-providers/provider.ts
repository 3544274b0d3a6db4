import type { X509Certificate } from 'node:crypto';
import type { RefundStatus } from '../domain/payments/refunds';

/**
 * A hosted checkout that is to be made. Amounts are nanos; each adapter turns them into its
 * provider's minor units.
 */
export interface CheckoutRequest {
  /** Our session's id: travels as `custom_id` or `client_reference_id`. */
  payment_session_id: string;
  /** The provider's idempotency key. */
  key: string;
  amount_nanos: bigint;
  currency: string;
  /** The text that the buyer reads: "Top-up of team Research". */
  description: string;
  return_url: string;
  cancel_url: string;
  /** When the provider should stop taking this payment. */
  expires_at: Date;
}

export interface Checkout {
  order_id: string;
  approval_url: string;
}

/**
 * How a payment stands at its provider. open: the buyer has not paid. approved: waits for our
 * capture. pending: captured or promised, the money may be on its way; any word that nobody knows.
 * captured: the money is there. declined: the capture was refused, the buyer may try again. failed:
 * it was refused for good. closed: can never be paid any more. gone: the provider does not know it,
 * which says nothing.
 */
export type PaymentStatus =
  | 'open'
  | 'approved'
  | 'pending'
  | 'captured'
  | 'declined'
  | 'failed'
  | 'closed'
  | 'gone';

export interface PaymentReport {
  status: PaymentStatus;
  capture_id: string | null;
  /** The amount of the capture, in nanos of `currency`; null while there is none. */
  amount_nanos: bigint | null;
  currency: string | null;
  refunds: readonly ReportedRefund[];
  /** Null if they were not asked for, or may not be by this account: then the known ones stay. */
  disputes: readonly ReportedDispute[] | null;
}

export interface ReportedRefund {
  provider_refund_id: string;
  /** The row that asked for it; null if the refund was made at the provider's own site. */
  payment_refund_id: string | null;
  status: RefundStatus;
  amount_nanos: bigint;
  currency: string;
}

export interface ReportedDispute {
  id: string;
  /**
   * Money of an open or lost dispute has left us. An inquiry that moved no money is not reported.
   */
  status: 'open' | 'lost' | 'won';
  amount_nanos: bigint;
  currency: string;
  /** The refunds that it names, by the provider's ids: the same loss told twice. */
  refund_ids: readonly string[];
}

export interface RefundRequest {
  /**
   * Our refund's id: the provider's idempotency key, and stored with the refund so that it is found
   * again.
   */
  payment_refund_id: string;
  order_id: string;
  capture_id: string;
  amount_nanos: bigint;
  currency: string;
}

/** A webhook whose signature is good. It is news, not truth: `read` then asks for the facts. */
export interface ProviderEvent {
  /** The provider's id of the event; deliveries are repeated under it. */
  id: string;
  type: string;
  /**
   * payment: the buyer approved, paid, or the checkout ended. refund: money went back, or is
   * disputed. other: nothing we follow.
   */
  topic: 'payment' | 'refund' | 'other';
  /**
   * The objects that the event names, null for those that it does not: our session, the provider's
   * order, its capture.
   */
  payment_session_id: string | null;
  order_id: string | null;
  capture_id: string | null;
  /** Further captures that it names, each of another payment. */
  other_capture_ids?: readonly string[];
}

/** What does not depend on the account. */
export interface ProviderOptions {
  /** How long a call may take; 10 s if absent. */
  call_ms?: number;
  /** Who may sign the certificates of webhooks, beside the authorities that Node.js knows. */
  authorities?: readonly X509Certificate[];
}

/** Headers of a webhook, names in lower case. */
export type WebhookHeaders = Readonly<Record<string, string | undefined>>;

/**
 * One provider's wire. Every call ends within 10 s. Throws `ProviderRefusal` on a definite no;
 * anything else that is thrown, which is `ProviderTrouble`, leaves the outcome unknown, to be asked
 * by `read`.
 */
export interface PaymentProvider {
  /** The same key again gives the same checkout. */
  createCheckout(request: CheckoutRequest): Promise<Checkout>;
  /**
   * How the payment stands, with all refunds and disputes of its capture. `isFresh`: the buyer
   * comes from paying, so that nothing can have gone back yet and the provider need not be asked
   * for that.
   */
  read(order_id: string, options?: { isFresh?: boolean }): Promise<PaymentReport>;
  /**
   * Takes an approved payment; the same `key` again captures once. If the provider captures by
   * itself: `read`.
   */
  capture(order_id: string, key: string): Promise<PaymentReport>;
  /** Ends a checkout that is not paid, if the provider can; never throws a refusal. */
  expire(order_id: string): Promise<void>;
  /** The same refund id again refunds once. */
  refund(request: RefundRequest): Promise<ReportedRefund>;
  /**
   * Reads a webhook from its raw bytes. Undefined if it is not signed by the provider, or no
   * webhook secret is set; throws (no refusal) if the provider's own verification could not be
   * asked.
   */
  verifyWebhook(headers: WebhookHeaders, body: Buffer): Promise<ProviderEvent | undefined>;
}

/**
 * The provider did not do what was asked. declined: the buyer's means of payment was refused.
 * not_approved: the buyer has to go back. key_used: the key stands for another request.
 * in_progress: the same request is under way. provider_error: any other no. What it means for a
 * payment is seen at its order, which is read after it.
 */
export class ProviderRefusal extends Error {
  readonly code: 'declined' | 'not_approved' | 'key_used' | 'in_progress' | 'provider_error';

  constructor(code: ProviderRefusal['code'], message: string) {
    super(message);
    this.name = 'ProviderRefusal';
    this.code = code;
  }
}

/** True for a ProviderRefusal of this or another copy of the module. */
export function isProviderRefusal(error: unknown): error is ProviderRefusal {
  return error instanceof Error && error.name === 'ProviderRefusal';
}

/**
 * No answer that can be relied on: time-out, a lost connection, a failure or a strange answer of
 * the provider, or credentials that it does not take. The request may have been executed or not.
 * The message holds no secret, and there is no cause, since errors of client packages carry their
 * request with its headers.
 */
export class ProviderTrouble extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ProviderTrouble';
  }
}

/** True for a ProviderTrouble of this or another copy of the module. */
export function isProviderTrouble(error: unknown): error is ProviderTrouble {
  return error instanceof Error && error.name === 'ProviderTrouble';
}

export type { ProviderAccess } from '../domain/payments/config';
