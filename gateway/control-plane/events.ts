import { setTimeout as sleep } from 'node:timers/promises';
import { type EventType, type GatewayEvent, PLATFORM_STREAM } from '../../domain/events';
import { countedIds } from '../../domain/ids';
import type { Identity } from '../../domain/people/identity';
import type { Logger } from '../../runtime/log';
import type { Load } from './batch';
import type { ControlPlane } from './client';

type Type = Extract<EventType, `rate_limit.${string}` | `request.${string}`>;

/** The content of an event; the rest is known of its call. */
export interface EventContent {
  type: Type;
  /** Events filtered by `action` are those that refused something. */
  action?: 'rate_limited' | 'blocked' | 'refused';
  payload: Record<string, unknown>;
}

/** The call that an event is about. */
export interface Subject {
  /** Undefined if nobody knows the caller: then it concerns the platform alone. */
  identity: Identity | undefined;
  /** Null for a request that is no call. */
  request_id: string | null;
  /** The client's own id of the request. */
  trace_label: string | null;
  /** Undefined before it is known. */
  agent_id?: string | null | undefined;
}

// The most events that the control plane takes in one call.
const BATCH_MAX = 500;
// They go with the next settlements, or by themselves.
const LINGER_MS = 1_000;
// The items of a batch have half of what the control plane reads; these have less than a fifth.
const LOAD_CHARACTERS_MAX = 65_536;
const LANDING_MS = 20;
const REST_MS = 1_000;
const SEND_TIMEOUT_MS = 5_000;
const WAITING_MAX = 20_000;

type Receiver = Pick<ControlPlane, 'sendEvents' | 'carryEvents' | 'now'>;

export function openEvents(control_plane: Receiver, log: Logger): Events {
  return new Events(control_plane, log);
}

/** Sends events to the control plane, in batches and off the path of any request. */
export class Events {
  private readonly control_plane: Receiver;
  private readonly log: Logger;
  private waiting: GatewayEvent[] = [];
  private readonly newId = countedIds('evt');
  private lost = 0;
  /** The events that travel with settlements at present. */
  private travelling = 0;
  private is_closing = false;
  private timer: NodeJS.Timeout | undefined;
  private sending: Promise<void> | undefined;

  constructor(control_plane: Receiver, log: Logger) {
    this.control_plane = control_plane;
    this.log = log;
    control_plane.carryEvents(() => this.take());
  }

  emit({ identity, request_id, trace_label, agent_id }: Subject, content: EventContent): void {
    if (this.count() >= WAITING_MAX) this.makeRoom();
    this.waiting.push({
      id: this.newId(Math.floor(this.control_plane.now())),
      org_id: identity?.org_id ?? PLATFORM_STREAM,
      type: content.type,
      action: content.action ?? null,
      agent_id: agent_id ?? identity?.agent_id ?? null,
      request_id,
      trace_label,
      payload: { ...content.payload, ...(identity && proofOf(identity)) },
    });
    if (this.waiting.length >= BATCH_MAX) this.sendSoon(0);
    else this.sendSoon(LINGER_MS);
  }

  /** The events that are not written yet, as far as is known. */
  count(): number {
    return this.waiting.length + this.travelling;
  }

  /** The events that were given up because the control plane was away too long. */
  dropped(): number {
    return this.lost;
  }

  /** Sends the waiting events, as far as the control plane takes them within the time. */
  async close(within_ms: number): Promise<void> {
    this.is_closing = true;
    clearTimeout(this.timer);
    const end_at = performance.now() + within_ms;
    await Promise.race([this.sending, sleep(within_ms, undefined, { ref: false })]);
    // What travels may be held up by one organization; the others' events do not wait for it.
    while (this.count() > 0 && performance.now() < end_at) {
      if (this.waiting.length === 0) await sleep(LANDING_MS);
      else if (!(await this.sendBatch(end_at - performance.now()))) break;
    }
    this.lost += this.count();
    if (this.lost > 0) this.log.warn({ events: this.lost }, 'events were lost');
    this.waiting = [];
  }

