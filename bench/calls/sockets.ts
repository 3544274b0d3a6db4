import WebSocket from 'ws';
import type { BenchCluster } from '../cluster';
import { cpuMs } from '../cpu';
import { sendMany, streamBody } from '../load';
import type { Row } from '../row';
import { type Stack, startStack } from '../stack';

const STREAMS = 3_000;
const WARM_UP = 2_000;
const ROUNDS = 2;
const SOCKETS = 32;

/**
 * Socket relay: CPU of the gateway for one priced stream of 32 events asked over a socket, against
 * the same over HTTP.
 */
export async function socketRow(cluster: BenchCluster): Promise<Row> {
  const stack = await startStack(cluster);
  try {
    await round(stack, WARM_UP);
    const spent = { socket: 0, http: 0 };
    for (let n = 0; n < ROUNDS; n += 1) {
      const { socket, http } = await round(stack, STREAMS);
      spent.socket += socket / ROUNDS;
      spent.http += http / ROUNDS;
    }
    const ratio = spent.socket / spent.http;
    return {
      measure: 'socket relay: gateway CPU per priced stream of 30 chunks, 32 sockets',
      figure: `${spent.socket.toFixed(3)} ms against ${spent.http.toFixed(3)} ms over HTTP`,
      ratio,
      bar: 'at most 1.5 x',
      isMet: ratio <= 1.5,
    };
  } finally {
    await stack.stop();
  }
}

async function round(stack: Stack, streams: number) {
  const { pid, url } = stack.gateway;
  const spent = async (load: () => Promise<unknown>): Promise<number> => {
    const before = cpuMs([pid]);
    await load();
    return (cpuMs([pid]) - before) / streams;
  };
  const headers = { authorization: `Bearer ${stack.gateway_key}` };
  const path = '/v1/chat/completions';
  return {
    http: await spent(() =>
      sendMany({
        url,
        path,
        headers,
        body: streamBody,
        requests: streams,
        in_flight: SOCKETS,
      }),
    ),
    socket: await spent(() => askOverSockets(`${url}${path}/ws`, headers, streams)),
  };
}

const { stream: _, ...asked } = JSON.parse(streamBody) as Record<string, unknown>;
const frame = JSON.stringify({ type: 'chat.completion.create', ...asked });

/** So many streams over sockets that each ask for the next when one has ended. */
async function askOverSockets(
  url: string,
  headers: Record<string, string>,
  streams: number,
): Promise<void> {
  let left = streams;
  const run = () =>
    new Promise<void>((resolve, reject) => {
      const ws = new WebSocket(url.replace(/^http/, 'ws'), { headers, perMessageDeflate: false });
      const next = () => {
        left -= 1;
        if (left >= 0) ws.send(frame);
        else ws.close();
      };
      ws.on('open', next);
      ws.on('error', reject);
      ws.on('close', () => resolve());
      ws.on('message', (data) => {
        const text = data.toString();
        if (text.includes('"chat.completion.done"')) next();
        else if (text.startsWith('{"type":"error"')) reject(new Error(text));
      });
    });
  await Promise.all(Array.from({ length: SOCKETS }, run));
}
