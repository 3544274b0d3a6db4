import type { Identity } from '../../domain/people/identity';
import type { Proof, TraceMembers } from '../../domain/trace';
import {
  type Attributes,
  fail,
  inSpan,
  SpanKind,
  setAttributes,
  traceIdOf,
  traceparentOf,
} from '../../runtime/telemetry/spans';
import type { Call } from './call';

const STATUS = 'http.response.status_code';

/** Opens the span of a call, in the client's trace if the client names one. */
export function beginCall(call: Call): void {
  const { gateway, ctx } = call;
  const parent = ctx.req.headers.traceparent;
  call.span = gateway.telemetry.tracing?.begin(nameOf(call), {
    kind: SpanKind.SERVER,
    parent: typeof parent === 'string' ? parent : undefined,
  });
}

/** Ends it with all that is known by then. */
export function endCall(call: Call): void {
  const { span, ctx } = call;
  if (span === undefined) return;
  setAttributes(span, marksOf(call));
  setAttributes(span, callerOf(call));
  setAttributes(span, resultOf(call));
  // A short answer is written later; to what was thrown, failCall has the status.
  if (ctx.res.headersSent) span.setAttribute(STATUS, ctx.res.statusCode);
  else if (ctx.body !== undefined) span.setAttribute(STATUS, ctx.status);
  span.end();
}

/** Notes on the span of a traced call what was thrown. */
export function failCall({ span }: Call, error: unknown): void {
  if (span === undefined) return;
  fail(span, error);
  const { status } = error as { status?: unknown };
  if (typeof status === 'number') span.setAttribute(STATUS, status);
}

/** For the line in the log. */
export function traceIdIn({ span }: Call): string | undefined {
  return span && traceIdOf(span);
}

/** Runs a part of a call in a span, if the call has one. */
export async function inCallSpan<T>(
  call: Call,
  name: string,
  attributes: Attributes,
  run: () => Promise<T>,
): Promise<T> {
  const { tracing } = call.gateway.telemetry;
  const outer = call.step ?? call.span;
  if (outer === undefined || tracing === undefined) return run();
  const span = tracing.begin(name, {
    parent: outer,
    kind: name === 'upstream' ? SpanKind.CLIENT : SpanKind.INTERNAL,
    attributes: Object.assign(marksOf(call), attributes),
  });
  const before = call.step;
  call.step = span;
  try {
    return await inSpan(span, run);
  } finally {
    call.step = before;
  }
}

/** What an upstream came to instead of an answer: its status, or the code of the failure. */
export function noteTrouble({ step }: Call, trouble: object): void {
  if (step !== undefined) fail(step, trouble);
  const { status } = trouble as { status?: number };
  if (status !== undefined) step?.setAttribute(STATUS, status);
}

/**
 * What the control plane is told of a call: by which it continues the trace, and what its events
 * say.
 */
export function membersOf(call: Call): TraceMembers {
  const span = call.step ?? call.span;
  return {
    traceparent: span && traceparentOf(span),
    identity_proof_method: proofOf(call),
    trace_label: call.trace_label,
  };
}

/**
 * On every span. The rest is on the call's alone, as writing names and ids is most of what a span
 * costs.
 */
function marksOf(call: Call): Attributes {
  return { identity_proof_method: proofOf(call), request_id: call.request_id };
}

/** Who called, as events say it: what nobody proved is no identity. */
function callerOf({ identity }: Call): Attributes {
  if (identity === undefined) return {};
  const { org_id, proof } = identity;
  return proof === 'header_soft' ? { org_id } : { org_id, ...contextOf(identity) };
}

function contextOf({ user_id, key_id, team_id }: Identity): Attributes {
  return {
    'identity_context.user_id': user_id,
    'identity_context.key_id': key_id,
    'identity_context.team_id': team_id,
  };
}

/**
 * The proof that the caller gave; a caller who is refused before identification has failed the one
 * that their bearer has the form of.
 */
function proofOf(call: Call): Proof {
  return call.identity?.proof ?? call.snapshot.identifier.proofOf(call.ctx.req);
}

function resultOf(call: Call): Attributes {
  const { family, target, model, request, reservation, outcome } = call;
  const settled = reservation && outcome;
  return {
    family: family?.name,
    provider: target?.provider,
    model: target && model,
    is_stream: target && request?.is_stream,
    reservation_id: reservation?.reservation_id,
    outcome: settled?.outcome,
    usage_source: settled?.usage_source,
    prompt_tokens: settled?.usage?.prompt_tokens,
    completion_tokens: settled?.usage?.completion_tokens,
  };
}

function nameOf({ ctx }: Call): string {
  const { route } = (ctx.state.logged ?? {}) as { route?: string };
  return `${ctx.method} ${route ?? ''}`.trim();
}
