import { randomBytes } from 'node:crypto';
import type { ReceivedSpan } from '../../support/otlp';

export const otlp = (more: object = {}) => ({
  observability: { otlp: { enabled: true, endpoint_env: 'TEST_OTLP', ...more } },
});

export function newTrace() {
  const trace_id = randomBytes(16).toString('hex');
  const span_id = randomBytes(8).toString('hex');
  return { trace_id, span_id, headers: { traceparent: `00-${trace_id}-${span_id}-01` } };
}

export function named(spans: ReceivedSpan[], name: string): ReceivedSpan {
  const span = spans.find((one) => one.name === name);
  if (span === undefined) throw new Error(`No ${name} in ${spans.map((one) => one.name)}`);
  return span;
}
