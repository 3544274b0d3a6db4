import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expireAllDue } from './desk';
import { type Fault, retold } from './faults';
import { operate } from './operator';
import { showPage } from './pages';
import type { Replay } from './store';
import {
  type Arrival,
  type ProviderRequest,
  type ProviderResponse,
  Refused,
  type Wire,
  type WireRoute,
} from './wire';

const REQUESTS_KEPT = 500;
const BODY_MAX_BYTES = 1_000_000;
const EXPIRY_CHECK_MS = 1_000;

/**
 * The server of one wire: its routes, the hosted pages, and `/sandbox/...` for people and tests.
 */
export function createPaymentServer(wire: Wire): Server {
  const arrivals: Arrival[] = [];
  const server = createServer((req, res) => {
    void serve(wire, req, res, arrivals).catch(() => res.destroy());
  });
  server.keepAliveTimeout = 60_000;
  const expiring = setInterval(() => expireAllDue(wire.desk), EXPIRY_CHECK_MS).unref();
  server.on('close', () => {
    clearInterval(expiring);
    wire.sender.stop();
  });
  return server;
}

async function serve(wire: Wire, req: IncomingMessage, res: ServerResponse, arrivals: Arrival[]) {
  const url = new URL(req.url ?? '/', `http://${req.headers.host ?? '127.0.0.1'}`);
  const request: ProviderRequest = {
    method: req.method ?? 'GET',
    path: url.pathname,
    query: url.searchParams,
    params: [],
    headers: req.headers,
    body: await read(req),
    base_url: url.origin,
  };
  if (request.path.startsWith('/sandbox/')) return send(res, operate(wire, request, arrivals));
  record(request, url, res, arrivals);
  const page = showPage(wire, request);
  if (page) return send(res, page);
  const found = match(wire.routes, request);
  if (!found) return send(res, wire.unknown(request));
  const refusal = found.is_public ? undefined : wire.unauthorized(request);
  if (refusal) return send(res, refusal);
  const script = found.point && wire.desk.faults.take(found.point, found.subject?.(request) ?? {});
  const done = obey(wire, found, request, script);
  const answer =
    script && done.body !== undefined ? { ...done, body: retold(done.body, script) } : done;
  if (script?.delay_ms) await sleep(script.delay_ms, undefined, { ref: false });
  if (script?.answer === 'reset') return res.destroy();
  // The client waits until its own timeout.
  if (script?.answer === 'timeout') return;
  send(res, answer);
}

/**
 * Does the work unless a script says no, and gives the answer that is sent or kept for the next
 * try.
 */
function obey(
  wire: Wire,
  route: WireRoute,
  request: ProviderRequest,
  script?: Fault,
): ProviderResponse {
  const failure = script?.answer === 'error' ? wire.fault(script.status, script.issue) : undefined;
  const kept = keptAnswer(wire, request);
  if (kept) return failure ?? kept;
  // A provider that keeps its 500 keeps it for work that was never done, too.
  const done = script && !script.work ? undefined : attempt(route, request, script);
  const answer = failure && wire.isKept(failure.status) ? failure : (done ?? failure);
  if (answer) keep(wire, request, answer);
  return failure ?? done ?? wire.fault(500);
}

function attempt(route: WireRoute, request: ProviderRequest, script?: Fault): ProviderResponse {
  try {
    return route.work(request, script);
  } catch (error) {
    if (error instanceof Refused) return error.answer;
    throw error;
  }
}

function keptAnswer(wire: Wire, request: ProviderRequest): ProviderResponse | undefined {
  const replay = replayOf(wire, request);
  const kept = replay && wire.desk.store.replays.get(replay.id);
  if (kept === undefined) return undefined;
  if (wire.conflict && kept.fingerprint !== replay?.fingerprint) return wire.conflict;
  return wire.repeat(kept);
}

function keep(wire: Wire, request: ProviderRequest, { status, body }: ProviderResponse): void {
  const replay = replayOf(wire, request);
  if (replay && wire.isKept(status)) wire.desk.store.save('replays', { ...replay, status, body });
}

/**
 * A provider that refuses a key for another request knows it over all paths; the other one has keys
 * for each path.
 */
function replayOf(
  wire: Wire,
  request: ProviderRequest,
): Pick<Replay, 'id' | 'fingerprint'> | undefined {
  const key = request.method === 'POST' ? wire.key(request) : undefined;
  if (key === undefined) return undefined;
  const fingerprint = `${request.path} ${request.body.toString()}`;
  return { id: wire.conflict ? key : `${request.path} ${key}`, fingerprint };
}

function match(routes: readonly WireRoute[], request: ProviderRequest): WireRoute | undefined {
  for (const route of routes) {
    const found = route.method === request.method ? route.path.exec(request.path) : null;
    if (!found) continue;
    request.params = found.slice(1).map(decodeURIComponent);
    return route;
  }
  return undefined;
}

function send(res: ServerResponse, { status, body, headers }: ProviderResponse): void {
  const is_page = typeof body === 'string';
  res.writeHead(status, {
    'content-type': is_page ? 'text/html; charset=utf-8' : 'application/json',
    'cache-control': 'no-store',
    ...headers,
  });
  res.end(body === undefined || is_page ? body : JSON.stringify(body));
}

function record(
  request: ProviderRequest,
  url: URL,
  res: ServerResponse,
  arrivals: Arrival[],
): void {
  const arrival: Arrival = {
    at: new Date().toISOString(),
    method: request.method,
    path: `${url.pathname}${url.search}`,
    headers: request.headers,
    body: request.body.toString(),
    status: null,
  };
  res.once('finish', () => {
    arrival.status = res.statusCode;
  });
  arrivals.push(arrival);
  if (arrivals.length > REQUESTS_KEPT) arrivals.shift();
}

async function read(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of req) {
    bytes += (chunk as Buffer).length;
    if (bytes > BODY_MAX_BYTES) throw new Error('the body is too large');
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}
