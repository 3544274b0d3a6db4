import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocketServer } from 'ws';
import { AppError, errorHeaders, fullOf, toErrorBody } from '../../domain/errors';
import { newId } from '../../domain/ids';
import { toRefusal } from '../../runtime/conventions';
import type { Gateway } from '../call/call';
import type { ClientSide } from '../call/client-side';
import { shareOf } from '../config/shares';
import { ownerOf } from '../identity/identifier';
import { limitUnpriced } from '../stages/limit';
import { checkOrigin } from '../stages/origins';
import { arrivalOf } from '../stages/read';
import { protocolOf } from './frames';
import { SocketSession } from './session';

/** The open sockets of this gateway. */
export interface Sockets {
  /** With the key and the organization whose they are. */
  sessions: Map<SocketSession, SocketOwner>;
  /** Takes no further frame; each socket closes once its answers are complete. */
  drain(): void;
  /** Cuts what is still open after a while. */
  close(within_ms: number): Promise<void>;
}

interface SocketOwner {
  key: string;
  org_id: string;
}

const POLL_MS = 10;

function openSockets(): Sockets {
  const sessions: Sockets['sessions'] = new Map();
  return {
    sessions,
    drain() {
      for (const session of sessions.keys()) session.drain();
    },
    async close(within_ms) {
      const end_at = performance.now() + within_ms;
      while (sessions.size > 0 && performance.now() < end_at) await sleep(POLL_MS);
      for (const session of sessions.keys()) session.terminate();
      sessions.clear();
    },
  };
}

/** Answers the requests of a server that ask for a socket; gives the sockets that are open then. */
export function attachSockets(server: Server, gateway: Gateway): Sockets {
  const sockets = openSockets();
  // Later versions of Node ask this first.
  Object.assign(server, { shouldUpgradeCallback: asksForSocket });
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    if (!asksForSocket(request)) {
      serveAsHttp(server, { request, socket, head });
      return;
    }
    socket.on('error', () => socket.destroy());
    const headers: RefusalHeaders = {};
    upgrade(gateway, sockets, { request, socket, head, headers }).catch((error: unknown) =>
      refuse(gateway, { request, socket, headers }, error),
    );
  });
  return sockets;
}

/** Headers of a refusal. */
type RefusalHeaders = Record<string, string | string[]>;

function asksForSocket({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket';
}

interface Upgrade {
  request: IncomingMessage;
  socket: Duplex;
  head: Buffer;
  headers: RefusalHeaders;
}

async function upgrade(
  gateway: Gateway,
  sockets: Sockets,
  { request, socket, head, headers }: Upgrade,
): Promise<void> {
  const path = pathOf(request);
  const protocol = request.method === 'GET' ? protocolOf(path) : undefined;
  if (protocol === undefined) throw new AppError('not_found', `There is no socket at ${path}.`);
  const { settings, identifier } = gateway.snapshot;
  limitUnpriced({ req: request, set: setter(headers) }, gateway);
  checkOrigin(request.headers, settings.sockets);
  const identity = await identifier.confirm(request);
  const owner = { key: ownerOf(identity), org_id: identity.org_id };
  checkRoom(gateway, sockets, owner);
  const server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: settings.body_limit_bytes,
    clientTracking: false,
  });
  // A handshake that is not one is answered by the server itself.
  server.handleUpgrade(request, socket, head, (ws) => {
    const arrive = () => arrivalOf({ gateway, snapshot: gateway.snapshot, identity });
    const session = new SocketSession(ws, { gateway, request, protocol, arrive });
    sockets.sessions.set(session, owner);
    ws.once('close', () => sockets.sessions.delete(session));
    if (gateway.is_draining) session.drain();
  });
}

function checkRoom(
  { is_draining, snapshot }: Gateway,
  { sessions }: Sockets,
  { key, org_id }: SocketOwner,
): void {
  if (is_draining)
    throw new AppError('unavailable', 'This gateway stops. Connect again; another one answers.');
  const { sockets, identity } = snapshot.settings;
  const { connections_max, connections_per_key_max } = sockets;
  if (sessions.size >= connections_max) {
    throw new AppError(
      'overloaded',
      'This gateway has no room for another socket. Connect again shortly.',
    );
  }
  const owners = [...sessions.values()];
  const own = owners.filter((owner) => owner.key === key).length;
  if (own >= connections_per_key_max) throw full('key', own, connections_per_key_max);
  const of_org = owners.filter((owner) => owner.org_id === org_id).length;
  const places = { all: connections_max, held_by_others: sessions.size - of_org };
  const share = shareOf(places, sockets.connections_per_org_max, identity);
  if (of_org >= share) throw full('organization', of_org, share);
}

function full(whose: 'key' | 'organization', count: number, limit: number): AppError {
  return fullOf('sockets', whose, { count, limit, code: 'websocket_connection_limit_reached' });
}

/** A whole HTTP answer, as the handshake never came to be. */
function refuse(
  { log }: Gateway,
  { request, socket, headers }: Omit<Upgrade, 'head'>,
  error: unknown,
): void {
  const request_id = newId('req');
  const path = pathOf(request);
  const known = toRefusal({ state: { request_id }, path }, error, log);
  const { status, code } = known;
  log.info({ method: 'GET', path, status, code, request_id }, 'request');
  const body = JSON.stringify(toErrorBody(known, request_id));
  const all = {
    ...headers,
    ...errorHeaders(known),
    'x-request-id': request_id,
    'request-id': request_id,
    'x-svc-request-id': request_id,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`,
    () => socket.destroy(),
  );
}

function setter(headers: RefusalHeaders): ClientSide['set'] {
  return (name: string | RefusalHeaders, value: string | string[] = '') => {
    if (typeof name === 'string') headers[name] = value;
    else Object.assign(headers, name);
  };
}

function pathOf({ url = '/' }: IncomingMessage): string {
  return url.split('?')[0] ?? '/';
}

/**
 * An offer of another protocol, as some clients make with every request (h2c), may be ignored: the
 * request is put back without it and read as any other.
 */
function serveAsHttp(server: Server, { request, socket, head }: Omit<Upgrade, 'headers'>): void {
  const { method, url, httpVersion, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (!offers.has(name.toLowerCase())) lines.push(`${name}: ${rawHeaders[at + 1]}`);
  }
  // Header bytes are latin1 to Node, in both directions.
  const again = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
  socket.unshift(Buffer.concat([again, head]));
  server.emit('connection', socket);
}

const offers = new Set(['upgrade', 'connection', 'http2-settings']);
