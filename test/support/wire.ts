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
  /**
   * From now on keeps back, until it is released, what the server answers on a connection behind
   * the chunk with these words; all of it if they are empty. Without words no other connection is
   * kept.
   */
  keepAfter: (words?: string) => void;
  /** Chunks that the wire kept back or dropped. */
  lost: () => number;
  /** Chunks of answers that came from the server, delivered or not. */
  answered: () => number;
  /** Delivers the chunks that were kept back, and keeps no more answers. */
  release: () => void;
  close: () => Promise<void>;
}

/** A TCP proxy on a free port before a server. */
export async function openWire(target_url: string): Promise<Wire> {
  const target = Number(new URL(target_url).port);
  const sockets = new Set<Socket>();
  const kept: (() => void)[] = [];
  let mode: WireMode = 'pass';
  let last_words: string | undefined;
  const keeping = new Set<Socket>();
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
      else {
        if (last_words === '') keeping.add(far);
        if (keeping.has(far)) kept.push(() => near.write(chunk));
        else near.write(chunk);
        if (last_words !== undefined && chunk.includes(last_words)) keeping.add(far);
      }
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
    keepAfter(words) {
      last_words = words;
    },
    lost: () => lost,
    answered: () => answered,
    release: () => {
      last_words = undefined;
      keeping.clear();
      for (const deliver of kept.splice(0)) deliver();
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
