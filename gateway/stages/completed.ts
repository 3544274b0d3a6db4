import type { Funded } from '../call/call';
import type { EventContent } from '../control-plane/events';

/**
 * Emits the event of a request that was paid for, when the call ends and its settlement is on its
 * way.
 */
export function emitCompleted(call: Funded): void {
  call.onEnd(() => call.gateway.events.emit(call, completed(call)));
}

function completed(call: Funded): EventContent {
  const { family, target, model, request, reservation, outcome, attempts, ctx, began_at } = call;
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
      // An error's answer is written later.
      status: ctx.res.headersSent ? ctx.res.statusCode : null,
      duration_ms: Math.round(performance.now() - began_at),
    },
  };
}
