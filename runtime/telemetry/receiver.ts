import type { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import type { Logger } from '../log';
import { ClosedAddress, isClosed, openLookup } from '../outgoing';

/**
 * The receiver of telemetry: how exporters reach it, and one log line each time that it goes away
 * or comes back.
 */
export type Receiver = ReturnType<typeof createReceiver>;

interface Exporter {
  // biome-ignore lint/suspicious/noExplicitAny: spans or metrics, and the callback of either.
  export(items: any, done: (result: { code: number; error?: Error }) => void): void;
}

// Together with its one or two repeats. Telemetry that cannot be sent by then is dropped, and no
// process waits longer for its end.
const SEND_MS = 3_000;
const SUCCESS = 0;

export function createReceiver({ endpoint, log }: { endpoint: string; log: Logger }) {
  const { hostname } = new URL(endpoint);
  // An address is not looked up.
  if (isClosed(hostname)) throw new ClosedAddress(hostname);
  let is_away = false;
  const note = (error: Error | undefined): void => {
    if ((error !== undefined) === is_away) return;
    is_away = !is_away;
    if (is_away)
      log.warn({ reason: reasonOf(error) }, 'telemetry is dropped, its receiver is away');
    else log.info('the receiver of telemetry takes it again');
  };
  return {
    options: (path: string): ConstructorParameters<typeof OTLPTraceExporter>[0] => ({
      url: `${endpoint.replace(/\/+$/, '')}/${path}`,
      timeoutMillis: SEND_MS,
      httpAgentOptions: { keepAlive: true, lookup: openLookup },
      // More would only wait for the same receiver.
      concurrencyLimit: 4,
    }),
    /** The same exporter, whose results are watched. */
    watched<E extends Exporter>(exporter: E): E {
      const send = exporter.export.bind(exporter);
      exporter.export = (items, done) =>
        send(items, (result) => {
          note(result.code === SUCCESS ? undefined : (result.error ?? new Error('refused')));
          done(result);
        });
      return exporter;
    },
  };
}

// An address may hold a password, so only the kind of failure is logged.
function reasonOf(error: Error | undefined): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: string };
  return String(code ?? name);
}
