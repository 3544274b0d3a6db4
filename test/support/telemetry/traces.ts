import { randomBytes } from 'node:crypto';
import { until } from '../until';
import type { ReceivedSpan, Receiver } from './otlp';

/** A trace that a client began, and the header that carries it. */
export interface Trace {
  trace_id: string;
  span_id: string;
  headers: { traceparent: string };
}

export function createTrace(): Trace {
  const trace_id = randomBytes(16).toString('hex');
  const span_id = randomBytes(8).toString('hex');
  return { trace_id, span_id, headers: { traceparent: `00-${trace_id}-${span_id}-01` } };
}

/** The spans of a trace once all of these names are there. */
export async function traceOf(
  receiver: Receiver,
  { trace_id }: Trace,
  names: string[],
): Promise<ReceivedSpan[]> {
  const found = () => receiver.spans.filter((span) => span.trace_id === trace_id);
  const missing = () => names.filter((name) => !found().some((span) => nameOf(span) === name));
  await until(() => missing().length === 0).catch(() => undefined);
  expect(missing()).toEqual([]);
  return found();
}

export const nameOf = ({ service, name }: ReceivedSpan): string => `${service}: ${name}`;

/** Fails if the parent of a span is neither the client's nor one of these. */
export function expectWhole(spans: ReceivedSpan[], client: Trace): void {
  const known = new Set([client.span_id, ...spans.map(({ span_id }) => span_id)]);
  expect(known.size).toBe(spans.length + 1);
  const lost = spans.filter(({ parent_span_id }) => !known.has(parent_span_id));
  expect(lost.map(nameOf)).toEqual([]);
}

export function parentOf(spans: ReceivedSpan[], name: string): string | undefined {
  const span = spans.find((candidate) => nameOf(candidate) === name);
  const parent = spans.find(({ span_id }) => span_id === span?.parent_span_id);
  return parent && nameOf(parent);
}
