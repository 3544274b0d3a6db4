import { isUtf8 } from 'node:buffer';
import type { Context, Middleware } from 'koa';
import { AppError, errorHeaders, isAppError, toErrorBody } from '../domain/errors';
import { newId } from '../domain/ids';
import { busy, cannotWorkNow, isOvertime, isTransient } from '../domain/sql';
import type { Logger } from './log';
import { noteOutage } from './outages';
import { turnOf } from './pipelining';
import { addToLine, createRequestLog } from './request-log';
import { toWire } from './wire';

/** A year, after which a browser that came once over https comes back over nothing else. */
const HSTS = 'max-age=31536000';
const label = /^[\x21-\x7e]{1,200}$/;

/**
 * The conventions of all services: the requests of a connection one after the other, a request id
 * on every answer and log line, a line for each request, and the only catch. An error that is no
 * AppError is a bug: logged with its cause, answered 500 without detail.
 */
export function conventions(log: Logger): Middleware {
  const begin = createRequestLog(log);
  return async (ctx, next) => {
    const turn = turnOf(ctx.req, ctx.res);
    if (turn !== true && !(await turn)) {
      // Its client has gone, and nothing was begun.
      ctx.respond = false;
      return;
    }
    const finish = begin(ctx);
    const given = ctx.get('x-request-id');
    ctx.state.request_id = label.test(given) ? given : newId('req');
    ctx.set('x-request-id', ctx.state.request_id);
    // Answers hold keys that are shown once: nothing is kept but what a route says may be.
    ctx.set('cache-control', 'no-store');
    ctx.set('x-content-type-options', 'nosniff');
    // Over http a browser takes no notice of it, so whoever lies about it gains nothing.
    if (isOverTls(ctx)) ctx.set('strict-transport-security', HSTS);
    try {
      requireOneHost(ctx);
      await next();
      if (ctx.status === 404 && ctx.body == null && ctx.respond !== false) throw unknownPath(ctx);
    } catch (error) {
      sendError(ctx, error, log);
    } finally {
      finish();
    }
  };
}

/** True if the client, or the proxy before this service, speaks TLS. */
function isOverTls(ctx: Context): boolean {
  const [first = ''] = ctx.get('x-forwarded-proto').split(',');
  return first.trim().toLowerCase() === 'https' || 'encrypted' in ctx.req.socket;
}

/**
 * Answers an error in the one shape. Once headers are out nothing can be said but the end of the
 * connection.
 */
function sendError(ctx: Context, error: unknown, log: Logger): void {
  const known = toRefusal(ctx, error, log);
  addToLine(ctx, { code: known.code });
  if (ctx.res.headersSent) {
    // One that has ended has said it all, and its connection may serve the next request.
    if (!ctx.res.writableEnded) ctx.res.destroy();
    return;
  }
  ctx.status = known.status;
  ctx.set(errorHeaders(known));
  // The rest of a body that does not come is not waited for.
  if (known.status === 408) ctx.set('connection', 'close');
  ctx.body = toWire(toErrorBody(known, ctx.state.request_id));
}

/**
 * The error for the caller: a refusal as it is, 503 for a failure that passes, 500 for a bug. The
 * log gets the cause and the id.
 */
export function toRefusal(
  ctx: Pick<Context, 'state' | 'path'>,
  error: unknown,
  log: Logger,
): AppError {
  if (isAppError(error)) return error;
  if (isTransient(error)) return busy();
  if (isOvertime(error)) {
    noteOutage(log, error);
    return new AppError(
      'unavailable',
      'This took longer to read than it may, and was ended. Ask for less: a shorter period, a narrower filter or a smaller page. The same question may be answered while less is asked.',
      { retry_after: 2 },
    );
  }
  if (cannotWorkNow(error)) {
    noteOutage(log, error);
    return new AppError(
      'unavailable',
      'A dependency of this service is away or cannot work now. Repeat the request shortly.',
      { retry_after: 2 },
    );
  }
  log.error({ err: error, request_id: ctx.state.request_id, path: ctx.path }, 'unexpected error');
  return new AppError(
    'internal_error',
    'This is a fault of the service. Quote the request id when you report it.',
  );
}

/** Two of them name two sites: whoever stands before this service may have believed the other. */
function requireOneHost({ req }: Context): void {
  if ((req.headersDistinct.host?.length ?? 0) > 1)
    throw new AppError('invalid_request', 'Send the header Host once.');
}

/** SDKs add their own path to a base URL: of some it ends with /v1, of others it must not. */
function unknownPath({ method, path }: Context): AppError {
  const said = `There is no ${method} ${path}.`;
  if (path.startsWith('/v1/v1/'))
    return new AppError(
      'not_found',
      `${said} This client adds /v1 itself: leave it out of its base URL.`,
    );
  const hint = path.startsWith('/v1/')
    ? ''
    : ' Paths begin with /v1: does the base URL end with it?';
  return new AppError('not_found', `${said}${hint}`);
}

/** The text of a JSON body, which is UTF-8: read as another text it would change without a word. */
export function jsonText(ctx: Context, bytes: Buffer): string {
  const { charset } = ctx.request;
  if (charset !== '' && !/^"?utf-?8"?$/i.test(charset))
    throw new AppError('unsupported_media_type', 'Send the body as application/json in UTF-8.');
  if (!isUtf8(bytes)) throw new AppError('invalid_json', 'The body is not UTF-8, as JSON must be.');
  return bytes.toString('utf8');
}
