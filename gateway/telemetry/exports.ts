import type { Logger } from '../../runtime/log';
import { openTracing } from '../../runtime/telemetry/open';
import { createReceiver } from '../../runtime/telemetry/receiver';
import type { Tracing } from '../../runtime/telemetry/spans';
import { endpointOf, type OtlpSettings } from '../config/telemetry';
import type { Limits } from '../limits/engine';
import type { LimitMetrics } from './limit-metrics';

/** What this gateway exports; it follows the configuration. */
export interface Telemetry {
  /** Absent while traces are off: then no call makes a span. */
  tracing: Tracing | undefined;
  use(settings: OtlpSettings): void;
  /** Sends what is left, as far as the receiver takes it within 2 s. */
  close(): Promise<void>;
}

const SERVICE = 'gateway';

export function openTelemetry(parts: {
  limits: Pick<Limits, 'stats'>;
  log: Logger;
  sample_ratio?: number | undefined;
}): Telemetry {
  return new Exports(parts);
}

class Exports implements Telemetry {
  tracing: Tracing | undefined;
  private metrics: LimitMetrics | undefined;
  private used = '';
  private readonly parts: Parameters<typeof openTelemetry>[0];

  constructor(parts: Parameters<typeof openTelemetry>[0]) {
    this.parts = parts;
  }

  use(settings: OtlpSettings): void {
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
    this.tracing = openTracing({ service: SERVICE, endpoint, sample_ratio, log }, receiver);
    if (!settings.export_rate_limit_metrics) return;
    const { openLimitMetrics } = require('./limit-metrics') as typeof import('./limit-metrics');
    this.metrics = openLimitMetrics({ service: SERVICE, receiver, limits });
  }

  async close(): Promise<void> {
    await Promise.all([this.tracing?.close(), this.metrics?.close()]);
  }
}
