import { Readable } from 'node:stream';
import type { Context } from 'koa';
import getRawBody from 'raw-body';
import { AppError } from '../../domain/errors';
import { readObject as read } from '../../domain/json';
import { addressOf } from '../../runtime/client-address';
import { jsonText } from '../../runtime/conventions';
import type { Networks } from '../../runtime/networks';
import type { Answer, ApiClient } from './api-client';
import type { Row } from './rows/row';
import { type Cookies, type Session, signedOut } from './session';

/** The API's own bound of what people send is smaller but for whole configurations. */
const BODY_MAX_BYTES = 1_048_576;
const MEMBERS_MAX = 100_000;
const BODY_MS = 10_000;
const tooSlow = `The body did not arrive within ${BODY_MS / 1_000} s. Send it again.`;

// What passes in each direction; nothing else does.
const sent = [
  'accept',
  'idempotency-key',
  'last-event-id',
  'traceparent',
  'range',
  'if-none-match',
  'x-svc-unattended',
];
const answered = [
  'content-type',
  'content-disposition',
  'content-range',
  'accept-ranges',
  'etag',
  'idempotent-replayed',
  'retry-after',
  'x-should-retry',
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'x-svc-api-version',
  'x-svc-truncated',
];

export interface Forwarding {
  api: ApiClient;
  cookies: Cookies;
  /** Networks of the proxies before the console: TRUSTED_PROXIES. */
  trusted: Networks;
}

