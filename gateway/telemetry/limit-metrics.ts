import { ValueType } from '@opentelemetry/api';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { resourceOf } from '../../runtime/telemetry/otlp';
import type { Receiver } from '../../runtime/telemetry/receiver';
import { API_VERSION } from '../../runtime/version';
import { within } from '../../runtime/within';
import type { Limits } from '../limits/engine';

export interface LimitMetrics {
  /** Sends what the counters say at the end, too. */
  close(): Promise<void>;
}

const EVERY_MS = 10_000;
const SEND_MS = 4_000;
const CLOSE_MS = 2_000;

/**
 * The four metrics of rate limits (specification: Events), read from the limiter's own counters
 * when they are sent.
 */
export function openLimitMetrics({
  service,
  receiver,
  limits,
}: {
  service: string;
  receiver: Receiver;
  limits: Pick<Limits, 'stats'>;
}): LimitMetrics {
  const exporter = receiver.watched(new OTLPMetricExporter(receiver.options('v1/metrics')));
  const provider = new MeterProvider({
    resource: resourceOf(service),
    readers: [
      new PeriodicExportingMetricReader({
        exporter,
        exportIntervalMillis: EVERY_MS,
        exportTimeoutMillis: SEND_MS,
      }),
    ],
  });
  const valueType = ValueType.INT;
  const meter = provider.getMeter('svc', API_VERSION);
  const counter = (name: string, description: string) =>
    meter.createObservableCounter(`svc.rate_limit.${name}`, { description, valueType });
  const gauge = (name: string, description: string) =>
    meter.createObservableGauge(`svc.rate_limit.${name}`, { description, valueType });
  const allowed = counter('requests_allowed_total', 'Requests that all limits let pass.');
  const rejected = counter('requests_rejected_total', 'Requests that a limit refused.');
  const rpm = gauge('remaining_rpm', 'Requests a minute left in the most constrained scope.');
  const tpm = gauge('remaining_tpm', 'Tokens a minute left in the most constrained scope.');
  meter.addBatchObservableCallback(
    (metrics) => {
      const stats = limits.stats();
      metrics.observe(allowed, stats.requests_allowed_total);
      metrics.observe(rejected, stats.requests_rejected_total);
      // Without such a limit there is nothing that remains.
      if (stats.remaining_rpm !== null) metrics.observe(rpm, stats.remaining_rpm);
      if (stats.remaining_tpm !== null) metrics.observe(tpm, stats.remaining_tpm);
    },
    [allowed, rejected, rpm, tpm],
  );
  return { close: () => within(CLOSE_MS, provider.shutdown()).catch(() => undefined) };
}
