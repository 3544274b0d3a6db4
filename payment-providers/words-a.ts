import type { PaymentStatus, ProviderRefusal, ReportedDispute, ReportedRefund } from './provider';

// What we do about each word that PayPal documents, as the adapter reads it. A word that is not
// here is one that nobody has decided: `unknown` of each list says what it counts as.

/** Orders v2: `status` of an order that has no capture yet. */
export const orders: Words<PaymentStatus> = {
  known: {
    CREATED: 'open',
    SAVED: 'open',
    PAYER_ACTION_REQUIRED: 'open',
    APPROVED: 'approved',
    VOIDED: 'closed',
    // Its capture is not shown yet.
    COMPLETED: 'pending',
  },
  unknown: 'pending',
};

/** Payments v2: `status` of a capture. The order is over with one that was declined. */
export const captures: Words<PaymentStatus> = {
  known: {
    COMPLETED: 'captured',
    PARTIALLY_REFUNDED: 'captured',
    REFUNDED: 'captured',
    PENDING: 'pending',
    DECLINED: 'failed',
    FAILED: 'failed',
  },
  unknown: 'pending',
};

/** Payments v2: `status` of a refund. */
export const refunds: Words<ReportedRefund['status']> = {
  known: { COMPLETED: 'succeeded', PENDING: 'pending', FAILED: 'failed', CANCELLED: 'failed' },
  unknown: 'pending',
};

/** Disputes v1: `dispute_life_cycle_stage`. In an inquiry buyer and seller talk: no money moved. */
export const stages: Words<'talk' | 'claim'> = {
  known: {
    INQUIRY: 'talk',
    CHARGEBACK: 'claim',
    PRE_ARBITRATION: 'claim',
    ARBITRATION: 'claim',
  },
  unknown: 'claim',
};

/** Disputes v1: `status`. Only a resolved one has an outcome. */
export const disputes: Words<'open' | 'by outcome'> = {
  known: {
    OPEN: 'open',
    WAITING_FOR_BUYER_RESPONSE: 'open',
    WAITING_FOR_SELLER_RESPONSE: 'open',
    UNDER_REVIEW: 'open',
    OTHER: 'open',
    RESOLVED: 'by outcome',
  },
  unknown: 'open',
};

/** Disputes v1: `outcome_code`. The money stays away until an end is known. */
export const outcomes: Words<ReportedDispute['status']> = {
  known: {
    RESOLVED_BUYER_FAVOUR: 'lost',
    ACCEPTED: 'lost',
    RESOLVED_SELLER_FAVOUR: 'won',
    DENIED: 'won',
    RESOLVED_WITH_PAYOUT: 'won',
    CANCELED_BY_BUYER: 'won',
    NONE: 'open',
  },
  unknown: 'open',
};

/**
 * The issues of a refused capture. Whatever they say, the order is read after them, and only its
 * own end is one; these say what becomes of an order that is still open or approved.
 */
