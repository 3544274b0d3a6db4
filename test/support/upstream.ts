import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { listen } from '../../runtime/listen';

/** An upstream that plays back exactly these pieces of an answer, each in a write of its own. */
export interface Scripted {
  url: string;
  /** Sets the next answers. */
  play: (
    pieces: readonly (string | Buffer)[],
    type?: 'text/event-stream' | 'application/json',
    status?: number,
  ) => void;
  /** The bodies that arrived. */
  arrived: { path: string; body: Record<string, unknown>; text: string }[];
  close: () => Promise<void>;
}

export async function openScripted(): Promise<Scripted> {
  let script: { pieces: readonly (string | Buffer)[]; type: string; status: number } = {
    pieces: [],
    type: '',
    status: 200,
  };
  const arrived: Scripted['arrived'] = [];
  const server: Server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    arrived.push({ path: req.url ?? '', body: JSON.parse(text), text });
    res.writeHead(script.status, { 'content-type': script.type });
    res.flushHeaders();
    for (const piece of script.pieces) {
      if (!res.write(piece)) await once(res, 'drain');
      // Two turns, so that pieces arrive apart.
      await nextTurn();
      await nextTurn();
    }
    res.end();
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  return {
    url,
    arrived,
    play: (pieces, type = 'text/event-stream', status = 200) => {
      script = { pieces, type, status };
      arrived.length = 0;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
