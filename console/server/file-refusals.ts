import { randomBytes } from 'node:crypto';
import type { Context, Middleware } from 'koa';
import { errorHeaders, toErrorBody } from '../../domain/errors';
import { toRefusal } from '../../runtime/conventions';
import type { Logger } from '../../runtime/log';
import { addToLine } from '../../runtime/request-log';
import type { Row } from './rows/row';

const BODY_MAX_BYTES = 65_536;

interface Said {
  error?: { code?: string; message?: string };
  request_id?: string;
}

/**
 * Makes refusals of files readable for whoever has opened a link in a tab of its own: a page in
 * place of JSON, with the same status and headers. The console's own pages ask for JSON and get it.
 * @param rowOf the row of a path that the browser may open as a link, to keep a file.
 */
export function readableRefusals(
  rowOf: (path: string) => Row | undefined,
  log: Logger,
): Middleware {
  return async (ctx, next) => {
    const row = opensPage(ctx) ? rowOf(ctx.path) : undefined;
    if (row === undefined) return next();
    try {
      await next();
    } catch (error) {
      // Nothing can be said any more, or nobody hears it.
      if (ctx.headerSent || ctx.res.destroyed) throw error;
      const refusal = toRefusal(ctx, error, log);
      addToLine(ctx, { code: refusal.code });
      ctx.status = refusal.status;
      ctx.set(errorHeaders(refusal));
      sendPage(ctx, row, toErrorBody(refusal, ctx.state.request_id));
      return;
    }
    if (ctx.status >= 400) sendPage(ctx, row, await saidOf(ctx.body));
  };
}

/** True for a link that a person has opened; a page's script and other programs do not say so. */
function opensPage(ctx: Context): boolean {
  const { method } = ctx;
  return (method === 'GET' || method === 'HEAD') && /\btext\/html\b/.test(ctx.get('accept'));
}

/** What the API says of its refusal; nothing of what is none of its own. */
async function saidOf(body: unknown): Promise<Said> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of body as AsyncIterable<Buffer>) {
      size += part.length;
      if (size > BODY_MAX_BYTES) return {};
      parts.push(part);
    }
    return (JSON.parse(Buffer.concat(parts).toString('utf8')) ?? {}) as Said;
  } catch {
    return {};
  }
}

const titles: Record<number, string> = {
  401: 'You are signed out',
  403: 'You may not have this file',
  404: 'This file is not here',
  410: 'This file is not kept any more',
  429: 'Too many requests at once',
  503: 'This file cannot be had now',
};

/** The page: it holds no script and asks for nothing. */
function sendPage(ctx: Context, row: Row, { error, request_id }: Said): void {
  const nonce = randomBytes(16).toString('base64');
  const title = titles[ctx.status] ?? 'The file did not come';
  const words = error?.message ?? 'The console got no answer that it understands. Try again.';
  const back = pageOf(row, ctx.path);
  const id = request_id ?? ctx.state.request_id;
  ctx.vary('accept');
  ctx.remove('content-disposition');
  ctx.set(
    'content-security-policy',
    `default-src 'none'; style-src 'nonce-${nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  ctx.set('referrer-policy', 'no-referrer');
  ctx.type = 'html';
  ctx.body = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><style nonce="${nonce}">:root{color-scheme:light dark}body{font-family:system-ui,sans-serif;line-height:1.5;max-width:40rem;margin:15vh auto;padding:0 1rem;overflow-wrap:anywhere}</style></head><body><main><h1>${title}</h1><p>${escaped(words)}</p><p><a href="${escaped(back)}">Back to the console</a></p><p>Request ${escaped(String(id))}</p></main></body></html>`;
}

/** The page of the console on which a file's link stands. */
function pageOf({ path, page = '/' }: Row, given: string): string {
  const names = path.split('/');
  const values = given.split('/');
  return page.replace(/:\w+/g, (name) => values[names.indexOf(name)] ?? '');
}

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (one) => entities[one] ?? '');
}