export const issues: Words<ProviderRefusal['code']> = {
  known: {
    ...all('not_approved', 'ORDER_NOT_APPROVED PAYER_ACTION_REQUIRED CONSENT_NEEDED'),
    // The buyer can pay another way.
    ...all(
      'declined',
      `INSTRUMENT_DECLINED TRANSACTION_REFUSED PAYMENT_DENIED PAYER_CANNOT_PAY
      PAYER_ACCOUNT_RESTRICTED PAYER_ACCOUNT_LOCKED_OR_CLOSED REDIRECT_PAYER_FOR_ALTERNATE_FUNDING
      CARD_EXPIRED CARD_CLOSED CARD_BRAND_NOT_SUPPORTED REFERENCED_CARD_EXPIRED
      TRANSACTION_LIMIT_EXCEEDED MAX_NUMBER_OF_PAYMENT_ATTEMPTS_EXCEEDED COMPLIANCE_VIOLATION
      DOMESTIC_TRANSACTION_REQUIRED TRANSACTION_BLOCKED_BY_PAYEE PAYEE_BLOCKED_TRANSACTION
      DECLINED_DUE_TO_RELATED_TXN PAYMENT_SOURCE_NOT_SUPPORTED BILLING_AGREEMENT_NOT_FOUND
      AGREEMENT_ALREADY_CANCELLED TOKEN_ID_NOT_FOUND CURRENCY_NOT_SUPPORTED_FOR_BANK INVALID_IBAN
      IBAN_COUNTRY_NOT_SUPPORTED BANK_NOT_SUPPORTED_FOR_VERIFICATION INVALID_SECURITY_CODE_LENGTH`,
    ),
    ...all('key_used', 'DUPLICATE_REQUEST_ID'),
    ...all('in_progress', 'PREVIOUS_REQUEST_IN_PROGRESS ORDER_COMPLETION_IN_PROGRESS'),
    // A person's: something about the merchant's account or our request. It is asked for again.
    ...all(
      'provider_error',
      `ORDER_ALREADY_CAPTURED ORDER_EXPIRED INVALID_RESOURCE_ID PERMISSION_DENIED
      PERMISSION_DENIED_FOR_DONATION_ITEMS NOT_ELIGIBLE_FOR_TOKEN_PROCESSING
      NOT_ELIGIBLE_FOR_PNREF_PROCESSING NOT_ELIGIBLE_FOR_PAYPAL_TRANSACTION_ID_PROCESSING
      PAYEE_ACCOUNT_RESTRICTED PAYEE_ACCOUNT_LOCKED_OR_CLOSED PAYEE_ACCOUNT_INVALID
      PAYEE_NOT_ENABLED_FOR_CARD_PROCESSING PAYEE_NOT_ENABLED_FOR_BANK_PROCESSING
      NOT_ENABLED_FOR_CARD_PROCESSING NOT_ENABLED_FOR_BANK_PROCESSING SETUP_ERROR_FOR_BANK
      AUTH_CAPTURE_NOT_ENABLED TRANSACTION_RECEIVING_LIMIT_EXCEEDED DUPLICATE_INVOICE_ID
      INVALID_PARAMETER_VALUE INVALID_PARAMETER_SYNTAX INVALID_STRING_LENGTH
      MISSING_REQUIRED_PARAMETER MALFORMED_REQUEST_JSON INCOMPATIBLE_PARAMETER_VALUE
      INVALID_PICKUP_ADDRESS SHIPPING_ADDRESS_INVALID BILLING_AGREEMENT_ID_MISMATCH
      PREFERRED_PAYMENT_SOURCE_MISMATCH PAYMENT_SOURCE_MISMATCH APPLE_PAY_AMOUNT_MISMATCH
      MISSING_PREVIOUS_REFERENCE MISSING_CRYPTOGRAM PAYEE_FX_RATE_ID_EXPIRED PNREF_EXPIRED
      PNREF_NOT_FOUND PAYPAL_TRANSACTION_ID_EXPIRED PAYPAL_TRANSACTION_ID_NOT_FOUND
      INVALID_PREVIOUS_TRANSACTION_REFERENCE PREVIOUS_TRANSACTION_REFERENCE_HAS_CHARGEBACK
      PREVIOUS_TRANSACTION_REFERENCE_VOIDED MERCHANT_INITIATED_WITH_SECURITY_CODE
      MERCHANT_INITIATED_WITH_AUTHENTICATION_RESULTS MERCHANT_INITIATED_WITH_MULTIPLE_PURCHASE_UNITS
      RETURN_URL_REQUIRED CANCEL_URL_REQUIRED ONLY_ONE_BANK_SOURCE_ALLOWED CARD_NUMBER_REQUIRED
      CARD_EXPIRY_REQUIRED VAULT_INSTRUCTION_REQUIRED MISMATCHED_VAULT_ID_TO_PAYMENT_SOURCE
      PLATFORM_FEE_PAYEE_CANNOT_BE_SAME_AS_PAYER REQUIRED_PARAMETER_FOR_CUSTOMER_INITIATED_PAYMENT
      IDENTIFIER_NOT_FOUND`,
    ),
  },
  unknown: 'provider_error',
};

/** What we do about the words of one list, and about a word that is not in it. */
export interface Words<Meaning> {
  known: Readonly<Record<string, Meaning>>;
  unknown: Meaning;
}

/** Our meaning of a provider's word. */
export function meaningOf<Meaning>(
  { known, unknown }: Words<Meaning>,
  word: string | null | undefined,
): Meaning {
  return Object.hasOwn(known, word ?? '') ? (known[word ?? ''] as Meaning) : unknown;
}

function all<Meaning>(meaning: Meaning, words: string): Record<string, Meaning> {
  return Object.fromEntries(words.split(/\s+/).map((word) => [word, meaning]));
}
