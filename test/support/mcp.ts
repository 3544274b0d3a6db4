import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import {
  Client as NewClient,
  StreamableHTTPClientTransport as NewTransport,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { request } from 'undici';
import { listen } from '../../runtime/listen';

export interface TestServer {
  url: string;
  close(): Promise<void>;
}

export async function serveTest(server: Server): Promise<TestServer> {
  const url = `http://127.0.0.1:${await listen(server, 0)}/mcp`;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url, close };
}

/** A server of the older protocol, with sessions and streams of notices. */
export function createSessionServer(): Server {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  return createServer((req, res) => {
    void serveSession(sessions, req, res);
  });
}

async function serveSession(
  sessions: Map<string, StreamableHTTPServerTransport>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const id = req.headers['mcp-session-id'];
  if (typeof id === 'string') {
    const known = sessions.get(id);
    if (known === undefined) res.writeHead(404).end();
    else await known.handleRequest(req, res);
    return;
  }
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (made) => void sessions.set(made, transport),
    onsessionclosed: (made) => void sessions.delete(made),
  });
  const server = new McpServer(
    { name: 'sessions', version: '1.0.0' },
    { capabilities: { logging: {} } },
  );
  server.registerTool(
    'whoami',
    { description: 'Says which session this is.' },
    async ({ sessionId }) => {
      await server.server.sendLoggingMessage({ level: 'info', data: `hello ${sessionId}` });
      return { content: [{ type: 'text', text: String(sessionId) }] };
    },
  );
  // The two packages type an optional member differently.
  await server.connect(transport as never);
  await transport.handleRequest(req, res);
}

/** A server that answers as a test says. */
export function createRawServer(
  answer: (req: IncomingMessage, res: ServerResponse, body: string) => void,
): Server {
  return createServer((req, res) => {
    let body = '';
    req.on('data', (chunk) => {
      body += chunk;
    });
    req.on('end', () => answer(req, res, body));
  });
}

const me = { name: 'test', version: '1.0.0' };

/** The official client of the first line. */
export async function connectOld(url: string, headers: Record<string, string>) {
  const client = new Client(me);
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  await client.connect(transport as never);
  return { client, transport };
}

/**
 * The official client of the second line; `pin` is a protocol version, else it speaks the older
 * ones.
 */
export async function connectNew(url: string, headers: Record<string, string>, pin?: string) {
  const client = new NewClient(me, pin ? { versionNegotiation: { mode: { pin } } } : {});
  const transport = new NewTransport(new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  return { client, transport };
}

/**
 * One request by hand, as a client of the older protocol sends it, or with the headers that are
 * given.
 */
export async function postMcp(
  url: string,
  { key, headers, body }: { key: string; headers?: Record<string, string>; body: object | string },
) {
  const answer = await request(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${key}`,
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await answer.body.text();
  // Of a stream, its one event.
  const data = /^(?:event: message\n)?data: (.*)\n\n$/.exec(text)?.[1] ?? text;
  const is_json = data.startsWith('{') || data.startsWith('[');
  return { status: answer.statusCode, text, body: is_json ? JSON.parse(data) : undefined };
}