/** Asks the API what a row stands for, in the name of the session, and passes on its answer. */
export async function forward(
  row: Row,
  ctx: Context,
  { api, cookies, trusted }: Forwarding,
): Promise<void> {
  // Before anything else: whoever is signed out learns of it too, instead of a sign-in that fails.
  await api.requireFit();
  const session = await cookies.read(ctx);
  // A cookie that this one cannot open may be of a key that the next instance knows already.
  if (session === undefined) throw signedOut();
  // Who is signed in is what a page asks to learn that it shows somebody else.
  if (row.path !== '/api/me') requireShown(ctx, session);
  const body = row.method === 'get' ? undefined : await readObject(ctx);
  const gone = goneOf(ctx);
  const answer = await api.send({
    method: row.method.toUpperCase(),
    path: `${pathOf(row, ctx)}${queryOf(row, ctx, session)}`,
    headers: {
      ...headersOf(ctx, trusted),
      authorization: `Bearer ${session.key}`,
      ...(row.accept ? { accept: row.accept } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    body: body && JSON.stringify({ ...body, ...changesOf(row, body, session) }),
    is_stream: row.answers !== 'json',
    signal: gone,
  });
  // After a 401 the cookie stays: it is dead, and the browser may have another one by now, which a
  // late answer would take out.
  pass(ctx, row, answer);
}

/** Aborts when the browser goes. */
export function goneOf(ctx: Context): AbortSignal {
  const gone = new AbortController();
  ctx.res.once('close', () => {
    if (!ctx.res.writableFinished) gone.abort();
  });
  return gone.signal;
}

/** The headers with which the API hears who asks, and from where. */
export function headersOf(ctx: Context, trusted: Networks): Record<string, string> {
  const headers: Record<string, string> = {
    'x-request-id': ctx.state.request_id,
    'x-forwarded-for': addressOf(ctx.req, { header: 'x-forwarded-for', trusted }),
  };
  for (const name of sent) {
    const value = ctx.get(name);
    if (value !== '') headers[name] = value;
  }
  return headers;
}

function pathOf({ to }: Row, ctx: Context): string {
  return to.replace(/:(\w+)/g, (_, name: string) => {
    const id: string = ctx.params[name] ?? '';
    // A step up, which a proxy on the way may take: it would lead to a route without a row.
    if (id === '.' || id === '..')
      throw new AppError('not_found', `Nothing has the id ${id}.`, { param: name });
    return encodeURIComponent(id);
  });
}

/**
 * Throws 403 if the page shows another person or organization than the session is of: it was
 * changed in another tab, and what is asked here would be read and done there. A page says what it
 * shows with each request; who says nothing shows nothing.
 */
export function requireShown(ctx: Context, session: Session): void {
  const { user_id, own_org_id } = session;
  const org_id = user_id === null ? (session.org_id ?? '') : own_org_id;
  const shown_user = ctx.headers['x-svc-console-user'];
  const shown_org = ctx.headers['x-svc-console-org'];
  const is_other_user = shown_user !== undefined && shown_user !== (user_id ?? '');
  const is_other_org =
    shown_org !== undefined && typeof org_id === 'string' && shown_org !== org_id;
  if (!is_other_user && !is_other_org) return;
  throw new AppError(
    'browser_not_allowed',
    'You have signed in elsewhere, or chosen another organization in another tab. Nothing was done: reload this page.',
  );
}

function queryOf({ method, has_org, forced }: Row, ctx: Context, { org_id }: Session): string {
  // What changes something is said in the body, where the server's own members stand.
  if (method !== 'get' && method !== 'delete') return '';
  const query = new URLSearchParams(ctx.querystring);
  const is_asked = method === 'get' || method === 'delete';
  if (is_asked && has_org && org_id !== null && !query.has('org_id')) query.set('org_id', org_id);
  if (method === 'get')
    for (const [name, value] of Object.entries(forced)) {
      if (value === null) query.delete(name);
      else query.set(name, String(value));
    }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** What the server writes over a body; undefined takes a member out. */
function changesOf(
  { method, has_org, forced }: Row,
  body: Record<string, unknown>,
  { org_id }: Session,
): Record<string, unknown> {
  const changes: Record<string, unknown> = {};
  if (has_org && method !== 'delete' && org_id !== null && body.org_id === undefined)
    changes.org_id = org_id;
  for (const [name, value] of Object.entries(forced)) changes[name] = value ?? undefined;
  return changes;
}

/** The JSON object that the browser sends; an absent body is an empty one. */
export async function readObject(ctx: Context): Promise<Record<string, unknown>> {
  const bytes = await readBytes(ctx);
  if (bytes.length === 0) return {};
  if (!ctx.is('json') || !['', 'identity'].includes(ctx.get('content-encoding')))
    throw new AppError('unsupported_media_type', 'Send the body as application/json.');
  // As the API reads it: what is written anew below says no other thing.
  return read(jsonText(ctx, bytes), MEMBERS_MAX);
}

async function readBytes(ctx: Context): Promise<Buffer> {
  let late: NodeJS.Timeout | undefined;
  const slow = new Promise<never>((_, reject) => {
    late = setTimeout(reject, BODY_MS, new AppError('invalid_request', tooSlow, { status: 408 }));
  });
  try {
    const body = getRawBody(ctx.req, {
      limit: BODY_MAX_BYTES,
      length: ctx.get('content-length') || null,
    });
    return await Promise.race([body, slow]);
  } catch (error) {
    if (error instanceof AppError) throw error;
    if ((error as { type?: string }).type === 'entity.too.large')
      throw new AppError(
        'payload_too_large',
        `The console takes bodies of ${BODY_MAX_BYTES} bytes at most.`,
      );
    throw new AppError('invalid_request', 'The body did not arrive whole.');
  } finally {
    clearTimeout(late);
  }
}

/** Passes on an answer as it comes, without waiting for its end. */
function pass(ctx: Context, row: Row, { status, headers, body }: Answer): void {
  ctx.status = status;
  for (const name of answered) {
    const value = headers[name];
    if (typeof value === 'string') ctx.set(name, value);
  }
  // A file that is in a bucket: the browser is sent to its address there.
  const { location } = headers;
  if (row.answers === 'file' && status === 302 && location !== undefined)
    ctx.set('location', location);
  if (row.answers === 'events') ctx.set('x-accel-buffering', 'no');
  body.once('error', () => ctx.res.destroy());
  ctx.body = row.accept === 'text/csv' && status === 200 ? Readable.from(marked(body)) : body;
  if (row.answers === 'events') ctx.flushHeaders();
}

// Spreadsheets read a file without it in the alphabet of their country; programs that ask the API
// have no use for it.
const BYTE_ORDER_MARK = Buffer.from('\ufeff');

async function* marked(body: Readable): AsyncGenerator<Buffer> {
  yield BYTE_ORDER_MARK;
  yield* body;
}
