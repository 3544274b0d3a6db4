import type { ReceivedSpan } from '../../support/telemetry/otlp';

export const otlp = (more: object = {}) => ({
  observability: { otlp: { enabled: true, endpoint_env: 'TEST_OTLP', ...more } },
});

export function named(spans: ReceivedSpan[], name: string): ReceivedSpan {
  const span = spans.find((one) => one.name === name);
  if (span === undefined) throw new Error(`No ${name} in ${spans.map((one) => one.name)}`);
  return span;
}
