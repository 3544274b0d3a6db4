import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { objectIn } from '../../gateway/wire/values';
import { listen } from '../../runtime/listen';

/** An upstream that plays back exactly these pieces of an answer, each in a write of its own. */
export interface Scripted {
  url: string;
  /** Sets the next answers. */
  play: (
    pieces: readonly (string | Buffer)[],
    type?: string,
    status?: number,
    headers?: Record<string, string>,
  ) => void;
  /** What arrived. */
  arrived: {
    path: string;
    headers: IncomingHttpHeaders;
    body: Record<string, unknown>;
    text: string;
  }[];
  close: () => Promise<void>;
}

export async function openScripted(): Promise<Scripted> {
  const script = {
    pieces: [] as readonly (string | Buffer)[],
    type: '',
    status: 200,
    headers: {} as Record<string, string>,
  };
  const arrived: Scripted['arrived'] = [];
  const server: Server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    arrived.push({ path: req.url ?? '', headers: req.headers, body: objectIn(text) ?? {}, text });
    const { type, headers } = script;
    res.writeHead(script.status, type === '' ? headers : { 'content-type': type, ...headers });
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
    play: (pieces, type = 'text/event-stream', status = 200, headers = {}) => {
      Object.assign(script, { pieces, type, status, headers });
      arrived.length = 0;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
