import { type Dispatcher, Pool } from 'undici';
import type { BatchItem } from '../../domain/ledger/calls';
import { Flight, type Item } from './batch';
import { type Clock, openClock } from './clock';
import { type NoReply, parseReply, type Reply } from './replies';

type Op = BatchItem['op'];

export interface Flights {
  submit(op: Op, body: object, timeout_ms: number): Promise<Reply | NoReply>;
  /** One call of its own, for what is not coalesced; undefined where no address answers, or the call was given up. */
  request(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    patience?: Patience,
  ): Promise<Reply | undefined>;
  /** What the control plane's clock says; this machine's, until the first answer. */
  now(): number;
  close(): Promise<void>;
}

/** How long an answer may take, who may give the call up before, and what it says. */
export interface Patience {
  timeout_ms?: number;
  signal?: AbortSignal;
  /** Beside the gateway's own, or in their place. */
  headers?: Readonly<Record<string, string>>;
}

export interface Address {
  urls: readonly string[];
  headers: Readonly<Record<string, string>>;
}

// A batch leaves when none younger than this is out. One at a time makes the largest batches, and each saves system calls on
// both sides: measured against four, a priced request costs all processes a quarter less CPU. One that takes longer keeps
// nobody waiting, so that a slow organization delays no other.
const YOUNG_MS = 25;
// Settlements that travel with reserves cost the ledger no call of their own; most of a call's price does not depend on how
// many items it has.
const SETTLE_LINGER_MS = 5;
const FLIGHTS_OPEN_MAX = 32;
const ITEMS_MAX = 64;
// Half of what the control plane takes.
const BYTES_MAX = 524_288;
const FLIGHT_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 2_000;
const RESEND_MS = 100;

/** Opens the connections over which reserves and settlements travel together. */
export function openFlights(address: Address): Flights {
  return new FlightControl(address);
}

class FlightControl implements Flights {
  private readonly pools: Pool[];
  private readonly paths: string[];
  private readonly headers: Record<string, string>;
  private readonly clock: Clock = openClock();
  // One address is used until it fails; then the next one is.
  private current = 0;
  private queue: Item[] = [];
  private young = 0;
  private open = 0;
  private last_id = 0;
  private is_resting = false;
  private is_launch_due = false;
  private lingering: NodeJS.Timeout | undefined;

  constructor({ urls, headers }: Address) {
    const parsed = urls.map((url) => new URL(url));
    this.pools = parsed.map(
      ({ origin }) => new Pool(origin, { connect: { timeout: REQUEST_TIMEOUT_MS } }),
    );
    this.paths = parsed.map(({ pathname }) => pathname.replace(/\/+$/, ''));
    this.headers = { ...headers, 'content-type': 'application/json' };
  }

