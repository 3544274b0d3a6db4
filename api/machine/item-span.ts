import type { TraceMembers } from '../../domain/trace';
import { inSpan, SpanKind, type Tracing } from '../../runtime/telemetry/spans';
import type { Ctx } from '../http/route';

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
