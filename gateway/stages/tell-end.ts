import type { Call } from '../call/call';
import type { EventContent as Told } from '../control-plane/events';

/** The event of a request that was paid for, once its settlement is on its way. */
export function tellAtEnd(call: Call): void {
  call.onEnd(() => {
    if (call.reservation !== undefined) call.gateway.events.emit(call, completed(call));
  });
}

function completed({
  family,
  target,
  model,
  request,
  reservation,
  outcome,
  attempts,
  ctx,
  began_at,
}: Call): Told {
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
