import type { Logger } from '../../runtime/log';
import { openTracing } from '../../runtime/telemetry/open';
import { createReceiver } from '../../runtime/telemetry/receiver';
import type { Tracing } from '../../runtime/telemetry/spans';
import { endpointOf, type OtlpSettings } from '../config/telemetry';
import type { Limits } from '../limits/engine';
import type { LimitMetrics } from './limit-metrics';

const SERVICE = 'gateway';

interface Parts {
  limits: Pick<Limits, 'stats'>;
  log: Logger;
  sample_ratio?: number | undefined;
}

export function openTelemetry(parts: Parts): Telemetry {
  return new Telemetry(parts);
}

/** What this gateway exports; it follows the configuration. */
export class Telemetry {
  /** Absent while traces are off: then no call makes a span. */
  tracing: Tracing | undefined;
  private metrics: LimitMetrics | undefined;
  private used = '';
  private readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
  }

  /** Exports as a configuration says, once the SDK is loaded. */
  async use(settings: OtlpSettings): Promise<void> {
    const { limits, log, sample_ratio } = this.parts;
    const endpoint = settings.enabled ? endpointOf(settings) : '';
    const used = JSON.stringify([endpoint, settings.export_rate_limit_metrics]);
    if (used === this.used) return;
    this.used = used;
    // Spans of calls under way end in what they began in, or nowhere.
    void this.close();
    this.tracing = undefined;
    this.metrics = undefined;
    if (endpoint === '') return;
    const receiver = createReceiver({ endpoint, log });
    this.tracing = await openTracing({ service: SERVICE, endpoint, sample_ratio, log }, receiver);
    if (!settings.export_rate_limit_metrics) return;
    const { openLimitMetrics } = await import('./limit-metrics.ts');
    this.metrics = openLimitMetrics({ service: SERVICE, receiver, limits });
  }

  /** Sends what is left, as far as the receiver takes it within 2 s. */
  async close(): Promise<void> {
    await Promise.all([this.tracing?.close(), this.metrics?.close()]);
  }
}
