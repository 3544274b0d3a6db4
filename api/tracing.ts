import type { Context, Middleware } from 'koa';
import type { TraceMembers } from '../domain/reservations';
import { addToLine } from '../request-log';
import {
  fail,
  inSpan,
  type Span,
  SpanKind,
  type Tracing,
  traceIdOf,
  traceparentOf,
} from '../telemetry';
import type { Ctx } from './route';
import type { Temporal } from './temporal';

// The items of machine calls have spans of their own, and probes have none.
const untraced = /^\/v1\/gateway\/|^\/(health|readyz)$/;

/** A span for each request of people, in the trace that it names. */
export function requestSpans(tracing: Tracing): Middleware {
  return async (ctx, next) => {
    if (untraced.test(ctx.path)) return next();
    const parent = ctx.get('traceparent');
    const span = tracing.begin(ctx.method, { kind: SpanKind.SERVER, parent: parent || undefined });
    ctx.state.span = span;
    addToLine(ctx, { trace_id: traceIdOf(span) });
    ctx.res.once('close', () => end(span, ctx));
    try {
      await next();
    } catch (error) {
      fail(span, error);
      throw error;
    }
  };
}

function end(span: Span, ctx: Context): void {
  const { route, org_id } = (ctx.state.logged ?? {}) as { route?: string; org_id?: string | null };
  if (route !== undefined) span.updateName(`${ctx.method} ${route}`);
  if (org_id) span.setAttribute('org_id', org_id);
  span.setAttribute('request_id', ctx.state.request_id as string);
  span.setAttribute('http.response.status_code', ctx.res.statusCode);
  span.end();
}

/** Temporal as a request of a person uses it: what it starts and tells joins the request's trace. */
export function inTrace(temporal: Temporal, { state }: Pick<Context, 'state'>): Temporal {
  const span = state.span as Span | undefined;
  if (span === undefined) return temporal;
  return { ...temporal, ...temporal.within({ traceparent: traceparentOf(span) }) };
}

type Item = TraceMembers & { org_id?: string | undefined; request_id?: string | null | undefined };

/** Runs an item of a machine call in a span of its own, as items of many calls travel together. */
export function inItemSpan<Body extends Item, Answer>(
  ctx: Ctx,
  name: string,
  body: Body,
  run: (ctx: Ctx, body: Body) => Promise<Answer>,
): Promise<Answer> {
  const { traceparent, identity_proof_method, org_id, request_id } = body;
  const span = (ctx.tracing as Tracing).begin(name, {
    kind: SpanKind.SERVER,
    parent: traceparent,
    attributes: { identity_proof_method, org_id, request_id },
  });
  return inSpan(span, () => run(ctx, body));
}
