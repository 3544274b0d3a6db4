import {
  type AttributeValue,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  type SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
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
import { API_VERSION } from './http';
import type { Logger } from './log';
import { openReceiver, type Receiver } from './telemetry-receiver';

export { type Span, SpanKind } from '@opentelemetry/api';

/** Ids, names, numbers and states; never text, keys or secrets. What is null or undefined is left out. */
export type Attributes = Record<string, AttributeValue | null | undefined>;

export interface NewSpan {
  /** The span or the `traceparent` that it belongs under; without one it begins a trace. */
  parent?: Span | string | undefined;
  kind?: SpanKind;
  attributes?: Attributes;
  /** For what began elsewhere, under an id that was given away then. */
  began_at?: Date;
  id?: string;
}

/** The traces of one process. Where tracing is off there is none, so whoever has no `Tracing` makes no spans. */
export interface Tracing {
  begin(name: string, span?: NewSpan): Span;
  /** Sends what is left, as far as the receiver takes it within 2 s. */
  close(): Promise<void>;
}

export interface TracingOptions {
  /** Of the process: `gateway`, `api`, `worker_lifecycle`. */
  service: string;
  /** The base of an OTLP/HTTP receiver, as OTEL_EXPORTER_OTLP_ENDPOINT names it. */
  endpoint: string;
  /** The share of traces that are begun here and kept; who continues a trace keeps what its parent keeps. */
  sample_ratio?: number | undefined;
  log: Logger;
}

// A busy second's spans; more are dropped, since a receiver that is away must not cost the process its memory.
const QUEUE_MAX = 8_192;
const LINGER_MS = 1_000;
const CLOSE_MS = 2_000;

/** `receiver` is shared with whatever else is sent there. */
export function openTracing(options: TracingOptions, receiver = openReceiver(options)): Tracing {
  return new OtlpTracing(options, receiver);
}

/** The traces of a service that is told by the environment where to send them. */
export function openProcessTracing(
  service: string,
  config: {
    OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined;
    OTEL_TRACES_SAMPLER_ARG?: number | undefined;
  },
  log: Logger,
): Tracing | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLER_ARG: sample_ratio } = config;
  return endpoint === undefined ? undefined : openTracing({ service, endpoint, sample_ratio, log });
}

class OtlpTracing implements Tracing {
  private readonly provider: TracerProvider;
  private readonly tracer: ReturnType<TracerProvider['getTracer']>;
  private readonly ids = new Ids();

  constructor({ service, sample_ratio = 1 }: TracingOptions, receiver: Receiver) {
    const exporter = receiver.told(new OTLPTraceExporter(receiver.options('v1/traces')));
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
    if (attributes !== undefined) tell(span, attributes);
    return span;
  }

  async close(): Promise<void> {
    await within(CLOSE_MS, this.provider.shutdown());
  }
}

/** Who sends. */
export function resourceOf(service: string) {
  return resourceFromAttributes({ 'service.name': service, 'service.version': API_VERSION });
}

/** Waits for an end that may fail or never come. */
export async function within(ms: number, end: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([end.catch(() => undefined), late]);
  clearTimeout(timer);
}

export function tell(span: Span, attributes: Attributes): void {
  for (const name in attributes) {
    const value = attributes[name];
    if (value !== null && value !== undefined) span.setAttribute(name, value);
  }
}

/** A span whose work failed, by the code of the error: messages may hold what a client wrote. */
export function fail(span: Span, error: unknown): void {
  const { code, name, status } = error as { code?: unknown; name?: unknown; status?: unknown };
  span.setAttribute('error.type', typeof code === 'string' ? code : String(name ?? 'error'));
  // A refusal is an answer; only what is our fault, or that of what we ask, is an error.
  if (typeof status === 'number' && status < 500) return;
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** Runs something in a span, which ends with it. */
export async function inSpan<T>(span: Span, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    fail(span, error);
    throw error;
  } finally {
    span.end();
  }
}

/** The W3C form of a span's context, by which another process continues its trace. */
export function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-${traceFlags & 1 ? '01' : '00'}`;
}

export function traceIdOf(span: Span): string {
  return span.spanContext().traceId;
}

// Later versions may add members after these four.
const form =
  /^(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** What a `traceparent` says; undefined where it has not the form of one, which begins a trace of its own. */
function contextOf(traceparent: string): SpanContext | undefined {
  const found = form.exec(traceparent);
  if (found === null) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = found;
  if (version === '00' && more !== undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
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
