import { newId } from '../../domain/ids';
import { addToLine } from '../../runtime/request-log';
import type { Begun, Call, Pipeline } from './call';
import { countEnd } from './counts';
import { tellRefused } from './refused';
import { enter, leave, type Snapshot } from './snapshot';
import { beginCall, endCall, failCall, traceIdIn } from './spans';

/** What a call begins with: `snapshot` is the present one if absent. */
type Beginning = Pick<Begun, 'ctx' | 'gateway' | 'family'> & {
  snapshot?: Snapshot;
};

/** Runs a pipeline over one request, then what its stages have registered. */
export async function runCall(
  { ctx, gateway, family, snapshot = gateway.snapshot }: Beginning,
  pipeline: Pipeline,
): Promise<void> {
  const ends: (() => void)[] = [];
  const leavings: (() => void)[] = [];
  const call: Call = {
    ctx,
    gateway,
    snapshot,
    family,
    request_id: takeId(ctx),
    trace_label: ctx.state.request_id as string,
    began_at: performance.now(),
    client_is_gone: false,
    outcome: { outcome: 'canceled' },
    attempts: 0,
    onEnd: (step: () => void) => void ends.push(step),
    onClientGone: (step: () => void) => {
      // `close` comes once: a step that is registered after it runs now.
      if (call.client_is_gone) queueMicrotask(step);
      else leavings.push(step);
    },
  };
  // The request's own `close` fires once its body is read; only the response shows that the client
  // has gone.
  const leaveIt = (): void => {
    if (ctx.res.writableFinished) return;
    call.client_is_gone = true;
    for (const step of leavings) step();
  };
  // It may have gone while its key was asked for.
  if (ctx.res.closed || ctx.res.destroyed) leaveIt();
  else ctx.res.once('close', leaveIt);
  gateway.calls.add(call);
  enter(call.snapshot);
  if (gateway.telemetry.tracing !== undefined) beginCall(call);
  try {
    await pipeline(call);
  } catch (error) {
    call.failure = error;
    failCall(call, error);
    tellRefused(call, error);
    throw error;
  } finally {
    for (const end of ends.reverse()) end();
    gateway.calls.delete(call);
    countEnd(call);
    leave(call.snapshot);
    endCall(call);
    addToLine(ctx, lineOf(call));
  }
}

/**
 * The id that the answer tells. Of several calls in one request the first has it, the others have
 * their own; a frame of a socket has none yet.
 */
function takeId(ctx: Begun['ctx']): string {
  const { request_id_told: told } = ctx.state;
  delete ctx.state.request_id_told;
  if (typeof told === 'string') return told;
  const id = newId('req');
  if (ctx.given !== undefined) ctx.set('x-svc-request-id', id);
  return id;
}

/**
 * What the log says of a call: whose it was, who served it, and what it was settled at, as far as
 * it came; the log leaves out what is undefined.
 */
function lineOf(call: Call) {
  const { identity, target, model, request, reservation, outcome, attempts } = call;
  const settled = reservation && outcome;
  return {
    trace_id: traceIdIn(call),
    org_id: identity?.org_id,
    key_id: identity?.key_id ?? undefined,
    identity_proof_method: identity?.proof,
    target: target?.id,
    attempts: attempts || undefined,
    provider: target?.provider,
    model: target && model,
    is_stream: target && request?.is_stream,
    reservation_id: reservation?.reservation_id,
    outcome: settled?.outcome,
    prompt_tokens: settled?.usage?.prompt_tokens,
    completion_tokens: settled?.usage?.completion_tokens,
  };
}
