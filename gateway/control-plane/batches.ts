import { type Dispatcher, Pool } from 'undici';
import type { BatchItem } from '../../domain/ledger/calls';
import { type Item, type Load, SentBatch } from './batch';
import { type Clock, createClock } from './clock';
import { isOfControlPlane, type NoReply, parseReply, type Reply } from './replies';

type Op = BatchItem['op'];

interface RequestOptions {
  /** How long the answer may take. */
  timeout_ms?: number;
  /** Aborted when nobody waits for the answer any more. */
  signal?: AbortSignal;
  /** Added to the gateway's own, or in place of those of the same name. */
  headers?: Readonly<Record<string, string>>;
}

interface Address {
  urls: readonly string[];
  headers: Readonly<Record<string, string>>;
}

// The next batch waits for the one that is out, but no longer than this. One at a time makes the
// largest batches, and each saves system calls on both sides: measured against four, a priced
// request costs all processes a quarter less CPU. A slow organization holds the next batch no
// longer than this, so that it delays no other.
const HOLD_NEXT_MS = 25;
// Settlements that travel with reserves cost the ledger no call of their own; most of a call's
// price does not depend on how many items it has. No longer: whoever has their answer finds its
// cost in the balance, and the next call, at whichever gateway, may need what comes back.
const SETTLE_LINGER_MS = 5;
const BATCHES_OUT_MAX = 32;
const ITEMS_MAX = 64;
// Half of the control plane's limit for one body.
const BYTES_MAX = 524_288;
const BATCH_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 2_000;
const RESEND_MS = 100;
// A control plane that refused a batch with events may be of the version before, for so long.
const NO_EVENTS_MS = 60_000;

/** Opens the connections over which reserves and settlements travel together. */
export function openBatches(address: Address): Batches {
  return new Batches(address);
}

/** Sends items of many calls to the control plane in batches, and other requests one by one. */
export class Batches {
  private readonly pools: Pool[];
  private readonly paths: string[];
  private readonly headers: Record<string, string>;
  private readonly clock: Clock = createClock();
  // One address is used until it fails; then the next one is.
  private current = 0;
  private queue: Item[] = [];
  /** Batches that are out, and those of them for which the next one waits. */
  private out = 0;
  private holding_next = 0;
  private last_id = 0;
  private is_paused = false;
  private is_send_due = false;
  private lingering: NodeJS.Timeout | undefined;
  private takeEvents: (() => Omit<Load, 'id'> | undefined) | undefined;
  private no_events_until = Number.NEGATIVE_INFINITY;

  constructor({ urls, headers }: Address) {
    const parsed = urls.map((url) => new URL(url));
    this.pools = parsed.map(
      ({ origin }) => new Pool(origin, { connect: { timeout: REQUEST_TIMEOUT_MS } }),
    );
    this.paths = parsed.map(({ pathname }) => pathname.replace(/\/+$/, ''));
    this.headers = { ...headers, 'content-type': 'application/json' };
  }

  /** From now on what this gives travels with the batches that have settlements. */
  carryEvents(take: () => Omit<Load, 'id'> | undefined): void {
    this.takeEvents = take;
  }

