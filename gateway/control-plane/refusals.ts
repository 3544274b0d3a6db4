import { AppError, type ErrorCode } from '../../domain/errors';
import { usedUp } from '../../domain/ledger/refusals';
import type { Logger } from '../../runtime/log';
import { errorOf, type Reply } from './replies';

/**
 * A refusal after a try whose answer was lost: that try may hold money yet, under the same request
 * id.
 */
export class UncertainRefusal extends AppError {}

/**
 * The control plane's refusal as this gateway's own: same code, status and extras, a cost ticket
 * included.
 */
export function toError(reply: Reply, Kind: typeof AppError = AppError): AppError {
  const {
    code = 'internal_error',
    message = 'Refused.',
    param,
    type: _,
    ...extra
  } = errorOf(reply);
  const { resets_at, limit } = extra as { resets_at?: unknown; limit?: unknown };
  if (reply.status === 429 && typeof resets_at === 'string' && typeof limit === 'number')
    return usedUp(code as ErrorCode, message, {
      limit,
      ...(param ? { param } : {}),
      extra,
      resets_at: new Date(resets_at),
    });
  return new Kind(code as ErrorCode, message, {
    status: reply.status,
    ...(param ? { param } : {}),
    // The header itself stays behind if many items share one answer.
    ...(typeof resets_at === 'string'
      ? { retry_after: (Date.parse(resets_at) - Date.now()) / 1_000 }
      : {}),
    extra,
  });
}

/** Logs that this gateway itself was refused, and says to its client that it cannot pay. */
export function refusedCall(log: Logger, reply: Reply): AppError {
  log.error({ status: reply.status }, 'the control plane refuses this gateway: check its token');
  return unpaid();
}

function unpaid(): AppError {
  return new AppError(
    'unavailable',
    'This gateway is not set up to pay for requests. Tell its operator.',
    {
      retry_after: 30,
    },
  );
}

/** The refusal while no address of the control plane answers. */
export function away(): AppError {
  return new AppError(
    'unavailable',
    'The control plane is away, so this request cannot be paid for. Repeat it shortly.',
    { retry_after: 2 },
  );
}

/** The refusal (403) of an assertion that names a key which is not a living one of its person. */
export function notTheirKey(): AppError {
  return new AppError(
    'permission_denied',
    'The claim "kt_key_id" of this assertion names no living gateway key of its person.',
  );
}
