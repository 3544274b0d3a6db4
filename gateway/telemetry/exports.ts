import type { Logger } from '../../runtime/log';
import { loadTracing } from '../../runtime/telemetry/open';
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

/** What telemetry is made with, once it is loaded. */
type Sdk = Pick<Awaited<ReturnType<typeof loadTracing>>, 'OtlpTracing'> &
  typeof import('./limit-metrics.ts');

/** What this gateway exports; it follows the configuration. */
export class Telemetry {
  /** Absent while traces are off: then no call makes a span. */
  tracing: Tracing | undefined;
  private metrics: LimitMetrics | undefined;
  private used = '';
  private sdk: Sdk | undefined;
  private readonly parts: Parts;

  constructor(parts: Parts) {
    this.parts = parts;
  }

  /** Loads the SDK if a configuration exports anything; `use` follows in the same turn. */
  async load({ enabled }: OtlpSettings): Promise<void> {
    if (!enabled || this.sdk !== undefined) return;
    const [{ OtlpTracing }, metrics] = await Promise.all([
      loadTracing(),
      import('./limit-metrics.ts'),
    ]);
    this.sdk = { OtlpTracing, ...metrics };
  }

  /** Exports as a configuration says that was loaded. */
  use(settings: OtlpSettings): void {
    const { limits, log, sample_ratio } = this.parts;
    const endpoint = settings.enabled ? endpointOf(settings) : '';
    const used = JSON.stringify([endpoint, settings.export_rate_limit_metrics]);
    if (used === this.used) return;
    // Spans of calls under way end in what they began in, or nowhere.
    void this.close();
    this.tracing = undefined;
    this.metrics = undefined;
    this.used = used;
    if (endpoint === '') return;
    const { OtlpTracing, openLimitMetrics } = this.sdk as Sdk;
    const receiver = createReceiver({ endpoint, log });
    this.tracing = new OtlpTracing({ service: SERVICE, endpoint, sample_ratio, log }, receiver);
    if (!settings.export_rate_limit_metrics) return;
    this.metrics = openLimitMetrics({ service: SERVICE, receiver, limits });
  }

  /** Sends what is left, as far as the receiver takes it within 2 s. */
  async close(): Promise<void> {
    await Promise.all([this.tracing?.close(), this.metrics?.close()]);
  }
}
