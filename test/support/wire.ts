import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * The treatment of bytes by a wire between two processes: `pass`; `swallow` drops answers; `late`
 * keeps requests back until they are released; `cut` breaks connections and takes none.
 */
type WireMode = 'pass' | 'swallow' | 'late' | 'cut';

export interface Wire {
  url: string;
  set: (mode: WireMode) => void;
  /** Chunks that the wire kept back or dropped. */
  lost: () => number;
  /** Chunks of answers that came from the server, delivered or not. */
  answered: () => number;
  /** Delivers the chunks that were kept back. */
  release: () => void;
  close: () => Promise<void>;
}

/** A TCP proxy on a free port before a server. */
export async function openWire(target_url: string): Promise<Wire> {
  const target = Number(new URL(target_url).port);
  const sockets = new Set<Socket>();
  const kept: (() => void)[] = [];
  let mode: WireMode = 'pass';
  let lost = 0;
  let answered = 0;
  const server = createServer((near) => {
    if (mode === 'cut') {
      near.resetAndDestroy();
      return;
    }
    const far = connect(target, '127.0.0.1');
    near.on('data', (chunk) => {
      if (mode !== 'late') {
        far.write(chunk);
        return;
      }
      lost += 1;
      kept.push(() => far.write(chunk));
    });
    far.on('data', (chunk) => {
      answered += 1;
      if (mode === 'swallow') lost += 1;
      else near.write(chunk);
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        // Chunks that were kept back still arrive if their sender has given up.
        if (one === far || mode !== 'late') other.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    set(next) {
      mode = next;
      if (mode === 'cut') for (const socket of sockets) socket.resetAndDestroy();
    },
    lost: () => lost,
    answered: () => answered,
    release: () => {
      for (const deliver of kept.splice(0)) deliver();
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