  submit(op: Op, body: object, timeout_ms: number): Promise<Reply | NoReply> {
    this.last_id += 1;
    const id = this.last_id.toString(36);
    const text = `{"id":"${id}","op":"${op}","body":${JSON.stringify(body)}}`;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        item.is_live = false;
        // The address may hang; what is tried next goes elsewhere. Of all that hang on it, only the first turns away.
        if (item.at !== undefined) this.turnFrom(item.at);
        resolve({ status: 0, was_sent: item.was_sent });
      }, timeout_ms);
      const answer = (reply: Reply): void => {
        clearTimeout(timer);
        item.is_live = false;
        resolve(reply);
      };
      const is_patient = op === 'settle';
      const flags = { is_patient, is_live: true, was_sent: false };
      const item: Item = { id, text, ...flags, at: undefined, answer };
      this.queue.push(item);
      if (is_patient) this.launchLater();
      else this.launchSoon();
    });
  }

  async request(
    method: 'GET' | 'POST',
    path: string,
    body?: object,
    patience: Patience = {},
  ): Promise<Reply | undefined> {
    for (let tries = 0; tries < this.pools.length + 1; tries += 1) {
      const at = this.current;
      const asked = { method, path: `${this.paths[at]}${path}`, body };
      const reply = await this.ask(at, asked, patience).catch(() => undefined);
      if (patience.signal?.aborted) return undefined;
      if (reply !== undefined && reply.status < 500) return reply;
      this.turnFrom(at);
    }
    return undefined;
  }

  now(): number {
    return this.clock.now();
  }

  async close(): Promise<void> {
    await Promise.all(this.pools.map((pool) => pool.destroy()));
  }

  private async ask(
    at: number,
    { method, path, body }: { method: 'GET' | 'POST'; path: string; body: object | undefined },
    { timeout_ms = REQUEST_TIMEOUT_MS, signal, headers }: Patience,
  ): Promise<Reply> {
    const answer = await this.poolAt(at).request({
      ...{ method, path, headers: headers ? { ...this.headers, ...headers } : this.headers },
      body: body === undefined ? null : JSON.stringify(body),
      ...{ headersTimeout: timeout_ms, bodyTimeout: timeout_ms },
      ...(signal ? { signal } : {}),
    });
    this.clock.hear(answer.headers.date);
    const text = await answer.body.text();
    return { status: answer.statusCode, body: parseReply(text) ?? {} };
  }

  /** All that arrived in one turn of the event loop leaves together. */
  private launchSoon(): void {
    if (this.is_launch_due) return;
    this.is_launch_due = true;
    setImmediate(() => {
      this.is_launch_due = false;
      this.launch();
    });
  }

  private launchLater(): void {
    this.lingering ??= setTimeout(() => this.launchSoon(), SETTLE_LINGER_MS);
  }

  private launch(): void {
    clearTimeout(this.lingering);
    this.lingering = undefined;
    if (this.is_resting || this.young > 0 || this.open >= FLIGHTS_OPEN_MAX) return;
    const items = this.take();
    if (items.length > 0) this.fly(items);
  }

  /** The next batch of who still waits: at most 64 items, and no more text than the control plane reads in one body. */
  private take(): Item[] {
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

  private fly(items: Item[]): void {
    const at = this.current;
    for (const item of items) item.at = at;
    const flight = new Flight(items, this.clock, (refusal) => this.landed(flight, at, refusal));
    this.open += 1;
    this.young += 1;
    flight.ageing = setTimeout(() => {
      this.grewOld(flight);
      this.launch();
    }, YOUNG_MS);
    const options: Dispatcher.DispatchOptions = {
      method: 'POST',
      path: `${this.paths[at]}/v1/gateway/wallets/batch`,
      headers: this.headers,
      body: `{"items":[${items.map(({ text }) => text).join(',')}]}`,
      headersTimeout: FLIGHT_TIMEOUT_MS,
      bodyTimeout: FLIGHT_TIMEOUT_MS,
    };
    this.poolAt(at).dispatch(options, flight);
  }

  private grewOld(flight: Flight): void {
    if (!flight.is_young) return;
    flight.is_young = false;
    this.young -= 1;
  }

  /** A flight has ended. Items without a line go again with their ids, after a rest, to the next address. */
  private landed(flight: Flight, at: number, refusal: Reply | undefined): void {
    clearTimeout(flight.ageing);
    this.grewOld(flight);
    this.open -= 1;
    const left = flight.unanswered();
    if (refusal !== undefined && (left.length === 1 || isOfTheCaller(refusal))) {
      for (const item of left) item.answer(refusal);
    } else if (refusal !== undefined) {
      // One item spoils the batch: each goes alone, so that no other is refused for it.
      for (const item of left) this.fly([item]);
    } else if (left.length > 0) {
      this.queue.unshift(...left);
      this.turnFrom(at);
      this.rest();
    }
    // What is left of settlements alone goes on waiting for a reserve.
    if (this.queue.some(({ is_patient }) => !is_patient)) this.launch();
    else if (this.queue.length > 0) this.launchLater();
  }

  private rest(): void {
    if (this.is_resting) return;
    this.is_resting = true;
    setTimeout(() => {
      this.is_resting = false;
      this.launch();
    }, RESEND_MS);
  }

  private turnFrom(at: number): void {
    if (at === this.current) this.current = (this.current + 1) % this.pools.length;
  }

  private poolAt(at: number): Pool {
    return this.pools[at] as Pool;
  }
}

/** True where the whole call was refused for who sends it: its credential, its scope or its version. */
function isOfTheCaller({ status }: Reply): boolean {
  return status === 401 || status === 403 || status === 426;
}
