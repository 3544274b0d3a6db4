import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Gateway } from './call/call';

/** What a gateway knows of its configuration. */
interface Known {
  version: number | null;
  refused_version: number | null;
  error: string | null;
}

/** The gateway and its group, as it names them. */
export interface Identified {
  id: string;
  group: string;
}

/** Of one to which the control plane names no other time. */
const REPORT_MS = 60_000;
/** A report that was lost is repeated. */
const REPEAT_MS = 2_000;
const GOODBYE_MS = 1_000;

/**
 * Tells the control plane what a gateway runs and does: at once if another configuration runs, or
 * was refused, and else as often as the control plane wants.
 */
export class Reports {
  private readonly gateway: Gateway;
  private readonly named: Identified;
  private readonly knownOf: () => Known;
  private readonly started_at = new Date();
  private readonly reporting: Promise<void>;
  private is_over = false;
  private report_ms = REPORT_MS;
  private pausing = new AbortController();
  /** What the control plane was told last, except what calls do. */
  private told = '';

  constructor(gateway: Gateway, named: Identified, knownOf: () => Known) {
    this.gateway = gateway;
    this.named = named;
    this.knownOf = knownOf;
    this.reporting = this.reportOn();
  }

  /** Reports if something has changed since the last report, except what calls do. */
  tellChange(): void {
    if (JSON.stringify(this.standing()) !== this.told) this.pausing.abort();
  }

  /** How often the control plane wants reports; undefined for the usual. */
  every(ms: number = REPORT_MS): void {
    if (ms === this.report_ms) return;
    this.report_ms = ms;
    this.pausing.abort();
  }

  /** Ends the reports with one that says so. */
  async close(): Promise<void> {
    this.is_over = true;
    this.pausing.abort();
    const goodbye = this.reporting.then(() => this.send('stopped'));
    await Promise.race([goodbye, sleep(GOODBYE_MS, undefined, { ref: false })]);
  }

  private async reportOn(): Promise<void> {
    while (!this.is_over) {
      const now = this.standing();
      const is_sent = await this.send(now.state);
      if (is_sent) this.told = JSON.stringify(now);
      else this.gateway.snapshot.counts.lost_reports += 1;
      if (this.is_over) return;
      if (is_sent && JSON.stringify(this.standing()) !== this.told) continue;
      this.pausing = new AbortController();
      const { signal } = this.pausing;
      const pause_ms = is_sent ? this.report_ms * (0.9 + 0.2 * Math.random()) : REPEAT_MS;
      await sleep(pause_ms, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }

  private standing() {
    const { snapshot, is_draining } = this.gateway;
    const { version: config_version, refused_version, error } = this.knownOf();
    const state = is_draining ? ('draining' as const) : ('running' as const);
    return { config_version, config_hash: snapshot.version, refused_version, error, state };
  }

  /** False if the report did not arrive. */
  private send(state: 'running' | 'draining' | 'stopped'): Promise<boolean> {
    const { snapshot, calls, held_calls, control_plane } = this.gateway;
    const work = { in_flight: calls.size, held: held_calls.count(), counts: snapshot.counts };
    const { named, started_at } = this;
    return control_plane
      .report({ ...named, host: hostname(), started_at, ...this.standing(), ...work, state })
      .catch(() => false);
  }
}
