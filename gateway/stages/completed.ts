import { isAppError } from '../../domain/errors';
import type { Funded } from '../call/call';
import { answeredStatus } from '../call/counts';
import type { EventContent } from '../control-plane/events';

/**
 * Emits the event of a request that was paid for, when the call ends and its settlement is on its
 * way.
 */
export function emitCompleted(call: Funded): void {
  call.onEnd(() => call.gateway.events.emit(call, completed(call)));
}

function completed(call: Funded): EventContent {
  const { family, target, model, request, reservation, outcome, attempts, began_at } = call;
  const { failure, provider_failure } = call;
  const provider_code = provider_failure?.code ?? null;
  return {
    type: 'request.completed',
    payload: {
      family: family.name,
      target: target.id,
      attempts,
      provider: target.provider,
      provider_key_id: target.own_key_id,
      model,
      answered_model: call.answered_model,
      is_stream: request.is_stream,
      reservation_id: reservation.reservation_id,
      outcome: outcome.outcome,
      usage_source: outcome.usage_source ?? null,
      provider_cost_usd: call.provider_cost_usd,
      prompt_tokens: outcome.usage?.prompt_tokens ?? 0,
      completion_tokens: outcome.usage?.completion_tokens ?? 0,
      status: answeredStatus(call),
      error_code: isAppError(failure) ? failure.code : provider_code,
      provider_status: provider_failure?.status ?? null,
      provider_code,
      duration_ms: Math.round(performance.now() - began_at),
    },
  };
}
