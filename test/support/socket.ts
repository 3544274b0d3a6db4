import WebSocket from 'ws';
import { until } from './until';

// biome-ignore lint/suspicious/noExplicitAny: frames of every family.
export type Frame = Record<string, any>;

/** A socket of a test, with all frames that came. */
export interface Client {
  ws: WebSocket;
  frames: Frame[];
  send(frame: object | string): void;
  /** The frames of a lane up to the one of this type, and takes them away. */
  answer(last: string, stream_id?: string): Promise<Frame[]>;
  /** Waits for a frame. */
  some(wanted: (frame: Frame) => unknown): Promise<void>;
  /** The close of the socket. */
  closed: Promise<{ code: number; reason: string }>;
}

export function connect(url: string, headers: Record<string, string>): Promise<Client> {
  const ws = new WebSocket(url.replace(/^http/, 'ws'), { headers, perMessageDeflate: false });
  const frames: Frame[] = [];
  ws.on('message', (data) => frames.push(JSON.parse(data.toString())));
  const closed = new Promise<{ code: number; reason: string }>((resolve) =>
    ws.on('close', (code, reason) => resolve({ code, reason: reason.toString() })),
  );
  const client: Client = {
    ws,
    frames,
    closed,
    send: (frame) => ws.send(typeof frame === 'string' ? frame : JSON.stringify(frame)),
    some: (wanted) => until(() => frames.some((frame) => Boolean(wanted(frame)))),
    async answer(last, stream_id) {
      const isOf = (frame: Frame) => stream_id === undefined || frame.stream_id === stream_id;
      const isLast = (frame: Frame) => isOf(frame) && frame.type === last;
      await until(async () => frames.some(isLast));
      const taken = frames.slice(0, frames.findIndex(isLast) + 1).filter(isOf);
      for (const frame of taken) frames.splice(frames.indexOf(frame), 1);
      return taken;
    },
  };
  return new Promise((resolve, reject) => {
    ws.once('open', () => resolve(client));
    ws.once('error', reject);
  });
}

/** The HTTP answer of an upgrade that is refused. */
export function refusedUpgrade(url: string, headers: Record<string, string>) {
  const ws = new WebSocket(url.replace(/^http/, 'ws'), { headers });
  ws.on('error', () => {});
  return new Promise<{ status: number; headers: Frame; body: Frame }>((resolve, reject) => {
    ws.once('open', () => {
      ws.terminate();
      reject(new Error('The upgrade was not refused.'));
    });
    ws.once('unexpected-response', (_request, answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () =>
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          body: JSON.parse(Buffer.concat(chunks).toString()),
        }),
      );
    });
  });
}
