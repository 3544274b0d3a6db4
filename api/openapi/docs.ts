import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Context, Middleware } from 'koa';
import absolutePath from 'swagger-ui-dist/absolute-path';
import { root } from '../../runtime/root';
import { answerUnlessKnown } from '../http/etags';

const page = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>svc control plane</title><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="docs"></div><script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>`;
// A key that somebody enters is forgotten with the page.
const start = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#docs', deepLinking: true, validatorUrl: null, tryItOutEnabled: true });`;

// The page runs its own two scripts and asks this origin alone; nobody may frame it. Its styles
// stand in attributes, its arrows in data URLs.
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const asset = (name: string) => readFile(path.join(absolutePath(), name), 'utf8');

/** What is served, by its path: its type, and how it is read for the first time. */
const files: Record<string, { type: string; read: () => Promise<string> }> = {
  '/openapi.json': {
    type: 'json',
    read: () => readFile(path.join(root, 'openapi.json'), 'utf8'),
  },
  '/docs': { type: 'html', read: async () => page },
  '/docs/start.js': { type: 'js', read: async () => start },
  '/docs/swagger-ui.css': { type: 'css', read: () => asset('swagger-ui.css') },
  '/docs/swagger-ui-bundle.js': { type: 'js', read: () => asset('swagger-ui-bundle.js') },
};

/**
 * /openapi.json and a browsable page of it. Everything comes from this process, is read once, and
 * is sent again only to who has another version.
 */
export function docs(): Middleware {
  const known = new Map<string, Promise<{ body: string; etag: string }>>();
  const load = async (read: () => Promise<string>) => {
    const body = await read();
    return { body, etag: createHash('sha256').update(body).digest('base64url') };
  };
  return async (ctx, next) => {
    const file = Object.hasOwn(files, ctx.path) ? files[ctx.path] : undefined;
    if (file === undefined || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) return next();
    const loading = known.get(ctx.path) ?? load(file.read);
    known.set(ctx.path, loading);
    // What could not be read is read again for the next who asks.
    loading.catch(() => known.delete(ctx.path));
    const { body, etag } = await loading;
    send(ctx, { type: file.type, body, etag });
  };
}

function send(ctx: Context, { type, body, etag }: { type: string; body: string; etag: string }) {
  if (type === 'html')
    ctx.set({ 'content-security-policy': POLICY, 'referrer-policy': 'no-referrer' });
  ctx.type = type;
  answerUnlessKnown(ctx, etag, body);
}
