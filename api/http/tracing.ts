import type { Context, Middleware } from 'koa';
import { addToLine } from '../../runtime/request-log';
import {
  fail,
  type Span,
  SpanKind,
  type Tracing,
  traceIdOf,
  traceparentOf,
} from '../../runtime/telemetry/spans';
import type { Temporal } from '../../temporal/client';

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

/**
 * Temporal for one request of a person: workflows that it starts and updates join the request's
 * trace.
 */
export function inTrace(temporal: Temporal, { state }: Pick<Context, 'state'>): Temporal {
  const span = state.span as Span | undefined;
  if (span === undefined) return temporal;
  return { ...temporal, ...temporal.inTrace({ traceparent: traceparentOf(span) }) };
}