  /** Gives the waiting events to a batch that leaves now, unless they are on their way. */
  private take(): Omit<Load, 'id'> | undefined {
    if (this.waiting.length === 0 || this.sending !== undefined || this.is_closing)
      return undefined;
    const texts: string[] = [];
    let characters = 0;
    for (const event of this.waiting) {
      const text = JSON.stringify(event);
      characters += text.length;
      if (characters > LOAD_CHARACTERS_MAX || texts.length === BATCH_MAX) break;
      texts.push(text);
    }
    if (texts.length === 0) return undefined;
    const events = this.waiting.splice(0, texts.length);
    this.travelling += events.length;
    if (this.waiting.length === 0) this.stopTimer();
    let is_answered = false;
    const answer = (is_taken: boolean): void => {
      if (is_answered) return;
      is_answered = true;
      clearTimeout(timer);
      this.travelling -= events.length;
      if (is_taken) return;
      this.waiting.unshift(...events);
      this.sendSoon(0);
    };
    // One organization's lock may hold the batch up; all the others' events do not wait for it.
    // What is written by both ways is written once.
    const timer = setTimeout(() => answer(false), LINGER_MS);
    return { text: `[${texts.join(',')}]`, answer };
  }

  private stopTimer(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }

  private sendSoon(delay_ms: number): void {
    if (this.is_closing || this.sending !== undefined || (this.timer !== undefined && delay_ms > 0))
      return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.sending = this.send().finally(() => {
        this.sending = undefined;
        if (this.waiting.length > 0) this.sendSoon(LINGER_MS);
      });
    }, delay_ms);
  }

  /** Sends the waiting events; while the control plane is away it pauses, and drops none. */
  private async send(): Promise<void> {
    let is_taken: boolean;
    do {
      is_taken = await this.sendBatch(SEND_TIMEOUT_MS);
      if (!is_taken) await sleep(REST_MS, undefined, { ref: false });
    } while (!this.is_closing && (!is_taken || this.waiting.length >= BATCH_MAX));
  }

  private async sendBatch(timeout_ms: number): Promise<boolean> {
    const batch = this.waiting.slice(0, BATCH_MAX);
    if (!(await this.sendOrSplit(batch, timeout_ms))) return false;
    const sent = new Set(batch);
    this.waiting = this.waiting.filter((event) => !sent.has(event));
    return true;
  }

  /**
   * An event that is refused for its content would be refused for ever: the others go without it.
   */
  private async sendOrSplit(batch: GatewayEvent[], timeout_ms: number): Promise<boolean> {
    const result = await this.control_plane.sendEvents(batch, timeout_ms);
    if (result !== 'refused') return result === 'taken';
    if (batch.length === 1) {
      this.lost += 1;
      this.log.error({ type: batch[0]?.type }, 'an event was refused');
      return true;
    }
    const half = Math.ceil(batch.length / 2);
    const is_taken = await this.sendOrSplit(batch.slice(0, half), timeout_ms);
    return (await this.sendOrSplit(batch.slice(half), timeout_ms)) && is_taken;
  }

  /** Passed checks are dropped first: a refusal or a finished request matters more. */
  private makeRoom(): void {
    // First what nobody known has caused, of which there may be any number.
    const unknown = this.waiting.findIndex(({ org_id }) => org_id === PLATFORM_STREAM);
    const passed = this.waiting.findIndex(({ type }) => type === 'rate_limit.checked');
    this.waiting.splice(unknown >= 0 ? unknown : Math.max(0, passed), 1);
    if (this.lost === 0) this.log.warn('events are dropped, the control plane is away');
    this.lost += 1;
  }
}

/**
 * The caller and its proof; without a proof there is no identity (specification: Authentication,
 * rule 4).
 */
function proofOf({ proof, user_id, key_id, team_id }: Identity) {
  if (proof === 'header_soft') return { identity_proof_method: proof };
  return { identity_proof_method: proof, identity_context: { user_id, key_id, team_id } };
}
