import { createServer, type IncomingMessage, type Server } from 'node:http';
import { parse } from 'protobufjs';
import { listen } from '../../../runtime/listen';

// OTLP's messages, as far as they are read here; the numbers are those of opentelemetry-proto 1.x.
const { root } = parse(
  `
syntax = "proto3";
message Value { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
message Pair { string key = 1; Value value = 2; }
message Resource { repeated Pair attributes = 1; }
message Status { string message = 2; int32 code = 3; }
message Span { bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
  fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated Pair attributes = 9; Status status = 15; }
message ScopeSpans { repeated Span spans = 2; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
message Point { fixed64 start_time_unix_nano = 2; fixed64 time_unix_nano = 3; oneof value { double as_double = 4; sfixed64 as_int = 6; }
  repeated Pair attributes = 7; }
message Gauge { repeated Point data_points = 1; }
message Sum { repeated Point data_points = 1; int32 aggregation_temporality = 2; bool is_monotonic = 3; }
message Metric { string name = 1; Gauge gauge = 5; Sum sum = 7; }
message ScopeMetrics { repeated Metric metrics = 2; }
message ResourceMetrics { Resource resource = 1; repeated ScopeMetrics scope_metrics = 2; }
message ExportMetricsServiceRequest { repeated ResourceMetrics resource_metrics = 1; }`,
  { keepCase: true },
);

export interface ReceivedSpan {
  service: string;
  trace_id: string;
  span_id: string;
  /** Empty if it begins its trace. */
  parent_span_id: string;
  name: string;
  kind: number;
  duration_ms: number;
  is_error: boolean;
  attributes: Record<string, string | number | boolean>;
}

interface ReceivedMetric {
  name: string;
  type: 'counter' | 'gauge';
  values: number[];
}

export interface Receiver {
  url: string;
  spans: ReceivedSpan[];
  /** The newest of each name. */
  metrics: Map<string, ReceivedMetric>;
  /** Every byte that was sent, heads included. */
  bytes: Buffer[];
  requests: { path: string; type: string | undefined }[];
  /** Its behaviour from now on. */
  mode: 'takes' | 'hangs';
  close: () => Promise<void>;
}

/** A receiver of OTLP over HTTP as protobuf. */
export async function openReceiver(port = 0): Promise<Receiver> {
  const server = createServer((req, res) => {
    void body(req).then((bytes) => {
      const path = req.url ?? '';
      receiver.requests.push({ path, type: req.headers['content-type'] });
      receiver.bytes.push(Buffer.from(JSON.stringify(req.rawHeaders)), bytes);
      if (receiver.mode === 'hangs') return;
      if (path === '/v1/traces') receiver.spans.push(...spansIn(bytes));
      if (path === '/v1/metrics')
        for (const one of metricsIn(bytes)) receiver.metrics.set(one.name, one);
      res.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  const receiver: Receiver = {
    url: `http://127.0.0.1:${await listen(server, port)}`,
    spans: [],
    metrics: new Map(),
    bytes: [],
    requests: [],
    mode: 'takes',
    close: () => close(server),
  };
  return receiver;
}

async function body(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function close(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

// biome-ignore lint/suspicious/noExplicitAny: decoded by the messages above.
function decoded(type: string, bytes: Buffer): any {
  const message = root.lookupType(type);
  return message.toObject(message.decode(bytes), { arrays: true, longs: String, bytes: Buffer });
}

interface Pair {
  key: string;
  value: Record<string, string | number | boolean>;
}

function plain(pairs: Pair[]): ReceivedSpan['attributes'] {
  const entries = pairs.map(({ key, value }) => {
    const [[kind, it] = ['', '']] = Object.entries(value);
    return [key, kind === 'int_value' ? Number(it) : it] as const;
  });
  return Object.fromEntries(entries);
}

function hex(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString('hex');
}

function spansIn(bytes: Buffer): ReceivedSpan[] {
  const spans: ReceivedSpan[] = [];
  for (const { resource, scope_spans } of decoded('ExportTraceServiceRequest', bytes)
    .resource_spans) {
    const service = String(plain(resource.attributes)['service.name']);
    for (const { spans: some } of scope_spans) {
      for (const span of some) {
        const took = BigInt(span.end_time_unix_nano) - BigInt(span.start_time_unix_nano);
        spans.push({
          service,
          trace_id: hex(span.trace_id),
          span_id: hex(span.span_id),
          parent_span_id: hex(span.parent_span_id),
          name: span.name,
          kind: span.kind,
          duration_ms: Number(took) / 1e6,
          is_error: span.status?.code === 2,
          attributes: plain(span.attributes),
        });
      }
    }
  }
  return spans;
}

function metricsIn(bytes: Buffer): ReceivedMetric[] {
  const metrics: ReceivedMetric[] = [];
  for (const { scope_metrics } of decoded('ExportMetricsServiceRequest', bytes).resource_metrics) {
    for (const { metrics: some } of scope_metrics) {
      for (const { name, sum, gauge } of some) {
        const points = (sum ?? gauge).data_points as { as_int?: string; as_double?: number }[];
        const values = points.map(({ as_int, as_double }) => Number(as_int ?? as_double));
        // A counter is a sum that only grows, counted since its start.
        const is_counter = sum?.is_monotonic === true && sum.aggregation_temporality === 2;
        metrics.push({ name, type: is_counter ? 'counter' : 'gauge', values });
      }
    }
  }
  return metrics;
}
