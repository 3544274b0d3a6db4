import { isAttended } from '../base/attended';
import { noteServerTime } from '../base/clock';
import { plainWords } from '../base/plain';
import type { Api } from '../generated/api';

/** A route of the console's server: `GET /api/wallets`. */
export type Route = keyof Api;
export type Answer<R extends Route> = Api[R]['answer'];
export type Query<R extends Route> = Api[R]['query'];
export type Body<R extends Route> = Api[R]['body'];

/** What a call is given; names of the path, the query, the body. */
export interface Given<R extends Route> {
  names?: Api[R]['names'];
  query?: Query<R>;
  body?: Body<R>;
  /** The same for every try of one intent: it makes a repeat harmless. */
  idempotency_key?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** A refusal of the server, with words for people; status 0: it could not be reached. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly param: string | null;
  readonly request_id: string | null;
  readonly retry_after_s: number | null;
  /** It is what an earlier try under the same Idempotency-Key was refused with. */
  readonly is_replayed: boolean;
  readonly details: Record<string, unknown>;

  constructor(status: number, said: Record<string, unknown>, headers?: Headers) {
    const error = (said.error ?? {}) as { code?: string; message?: string; param?: string | null };
    super(plainWords(error.message ?? `The server answered ${status}.`));
    this.name = 'Refusal';
    this.status = status;
    this.code = error.code ?? 'unreachable';
    this.param = error.param ?? null;
    this.request_id = typeof said.request_id === 'string' ? said.request_id : null;
    const after = Number(headers?.get('retry-after'));
    this.retry_after_s = Number.isFinite(after) && after > 0 ? after : null;
    this.is_replayed = headers?.get('idempotent-replayed') === 'true';
    this.details = error as Record<string, unknown>;
  }
}

/** True if the console and the API behind it do not go together: no page can be shown. */
export function isUnfit(error: unknown): error is Refusal {
  return error instanceof Refusal && error.status === 426;
}

/** Calls a route of the table. Throws a Refusal. */
export function call<R extends Route>(route: R, given: Given<R> = {}): Promise<Answer<R>> {
  const [method = 'GET', path = '/'] = route.split(' ');
  const names = (given.names ?? {}) as Record<string, string>;
  const filled = path.replace(/:(\w+)/g, (_, name: string) =>
    encodeURIComponent(names[name] ?? ''),
  );
  const query = queryText((given.query ?? {}) as Record<string, unknown>);
  return send(method, `${filled}${query}`, given) as Promise<Answer<R>>;
}

/** Whom a tab shows, and which organization; an empty text is an operator, and none chosen. */
export interface Shown {
  user_id: string;
  org_id: string;
}

/** What this tab shows. The server does nothing for it in another's name or organization. */
let shown: Shown | undefined;

/** What this tab shows since it was begun: that which is signed in now, if it shows nothing yet. */
export function shownSince(now: Shown): Shown {
  shown ??= now;
  return shown;
}

/** From now on the tab shows another organization, or whoever signs in: undefined. */
export function showNext(org_id: string | undefined): void {
  shown = shown && org_id !== undefined ? { ...shown, org_id } : undefined;
}

/** The headers of every request: of the console's own page, what it shows, and to nobody if so. */
export function ownHeaders(): Record<string, string> {
  return {
    'x-svc-console': '1',
    ...(isAttended() ? {} : { 'x-svc-unattended': '1' }),
    ...(shown && { 'x-svc-console-user': shown.user_id, 'x-svc-console-org': shown.org_id }),
  };
}

/** How a request is made. */
interface Sent {
  body?: unknown;
  idempotency_key?: string | undefined;
  signal?: AbortSignal | undefined;
}

/** Calls a route that is the server's own and not forwarded. Throws a Refusal. */
export async function send(method: string, path: string, sent: Sent = {}): Promise<unknown> {
  const answer = await answerOf(method, path, sent);
  return (await answer.json().catch(() => ({}))) as Record<string, unknown>;
}

/** A file of the server, by its name there. */
interface ServerFile {
  name: string;
  data: Blob;
  /** It leaves out what cost least. */
  is_truncated: boolean;
}

/** A file of the server, read whole. Throws a Refusal. */
export async function fileOf(path: string): Promise<ServerFile> {
  const answer = await answerOf('GET', path, {});
  const named = /filename="([^"]+)"/.exec(answer.headers.get('content-disposition') ?? '');
  const data = await answer.blob().catch(() => {
    throw unreachable();
  });
  const is_truncated = answer.headers.get('x-svc-truncated') === 'true';
  return { name: named?.[1] ?? 'file', data, is_truncated };
}

async function answerOf(
  method: string,
  path: string,
  { body, idempotency_key, signal }: Sent,
): Promise<Response> {
  const answer = await fetch(path, {
    method,
    headers: {
      ...ownHeaders(),
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(idempotency_key === undefined ? {} : { 'idempotency-key': idempotency_key }),
    },
    body: body === undefined ? null : JSON.stringify(body),
    signal: signal ?? null,
    credentials: 'same-origin',
  }).catch((error: Error) => {
    if (error.name === 'AbortError') throw error;
    throw unreachable();
  });
  noteServerTime(answer.headers.get('date'));
  if (answer.ok) return answer;
  const said = (await answer.json().catch(() => ({}))) as Record<string, unknown>;
  throw told(new Refusal(answer.status, said, answer.headers), path);
}

function unreachable(): Refusal {
  return new Refusal(0, {
    error: { message: 'The console cannot be reached. Check the connection and try again.' },
  });
}

type Listener = (refusal: Refusal, path: string) => void;
const listeners = new Set<Listener>();

/** Tells all who listen of a refusal; the same, to be thrown. */
export function told(refusal: Refusal, path: string): Refusal {
  for (const listener of listeners) listener(refusal, path);
  return refusal;
}

/** Hears of every refusal, also of those that a screen shows; returns how to stop. */
export function onRefusal(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** `?a=1&b=2`, without what is absent or empty. */
export function queryText(query: Record<string, unknown>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(
    given.map(([name, value]): [string, string] => [name, String(value)]),
  ).toString();
  return text === '' ? '' : `?${text}`;
}
