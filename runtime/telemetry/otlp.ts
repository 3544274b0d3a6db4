import { ROOT_CONTEXT, type Span, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  type IdGenerator,
  ParentBasedSampler,
  RandomIdGenerator,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { API_VERSION } from '../version';
import { within } from '../within';
import { createReceiver } from './receiver';
import { contextOf, type NewSpan, setAttributes, type Tracing, type TracingOptions } from './spans';

// A busy second's spans; more are dropped, since a receiver that is away must not cost the process
// its memory.
const QUEUE_MAX = 8_192;
const LINGER_MS = 1_000;
const CLOSE_MS = 2_000;

/** Traces by OpenTelemetry's own SDK. */
export class OtlpTracing implements Tracing {
  private readonly provider: TracerProvider;
  private readonly tracer: ReturnType<TracerProvider['getTracer']>;
  private readonly ids = new Ids();

  constructor(options: TracingOptions, receiver = createReceiver(options)) {
    const { service, sample_ratio = 1 } = options;
    const exporter = receiver.watched(new OTLPTraceExporter(receiver.options('v1/traces')));
    const root =
      sample_ratio < 1 ? new TraceIdRatioBasedSampler(sample_ratio) : new AlwaysOnSampler();
    this.provider = new TracerProvider({
      resource: resourceOf(service),
      idGenerator: this.ids,
      sampler: new ParentBasedSampler({ root }),
      spanProcessors: [
        new BatchSpanProcessor({
          exporter,
          maxQueueSize: QUEUE_MAX,
          scheduledDelayMillis: LINGER_MS,
        }),
      ],
    });
    this.tracer = this.provider.getTracer('svc', API_VERSION);
  }

  begin(name: string, { parent, kind, attributes, began_at, id }: NewSpan = {}): Span {
    const above = typeof parent === 'string' ? contextOf(parent) : parent?.spanContext();
    this.ids.next = id;
    const span = this.tracer.startSpan(
      name,
      { ...(kind === undefined ? {} : { kind }), ...(began_at && { startTime: began_at }) },
      above === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, above),
    );
    if (attributes !== undefined) setAttributes(span, attributes);
    return span;
  }

  async close(): Promise<void> {
    // It may fail, or never end.
    await within(CLOSE_MS, this.provider.shutdown()).catch(() => undefined);
  }
}

/** The sender of telemetry. */
export function resourceOf(service: string) {
  return resourceFromAttributes({ 'service.name': service, 'service.version': API_VERSION });
}

/** Random ids, or one that was given away before its span is made. */
class Ids implements IdGenerator {
  next: string | undefined;
  private readonly random = new RandomIdGenerator();

  generateTraceId(): string {
    return this.random.generateTraceId();
  }

  generateSpanId(): string {
    const id = this.next ?? this.random.generateSpanId();
    this.next = undefined;
    return id;
  }
}
