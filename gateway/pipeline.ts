import { checkKeys, modelOf, parseBody, readBody, streamOf } from './body';
import { estimate, reserve } from './budget';
import type { Call, ClientRequest, Stage } from './call';
import type { Told } from './events';
import { forward } from './forward';
import { confirmKey, identify, namedByClaim } from './identity';
import { limit, limitByAddress } from './limit-stages';
import { chooseTargets } from './models';
import { checkInput, tellSessionLimits } from './policy';
import { takeMembers } from './request-members';
import { traced } from './telemetry-spans';

/**
 * The whole story of a priced request, in order. A stage may throw an AppError, and registers with `call.onEnd` what must
 * happen however the call ends.
 */
export const priced: readonly Stage[] = pipelineOf(readRequest, chooseTargets, forward);

/** The same stages, for what is read, served and sent in another way. */
export function pipelineOf(
  read: Stage,
  choose: Stage,
  send: Stage,
  check: Stage = checkInput,
): readonly Stage[] {
  return [
    limitByAddress,
    identify,
    tellAtEnd,
    confirmed(read),
    confirmed(takeMembers),
    confirmed(choose),
    confirmed(estimate),
    limit, // Key, group, user, team, all callers, then policy packs: one decision.
    confirmed(check),
    tellSessionLimits(namedByClaim(traced('reserve', reserve))), // What no wallet covers waits for money here. Settles at the end.
    send, // With retries and fallbacks; the output policy looks beside its meter.
  ];
}

/** The event of a request that was paid for, once its settlement is on its way. */
function tellAtEnd(call: Call): void {
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

/** Reads and checks the body, once. */
async function readRequest(call: Call): Promise<void> {
  call.request = await (call.family.read ?? readJson)(call);
}

async function readJson({ ctx, running, family }: Call): Promise<ClientRequest> {
  const raw = ctx.given ?? (await readBody(ctx.req, running.settings.body_limit_bytes));
  const text = raw.toString('utf8');
  const body = parseBody(text);
  const spans = checkKeys(text);
  family.check?.(body);
  return {
    raw,
    body,
    is_stream: family.may_stream && streamOf(body),
    model: modelOf(body, family.default_model),
    max_completion_tokens: family.max_completion_tokens(body),
    outgoing: { bytes: raw, spans },
  };
}

/** A stage before the reserve: the key may be known from a minute ago, so a refusal first asks whether it is still valid. */
function confirmed(stage: Stage): Stage {
  return async (call) => {
    try {
      await stage(call);
    } catch (error) {
      await confirmKey(call);
      throw error;
    }
  };
}
