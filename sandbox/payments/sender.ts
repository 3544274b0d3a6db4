import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, Faults } from './faults';
import type { Store, StoredEvent } from './store';

/** The default pauses between the tries of one delivery. */
export const RETRY_MS: readonly number[] = [1_000, 2_000, 5_000, 10_000, 20_000, 30_000];

const TRIES_MAX = 25;
const ANSWER_MS = 10_000;
const REORDER_MS = 2_000;

type NewEvent = Pick<StoredEvent, 'id' | 'type' | 'order_id' | 'body'>;

interface Destination {
  /** Null: events are kept, and sent by nobody. */
  url: string | null;
  /** Between tries; the last one repeats. */
  retry_ms: readonly number[];
}

export type Sender = ReturnType<typeof openSender>;

/**
 * Posts signed events to the merchant, each until it is answered 2xx, with the misbehaviour that
 * was asked for.
 */
export function openSender(options: {
  store: Store;
  faults: Faults;
  target: Destination;
  /** The headers of one delivery of these bytes. */
  sign: (body: string) => Record<string, string> | Promise<Record<string, string>>;
}) {
  const { store, faults, target, sign } = options;
  const stopping = new AbortController();
  const waiting: (() => void)[] = [];

  async function post(event: StoredEvent): Promise<boolean> {
    event.tries += 1;
    const headers = await sign(event.body);
    event.last_answer = await deliver(target.url, event.body, headers, stopping.signal);
    const isDelivered = /^2\d\d$/.test(event.last_answer);
    if (isDelivered) event.delivered += 1;
    store.save('events', event);
    return isDelivered;
  }

  async function postUntilTaken(event: StoredEvent): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX && target.url !== null; tries += 1) {
      if (await post(event)) break;
      const delay_ms = target.retry_ms[Math.min(tries, target.retry_ms.length - 1)] ?? 1_000;
      await pause(delay_ms, stopping.signal);
      if (stopping.signal.aborted) return;
    }
    event.state = 'ended';
    store.save('events', event);
    waiting.shift()?.();
  }

  async function dispatch(event: StoredEvent, script?: Fault): Promise<void> {
    if (script?.delay_ms) await pause(script.delay_ms, stopping.signal);
    if (script?.reordered) await afterNext();
    if (stopping.signal.aborted) return;
    const copies = Array.from({ length: script?.duplicates ?? 0 }, () => post(event));
    await Promise.all([postUntilTaken(event), ...copies]);
  }

  function afterNext(): Promise<unknown> {
    const next = new Promise<void>((resolve) => waiting.push(resolve));
    return Promise.race([next, pause(REORDER_MS, stopping.signal)]);
  }

  return {
    target,
    send(given: NewEvent, reference: string | null): void {
      const subject = { id: given.order_id, reference, type: given.type };
      const script = faults.take('webhook', subject);
      const event = newEvent(given, Boolean(script?.blocked) || target.url === null);
      store.save('events', event);
      if (event.state === 'waiting') void dispatch(event, script);
    },
    resend(event: StoredEvent): void {
      event.state = 'waiting';
      void dispatch(event);
    },
    /** Goes on with the events that an earlier process has not delivered. */
    resume(): void {
      for (const event of store.events.values())
        if (event.state === 'waiting') void dispatch(event);
    },
    stop: () => stopping.abort(),
  };
}

function newEvent(given: NewEvent, is_ended: boolean): StoredEvent {
  return {
    ...given,
    created_at: new Date().toISOString(),
    tries: 0,
    delivered: 0,
    last_answer: null,
    state: is_ended ? 'ended' : 'waiting',
  };
}

/** The status of the answer, or the message of the error. */
async function deliver(
  url: string | null,
  body: string,
  headers: Record<string, string>,
  stopped: AbortSignal,
): Promise<string> {
  try {
    const response = await fetch(url ?? '', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      redirect: 'manual',
      signal: AbortSignal.any([stopped, AbortSignal.timeout(ANSWER_MS)]),
    });
    await response.arrayBuffer();
    return String(response.status);
  } catch (error) {
    return (error as Error).message;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
}
