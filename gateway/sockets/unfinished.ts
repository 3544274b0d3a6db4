import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import type { Arrival } from '../wire/read';

// A ping or pong of a client has a short length and a mask before its data.
const CONTROL_HEAD_BYTES = 6;

interface Watched {
  ws: WebSocket;
  /** What the frames of it are read from. */
  socket: Socket;
  arrival: Arrival;
}

/**
 * Counts the bytes of a frame that has begun to arrive and is not whole, in whatever pieces it
 * comes. Bytes that come in one read with the end of another frame are not counted: a socket that
 * waits for its answer has none. `onFull` hears that there is no room for more.
 */
export function watchUnfinished({ ws, socket, arrival }: Watched, onFull: () => void): void {
  let unfinished = 0;
  let counted = 0;
  let is_whole = false;
  const control = (data: Buffer): void => {
    unfinished -= CONTROL_HEAD_BYTES + data.length;
  };
  const forget = (): void => {
    arrival.end();
    counted = 0;
    is_whole = true;
  };
  ws.on('ping', control).on('pong', control).on('message', forget).on('close', forget);
  // This comes behind the reader's own listener, which has told of the frames in these bytes.
  socket.on('data', (chunk: Buffer) => {
    unfinished = is_whole ? 0 : Math.max(0, unfinished + chunk.length);
    is_whole = false;
    if (unfinished <= counted) return;
    try {
      arrival.take(unfinished - counted);
      counted = unfinished;
    } catch {
      onFull();
    }
  });
}
