import type { Logger } from '../log';
import type { Receiver } from './receiver';
import type { Tracing, TracingOptions } from './spans';

/** `receiver` is shared with the other telemetry of the process. */
export async function openTracing(options: TracingOptions, receiver?: Receiver): Promise<Tracing> {
  const { OtlpTracing } = await loadTracing();
  return new OtlpTracing(options, receiver);
}

/** The SDK is 18 MB and a third of a second, which a process without telemetry does not load. */
export function loadTracing(): Promise<typeof import('./otlp.ts')> {
  return import('./otlp.ts');
}

/** The traces of a process, if its environment names a receiver. */
export async function openProcessTracing(
  service: string,
  config: {
    OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined;
    OTEL_TRACES_SAMPLER_ARG?: number | undefined;
  },
  log: Logger,
): Promise<Tracing | undefined> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLER_ARG: sample_ratio } = config;
  return endpoint === undefined ? undefined : openTracing({ service, endpoint, sample_ratio, log });
}
