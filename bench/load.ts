import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

interface LoadOptions {
  url: string;
  path: string;
  headers: Record<string, string>;
  body: string;
  in_flight: number;
  requests: number;
  /** No faster than this; without it as fast as they are answered. */
  per_second?: number | undefined;
}

/**
 * Sends so many POSTs with so many in flight; milliseconds it took. Throws on an answer that is not
 * 200.
 */
export async function sendMany({
  url,
  path,
  headers,
  body,
  in_flight,
  requests,
  per_second,
}: LoadOptions): Promise<number> {
  const pool = new Pool(url, { connections: in_flight, pipelining: 1 });
  let left = requests;
  const started = performance.now();
  const pace_ms = per_second === undefined ? 0 : (in_flight * 1_000) / per_second;
  const worker = async (at: number) => {
    let due = started + (pace_ms * at) / in_flight;
    while (left-- > 0) {
      if (due > performance.now()) await sleep(due - performance.now());
      due += pace_ms;
      const answer = await pool.request({
        path,
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body,
      });
      const text = await answer.body.text();
      if (answer.statusCode !== 200)
        throw new Error(`${url}${path} answered ${answer.statusCode}: ${text.slice(0, 300)}`);
    }
  };
  await Promise.all(Array.from({ length: in_flight }, (_, at) => worker(at)));
  const elapsed_ms = performance.now() - started;
  await pool.close();
  return elapsed_ms;
}

// Long enough that the work after a call's answer (the settlement) is over before the next one
// starts.
const PAUSE_MS = 10;

interface FirstByteOptions extends Omit<LoadOptions, 'in_flight' | 'per_second'> {
  pause_ms?: number;
}

/**
 * Milliseconds to the first byte of each of so many answers, one at a time with a pause between
 * them.
 */
export async function firstBytes(options: FirstByteOptions): Promise<number[]> {
  const { pause_ms = PAUSE_MS } = options;
  const pool = new Pool(options.url, { connections: 1 });
  const times: number[] = [];
  for (let n = 0; n < options.requests; n += 1) {
    const started = performance.now();
    const answer = await pool.request({
      path: options.path,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...options.headers },
      body: options.body,
    });
    for await (const _ of answer.body) {
      if (times.length === n) times.push(performance.now() - started);
    }
    if (pause_ms > 0) await sleep(pause_ms);
  }
  await pool.close();
  return times;
}

export function median(numbers: number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}

export const chatBody = JSON.stringify({
  model: 'gpt-4o-mini',
  messages: [
    { role: 'user', content: 'Some words about nothing in particular, to be counted. '.repeat(16) },
  ],
  max_tokens: 256,
});
export const streamBody = JSON.stringify({ ...JSON.parse(chatBody), stream: true });
/** Asks the bench's upstream for 20 chunks that come one by one. */
export const pacedStreamBody = JSON.stringify({ ...JSON.parse(streamBody), user: 'paced' });
