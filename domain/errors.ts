// Every error code of the product with the HTTP status that carries it.
const statuses = {
  invalid_json: 400,
  invalid_request: 400,
  header_mismatch: 400,
  websocket_connection_limit_reached: 400,
  invalid_credential: 401,
  signature_invalid: 401,
  insufficient_balance: 402,
  permission_denied: 403,
  model_not_allowed: 403,
  route_not_covered: 403,
  key_budget_exceeded: 403,
  browser_not_allowed: 403,
  target_not_allowed: 403,
  not_team_member: 403,
  organization_suspended: 403,
  checkout_state_invalid: 403,
  ticket_denied: 403,
  verdict_not_signed: 403,
  not_found: 404,
  model_not_found: 404,
  session_not_found: 404,
  stored_id_unknown: 404,
  already_exists: 409,
  already_decided: 409,
  last_owner: 409,
  organization_in_use: 409,
  request_canceled: 409,
  currency_in_use: 409,
  ticket_owner_differs: 409,
  key_not_active: 409,
  living_keys_exceeded: 409,
  ticket_redeemed: 409,
  ticket_approved: 409,
  verdict_too_late: 409,
  amount_below_shortfall: 409,
  manual_credit_not_allowed: 409,
  session_limit_exceeded: 409,
  input_blocked: 409,
  output_blocked: 409,
  payment_not_configured: 409,
  currency_not_supported: 409,
  payment_state: 409,
  message_not_parked: 409,
  rollout_state: 409,
  credit_spent: 409,
  refund_refused: 409,
  prices_changed: 409,
  import_asks: 409,
  import_undone: 409,
  export_state: 409,
  export_not_written: 409,
  ticket_expired: 410,
  export_expired: 410,
  payload_too_large: 413,
  unsupported_media_type: 415,
  range_not_satisfiable: 416,
  provider_key_refused: 424,
  invalid_field: 422,
  unknown_field: 422,
  invalid_configuration: 422,
  amount_too_large: 422,
  idempotency_key_reused: 422,
  model_not_priced: 422,
  exchange_rate_missing: 422,
  export_target_refused: 422,
  org_required: 422,
  session_id_mismatch: 422,
  upgrade_required: 426,
  version_not_supported: 426,
  rate_limit_exceeded: 429,
  open_tickets_exceeded: 429,
  open_checkouts_exceeded: 429,
  exports_exceeded: 429,
  usage_constraint_exceeded: 429,
  websocket_stream_limit_reached: 429,
  internal_error: 500,
  ledger_broken: 500,
  upstream_failed: 502,
  provider_error: 502,
  upstream_timeout: 502,
  overloaded: 503,
  export_dir_not_shared: 503,
  export_target_full: 503,
  export_target_failed: 503,
  unavailable: 503,
} as const;

export type ErrorCode = keyof typeof statuses;

/** True for a code of this table. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(statuses, code);
}

/** The status of an error of which only the code is known. */
export function statusOf(code: string): number {
  return isErrorCode(code) ? statuses[code] : statuses.internal_error;
}

export interface ErrorDetails {
  /** The field that is wrong, as the client named it: `amount`, `usage.prompt_tokens`. */
  param?: string;
  /** Seconds after which a repeat may succeed; sent as Retry-After. */
  retry_after?: number;
  /** No repeat can succeed, which the official model SDKs are told. */
  is_final?: boolean;
  /** The limit that is used up: sent as X-RateLimit-Limit, -Remaining (0) and -Reset. */
  rate_limit?: { limit: number; resets_at: Date };
  /**
   * The status, if it is not the code's own: `insufficient_balance` is 402 on a reserve, 409 on a
   * transfer.
   */
  status?: number;
  /** Further members of the answer's `error` object; a cost ticket also stands at its top. */
  extra?: Record<string, unknown>;
}

/**
 * A refusal that the caller can act on. Everything else that is thrown is a bug and answers 500.
 */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message);
    this.name = 'AppError';
    this.code = code;
    this.status = details.status ?? statuses[code];
    this.details = details;
  }
}

// The `type` that both official model SDKs know for a status (OpenAI and Anthropic error shapes).
const types: Record<number, string> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  502: 'api_error',
  503: 'overloaded_error',
};

export interface ErrorBody {
  type: 'error';
  error: {
    code: string;
    message: string;
    type: string;
    param: string | null;
    [extra: string]: unknown;
  };
  request_id: string;
  cost_ticket?: unknown;
}

/** The one error body. A cost ticket stands at the top and, for the SDKs, inside `error`. */
export function toErrorBody(error: AppError, request_id: string): ErrorBody {
  const { param, extra } = error.details;
  const fallback = error.status >= 500 ? 'api_error' : 'invalid_request_error';
  const type = types[error.status] ?? fallback;
  const inner = { code: error.code, message: error.message, type, param: param ?? null, ...extra };
  const ticket = extra?.cost_ticket;
  return { type: 'error', error: inner, request_id, ...(ticket ? { cost_ticket: ticket } : {}) };
}

const finals = new Set([402, 403, 409]);

/**
 * Headers of an error answer: when to retry, and a plain "no" to the SDKs that would retry 402,
 * 403, 409 and a cap's 429 by themselves.
 */
export function errorHeaders(error: AppError): Record<string, string> {
  const headers: Record<string, string> = {};
  const retry_after = error.details.retry_after ?? (error.status === 503 ? 1 : undefined);
  if (retry_after !== undefined)
    headers['retry-after'] = String(Math.max(1, Math.ceil(retry_after)));
  const { rate_limit } = error.details;
  if (rate_limit !== undefined) {
    headers['x-ratelimit-limit'] = String(rate_limit.limit);
    headers['x-ratelimit-remaining'] = '0';
    headers['x-ratelimit-reset'] = String(Math.ceil(rate_limit.resets_at.getTime() / 1_000));
  }
  // A cap's window is not waited for, however soon it ends.
  const isFinal =
    error.details.is_final ||
    error.code === 'usage_constraint_exceeded' ||
    finals.has(error.status);
  if (isFinal || (error.status === 429 && (retry_after ?? 0) > 60))
    headers['x-should-retry'] = 'false';
  if (error.status === 401) headers['www-authenticate'] = 'Bearer';
  return headers;
}

/** The refusal (429) of one more than a caller may have, with the headers that each 429 carries. */
export function tooMany(
  code: ErrorCode,
  message: string,
  { limit, resets_at, ...details }: ErrorDetails & { limit: number; resets_at: Date },
): AppError {
  return new AppError(code, message, {
    status: 429,
    retry_after: (resets_at.getTime() - Date.now()) / 1_000,
    rate_limit: { limit, resets_at },
    ...details,
  });
}

/** A place may be free again after so long. */
const PLACE_MS = 1_000;

/** The refusal (429) of one more stream or socket than a key or organization may have open. */
export function fullOf(
  things: string,
  whose: 'key' | 'organization',
  {
    count,
    limit,
    code = 'rate_limit_exceeded',
  }: { count: number; limit: number; code?: ErrorCode },
): AppError {
  return tooMany(
    code,
    `This ${whose} has ${count} ${things} open, and may have at most ${limit} here at present. Close some of them.`,
    { limit, resets_at: new Date(Date.now() + PLACE_MS) },
  );
}

/** True for an AppError of this or another copy of the module: each test file loads ours anew. */
export function isAppError(error: unknown): error is AppError {
  return (
    error instanceof Error &&
    error.name === 'AppError' &&
    'code' in error &&
    // A code that came over a wire may be none of ours: then it is a bug, and answered as one.
    typeof (error as AppError).status === 'number'
  );
}
