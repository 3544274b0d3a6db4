import { isAppError } from '../../domain/errors';
import type { Call } from './call';

/**
 * Counts how a call ended, for the configuration that it began with. Whose client has gone counts
 * for nothing: it says nothing of the configuration.
 */
export function countEnd(call: Call): void {
  const status = answeredStatus(call);
  if (call.client_is_gone || status === null) return;
  const { counts } = call.snapshot;
  counts.finished += 1;
  const was_asked = call.attempts > 0;
  if (status >= 500) counts[was_asked ? 'upstream_5xx' : 'own_5xx'] += 1;
  // Want of money is a matter of wallets.
  else if (status >= 400 && status !== 402 && !was_asked) counts.refused += 1;
}

/** The status that the client gets; null if it left without one. An error is written later. */
export function answeredStatus({
  ctx,
  failure,
  client_is_gone,
}: Pick<Call, 'ctx' | 'failure' | 'client_is_gone'>): number | null {
  if (ctx.res.headersSent) return ctx.res.statusCode;
  if (client_is_gone) return null;
  if (failure !== undefined) return isAppError(failure) ? failure.status : 500;
  return ctx.body === undefined ? null : ctx.status;
}
