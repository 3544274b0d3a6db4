import type { Context, Middleware } from 'koa';
import { AppError } from '../../domain/errors';

const safe = ['GET', 'HEAD'];

/**
 * Lets only the console's own pages call /api. Its script sends `x-svc-console: 1`, which a page of
 * another site cannot add without asking first, and nobody here answers such a question. What the
 * browser itself says about the page that asks must agree.
 * @param isFile true for a path that the browser may open as a link, to keep a file.
 */
export function sameSiteOnly(origin: string, isFile: (ctx: Context) => boolean): Middleware {
  return (ctx, next) => {
    const has_mark = ctx.get('x-svc-console') === '1';
    const is_link = safe.includes(ctx.method) && isFile(ctx);
    if (!has_mark && !is_link)
      throw refused('Requests of the console carry the header x-svc-console: 1.');
    if (!comesFrom(ctx, origin)) throw refused('This request comes from another site.');
    return next();
  };
}

function comesFrom(ctx: Context, origin: string): boolean {
  const site = ctx.get('sec-fetch-site');
  const named = ctx.get('origin');
  if (named !== '' && named !== origin) return false;
  if (site !== '') return site === 'same-origin';
  // A browser that says neither is none of those that the console works with.
  return named === origin;
}

function refused(message: string): AppError {
  return new AppError('browser_not_allowed', message);
}
