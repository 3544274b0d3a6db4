import { isAppError } from '../../domain/errors';
import type { Funded } from '../call/call';
import type { EventContent } from '../control-plane/events';
import { isObject, objectIn } from '../wire/values';

/**
 * Emits the event of a request that was paid for, when the call ends and its settlement is on its
 * way.
 */
export function emitCompleted(call: Funded): void {
  call.onEnd(() => call.gateway.events.emit(call, completed(call)));
}

function completed(call: Funded): EventContent {
  const { family, target, model, request, reservation, outcome, attempts, began_at } = call;
  const { failure, provider_refusal } = call;
  const provider_code = provider_refusal ? codeIn(provider_refusal.body) : null;
  return {
    type: 'request.completed',
    payload: {
      family: family.name,
      target: target.id,
      attempts,
      provider: target.provider,
      model,
      is_stream: request.is_stream,
      reservation_id: reservation.reservation_id,
      outcome: outcome.outcome,
      usage_source: outcome.usage_source ?? null,
      prompt_tokens: outcome.usage?.prompt_tokens ?? 0,
      completion_tokens: outcome.usage?.completion_tokens ?? 0,
      status: statusOf(call),
      error_code: isAppError(failure) ? failure.code : provider_code,
      provider_status: provider_refusal?.status ?? null,
      provider_code,
      duration_ms: Math.round(performance.now() - began_at),
    },
  };
}

/** The status that the client gets; null if it left without one. An error is written later. */
function statusOf({ ctx, failure, client_is_gone }: Funded): number | null {
  if (ctx.res.headersSent) return ctx.res.statusCode;
  if (client_is_gone) return null;
  if (failure !== undefined) return isAppError(failure) ? failure.status : 500;
  return ctx.body === undefined ? null : ctx.status;
}

const code_form = /^[\w.:/-]{1,100}$/;

/** The code by which a provider's refusal names its reason. */
function codeIn(body: Buffer): string | null {
  const answer = objectIn(body.toString('utf8'));
  const error = isObject(answer?.error) ? answer.error : answer;
  const codes = [error?.code, error?.type].filter((one) => one != null).map(String);
  return codes.find((code) => code_form.test(code)) ?? null;
}
