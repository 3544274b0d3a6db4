import {
  type AttributeValue,
  type Span,
  type SpanContext,
  type SpanKind,
  SpanStatusCode,
} from '@opentelemetry/api';
import type { Logger } from '../log';

export { type Span, SpanKind } from '@opentelemetry/api';

/** Ids, names, numbers and states; never text, keys or secrets. Null and undefined are left out. */
export type Attributes = Record<string, AttributeValue | null | undefined>;

export interface NewSpan {
  /** The span or the `traceparent` that it belongs under; without one it begins a trace. */
  parent?: Span | string | undefined;
  kind?: SpanKind;
  attributes?: Attributes;
  /** For work that began elsewhere, under an id that was given away then. */
  began_at?: Date;
  id?: string;
}

/**
 * The traces of one process. If tracing is off there is none: code without a `Tracing` makes no
 * spans.
 */
export interface Tracing {
  begin(name: string, span?: NewSpan): Span;
  /** Sends the remaining spans, as far as the receiver accepts them within 2 s. */
  close(): Promise<void>;
}

export interface TracingOptions {
  /** Of the process: `gateway`, `api`, `worker_lifecycle`. */
  service: string;
  /** The base of an OTLP/HTTP receiver, as OTEL_EXPORTER_OTLP_ENDPOINT names it. */
  endpoint: string;
  /**
   * The share of traces that are begun here and kept; a process that continues a trace keeps it if
   * its parent does.
   */
  sample_ratio?: number | undefined;
  log: Logger;
}

/** Sets attributes that have a value. */
export function setAttributes(span: Span, attributes: Attributes): void {
  for (const name in attributes) {
    const value = attributes[name];
    if (value !== null && value !== undefined) span.setAttribute(name, value);
  }
}

/** A span whose work failed, by the code of the error: messages may hold a client's text. */
export function fail(span: Span, error: unknown): void {
  const { code, name, status } = error as { code?: unknown; name?: unknown; status?: unknown };
  span.setAttribute('error.type', typeof code === 'string' ? code : String(name ?? 'error'));
  // A refusal is an answer; only our own failure, or that of a server we call, is an error.
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

/**
 * The context in a `traceparent`; undefined if it has not the form of one, which begins a trace of
 * its own.
 */
export function contextOf(traceparent: string): SpanContext | undefined {
  const found = form.exec(traceparent);
  if (found === null) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = found;
  if (version === '00' && more !== undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}
