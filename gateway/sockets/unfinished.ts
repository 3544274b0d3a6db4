import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { WebSocket } from 'ws';
import type { Arrival } from '../wire/read';
import { MessageReader } from './message-reader';

interface Watched {
  ws: WebSocket;
  /** What the frames of it are read from. */
  socket: Socket;
  arrival: Arrival;
}

interface Heard {
  /** There is no room for more of it. */
  onFull(): void;
  /** It does not come in the time that a body has. */
  onSlow(): void;
}

/**
 * Counts the bytes of a message that has begun to arrive and is not whole, in whatever frames and
 * pieces it comes, and gives it the times of a body: so long without a byte, and so long in all.
 * A look that finds the socket not read starts anew; shorter pauses count.
 */
export function watchUnfinished({ ws, socket, arrival }: Watched, { onFull, onSlow }: Heard): void {
  const reader = new MessageReader();
  let counted = 0;
  let messages = 0;
  let ends_at = 0;
  let timer: NodeJS.Timeout | undefined;

  const rest = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  const forget = (): void => {
    rest();
    arrival.end();
    counted = 0;
  };
  const late = async (): Promise<void> => {
    const before = reader.bytes;
    const own = timer;
    // What has come while this process was busy counts.
    await nextTurn();
    if (own === undefined || timer !== own) return;
    if (!ws.isPaused && reader.bytes === before) {
      rest();
      onSlow();
      return;
    }
    if (ws.isPaused) ends_at += arrival.idle_ms;
    own.refresh();
  };
  /** The times of a message that goes on, from its first byte. */
  const wait = (has_come: boolean): void => {
    if (timer === undefined) {
      ends_at = performance.now() + arrival.whole_ms;
      timer = setTimeout(() => void late(), arrival.idle_ms).unref();
    } else if (performance.now() > ends_at) {
      rest();
      onSlow();
    } else if (has_come) timer.refresh();
  };

  ws.on('close', forget);
  // This comes behind the reader's own listener, which has told of the frames in these bytes.
  socket.on('data', (chunk: Buffer) => {
    reader.read(chunk);
    if (reader.messages > messages) {
      messages = reader.messages;
      forget();
    }
    const more = reader.bytes - counted;
    if (reader.is_whole) return rest();
    try {
      if (more > 0) arrival.take(more);
      counted = reader.bytes;
    } catch {
      rest();
      onFull();
      return;
    }
    wait(more > 0);
  });
}