  /** Sends an item with the next batch; an urgent settlement waits for no reserve to go with. */
  send(op: Op, body: object, timeout_ms: number, is_urgent = false): Promise<Reply | NoReply> {
    const id = this.nextId();
    const text = `{"id":"${id}","op":"${op}","body":${JSON.stringify(body)}}`;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        item.is_live = false;
        // The address may hang, so the next attempt goes to another one. Of all items that hang on
        // it, only the first turns away.
        if (item.at !== undefined) this.turnFrom(item.at);
        resolve({ status: 0, was_sent: item.was_sent });
      }, timeout_ms);
      const answer = (reply: Reply): void => {
        clearTimeout(timer);
        item.is_live = false;
        resolve(reply);
      };
      const is_patient = op === 'settle';
      const item: Item = {
        id,
        text,
        is_patient,
        is_live: true,
        was_sent: false,
        at: undefined,
        answer,
      };
      this.queue.push(item);
      if (is_patient && !is_urgent) this.sendLater();
      else this.sendSoon();
    });
  }

  /** One request, not batched; undefined if no address answers, or nobody waits any more. */
  async request(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    options: RequestOptions = {},
  ): Promise<Reply | undefined> {
    for (let tries = 0; tries < this.pools.length + 1; tries += 1) {
      const at = this.current;
      const asked = { method, path: `${this.paths[at]}${path}`, body };
      const reply = await this.requestFrom(at, asked, options).catch(() => undefined);
      if (options.signal?.aborted) return undefined;
      if (reply !== undefined && reply.status < 500) return { ...reply, after_loss: tries > 0 };
      this.turnFrom(at);
    }
    return undefined;
  }

  /**
   * The control plane's clock in milliseconds since 1970; this machine's until the first answer.
   */
  now(): number {
    return this.clock.now();
  }

  async close(): Promise<void> {
    await Promise.all(this.pools.map((pool) => pool.destroy()));
  }

  private async requestFrom(
    at: number,
    { method, path, body }: { method: 'GET' | 'POST'; path: string; body: object | undefined },
    { timeout_ms = REQUEST_TIMEOUT_MS, signal, headers }: RequestOptions,
  ): Promise<Reply> {
    const answer = await this.poolAt(at).request({
      method,
      path,
      headers: headers ? { ...this.headers, ...headers } : this.headers,
      body: body === undefined ? null : JSON.stringify(body),
      headersTimeout: timeout_ms,
      bodyTimeout: timeout_ms,
      ...(signal ? { signal } : {}),
    });
    this.clock.set(answer.headers.date);
    const told = parseReply(await answer.body.text());
    const { statusCode: status } = answer;
    if (!isOfControlPlane(status, told)) throw new Error('The control plane did not say this.');
    return { status, body: told ?? {}, headers: answer.headers };
  }

  /** All that arrived in one turn of the event loop leaves together. */
  private sendSoon(): void {
    if (this.is_send_due) return;
    this.is_send_due = true;
    setImmediate(() => {
      this.is_send_due = false;
      this.sendNext();
    });
  }

  private sendLater(): void {
    // They fill a batch by themselves.
    if (this.queue.length >= ITEMS_MAX) this.sendSoon();
    else this.lingering ??= setTimeout(() => this.sendSoon(), SETTLE_LINGER_MS);
  }

  private sendNext(): void {
    clearTimeout(this.lingering);
    this.lingering = undefined;
    if (this.is_paused || this.holding_next > 0 || this.out >= BATCHES_OUT_MAX) return;
    const items = this.nextBatch();
    if (items.length > 0) this.sendBatch(items);
  }

  /**
   * The next batch, of the items that somebody still waits for: at most 64 items, and no more text
   * than the control plane reads in one body.
   */
  private nextBatch(): Item[] {
    let bytes = 0;
    let taken = 0;
    let passed = 0;
    for (const { text, is_live } of this.queue) {
      if (is_live) {
        bytes += Buffer.byteLength(text);
        if (taken === ITEMS_MAX || (taken > 0 && bytes > BYTES_MAX)) break;
        taken += 1;
      }
      passed += 1;
    }
    return this.queue.splice(0, passed).filter((item) => item.is_live);
  }

  private sendBatch(items: Item[]): void {
    const at = this.current;
    for (const item of items) item.at = at;
    const load = this.loadFor(items);
    const onEnd = (refusal?: Reply): void => this.ended(batch, at, refusal);
    const batch = new SentBatch(items, this.clock, { load, onEnd });
    this.out += 1;
    this.holding_next += 1;
    batch.timer = setTimeout(() => {
      this.letNextGo(batch);
      this.sendNext();
    }, HOLD_NEXT_MS);
    const options: Dispatcher.DispatchOptions = {
      method: 'POST',
      path: `${this.paths[at]}/v1/gateway/wallets/batch`,
      headers: this.headers,
      body: `{"items":[${items.map(({ text }) => text).join(',')}]${eventsIn(load)}}`,
      headersTimeout: BATCH_TIMEOUT_MS,
      bodyTimeout: BATCH_TIMEOUT_MS,
    };
    this.poolAt(at).dispatch(options, batch);
  }

  /** The waiting events, with what settles their calls. */
  private loadFor(items: readonly Item[]): Load | undefined {
    if (performance.now() < this.no_events_until) return undefined;
    if (!items.some(({ is_patient }) => is_patient)) return undefined;
    const taken = this.takeEvents?.();
    return taken && { id: this.nextId(), ...taken };
  }

  private nextId(): string {
    this.last_id += 1;
    return this.last_id.toString(36);
  }

  private letNextGo(batch: SentBatch): void {
    if (!batch.holds_next) return;
    batch.holds_next = false;
    this.holding_next -= 1;
  }

  /** Items without an answer go again with their ids, after a pause, to the next address. */
  private ended(batch: SentBatch, at: number, refusal: Reply | undefined): void {
    clearTimeout(batch.timer);
    this.letNextGo(batch);
    this.out -= 1;
    const left = batch.unanswered();
    const { load } = batch;
    load?.answer(false);
    if (refusal !== undefined && load !== undefined && !isAboutSender(refusal)) {
      // Perhaps for the events.
      this.no_events_until = performance.now() + NO_EVENTS_MS;
      if (left.length > 0) this.sendBatch(left);
    } else if (refusal !== undefined && (left.length === 1 || isAboutSender(refusal))) {
      for (const item of left) item.answer(refusal);
    } else if (refusal !== undefined) {
      // One item spoils the batch: each goes alone, so that no other is refused for it.
      for (const item of left) this.sendBatch([item]);
    } else if (left.length > 0) {
      this.queue.unshift(...left);
      this.turnFrom(at);
      this.pause();
    }
    // Settlements alone go on waiting for a reserve.
    if (this.queue.some(({ is_patient }) => !is_patient)) this.sendNext();
    else if (this.queue.length > 0) this.sendLater();
  }

  private pause(): void {
    if (this.is_paused) return;
    this.is_paused = true;
    setTimeout(() => {
      this.is_paused = false;
      this.sendNext();
    }, RESEND_MS);
  }

  private turnFrom(at: number): void {
    if (at === this.current) this.current = (this.current + 1) % this.pools.length;
  }

  private poolAt(at: number): Pool {
    return this.pools[at] as Pool;
  }
}

function eventsIn(load: Load | undefined): string {
  return load === undefined ? '' : `,"events":{"id":"${load.id}","items":${load.text}}`;
}

/** True if the whole call was refused for its sender: its credential, its scope or its version. */
function isAboutSender({ status }: Reply): boolean {
  return status === 401 || status === 403 || status === 426;
}
