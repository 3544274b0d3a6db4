import type { Server } from 'node:http';
import type { Context, Middleware } from 'koa';
import { ConfigError } from './config';
import { AppError, errorHeaders, isAppError, toErrorBody } from './domain/errors';
import { newId } from './domain/ids';
import { fromNanos } from './domain/money';
import { busy, isTransient, isUnreachable } from './domain/sql';
import type { Logger } from './log';
import { addToLine, createRequestLog } from './request-log';

export const API_VERSION = '1.5.0';

const label = /^[\x21-\x7e]{1,200}$/;

/**
 * The conventions of both services: a request id on every answer and log line, a line for each request, and the only catch.
 * What is not an AppError is a bug: logged with its cause, answered 500 without detail.
 */
export function conventions(log: Logger): Middleware {
  const begin = createRequestLog(log);
  return async (ctx, next) => {
    const finish = begin(ctx);
    const given = ctx.get('x-request-id');
    ctx.state.request_id = label.test(given) ? given : newId('req');
    ctx.set('x-request-id', ctx.state.request_id);
    try {
      await next();
      if (ctx.status === 404 && ctx.body == null && ctx.respond !== false) throw unknownPath(ctx);
    } catch (error) {
      sendError(ctx, error, log);
    } finally {
      finish();
    }
  };
}

/** Answers an error in the one shape. Once headers are out nothing can be said but the end of the connection. */
export function sendError(ctx: Context, error: unknown, log: Logger): void {
  const known = toRefusal(ctx, error, log);
  addToLine(ctx, { code: known.code });
  if (ctx.res.headersSent) {
    // One that has ended has said it all, and its connection may serve the next request.
    if (!ctx.res.writableEnded) ctx.res.destroy();
    return;
  }
  ctx.status = known.status;
  ctx.set(errorHeaders(known));
  ctx.body = toWire(toErrorBody(known, ctx.state.request_id));
}

/** What the caller is told: the refusal itself, 503 for a trouble that passes, 500 for a bug. The log gets the cause and the id. */
export function toRefusal(
  ctx: Pick<Context, 'state' | 'path'>,
  error: unknown,
  log: Logger,
): AppError {
  if (isAppError(error)) return error;
  if (isTransient(error)) return busy();
  if (isUnreachable(error)) {
    log.warn({ err: error, request_id: ctx.state.request_id }, 'a dependency is away');
    return new AppError(
      'unavailable',
      'A dependency of this service is away. Repeat the request shortly.',
      { retry_after: 2 },
    );
  }
  log.error({ err: error, request_id: ctx.state.request_id, path: ctx.path }, 'unexpected error');
  return new AppError(
    'internal_error',
    'This is a fault of the service. Quote the request id when you report it.',
  );
}

function unknownPath(ctx: Context): AppError {
  return new AppError('not_found', `There is no ${ctx.method} ${ctx.path}.`);
}

const refusals: Record<string, (at: { host: string; port: number; name: string }) => string> = {
  EADDRINUSE: ({ port, name }) =>
    `Port ${port} is in use by another process. Set ${name}_PORT to another one.`,
  EACCES: ({ port, name }) =>
    `Port ${port} may not be opened by this user. Set ${name}_PORT to another one.`,
  EADDRNOTAVAIL: ({ host, name }) => `${host} is no address of this machine. Set ${name}_HOST.`,
  ENOTFOUND: ({ host, name }) => `${host} is no address of this machine. Set ${name}_HOST.`,
};

/**
 * Listens, on all interfaces unless a host is named; resolves with the port in use (0 asks for a free one). A refusal names
 * the variable to change, which begins with `name`.
 */
export function listen(
  server: Server,
  port: number,
  { host, name = '' }: { host?: string | undefined; name?: string } = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const words = refusals[error.code ?? '']?.({ host: host ?? '', port, name });
      reject(words === undefined ? error : new ConfigError(words));
    });
    server.listen({ port, ...(host && { host }) }, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}

/**
 * The wire form of a row: keys ending `_nanos` lose the suffix and become JSON numbers of major units
 * (BigInt, or its decimal text inside jsonb), dates become ISO 8601 text, nothing else changes.
 */
export function toWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toWire);
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object' || value === null) return value;
  const wire: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    if (key.endsWith('_nanos'))
      wire[key.slice(0, -'_nanos'.length)] =
        member === null ? null : fromNanos(BigInt(member as bigint | string));
    else wire[key] = toWire(member);
  }
  return wire;
}
