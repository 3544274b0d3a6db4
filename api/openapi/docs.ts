import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Middleware } from 'koa';
import absolutePath from 'swagger-ui-dist/absolute-path';
import { root } from '../../runtime/root';

const document = path.join(root, 'openapi.json');
const assets = new Set(['swagger-ui.css', 'swagger-ui-bundle.js']);

const page = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>svc control plane</title><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="docs"></div><script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body>
</html>`;
const start = `SwaggerUIBundle({ url: '/openapi.json', dom_id: '#docs', deepLinking: true, validatorUrl: null, persistAuthorization: true, tryItOutEnabled: true });`;

/** /openapi.json and a browsable page of it; everything comes from this process. */
export function docs(): Middleware {
  return async (ctx, next) => {
    if (ctx.method !== 'GET') return next();
    if (ctx.path === '/openapi.json') return send(ctx, 'json', await readFile(document, 'utf8'));
    if (ctx.path === '/docs') return send(ctx, 'html', page);
    if (ctx.path === '/docs/start.js') return send(ctx, 'js', start);
    const asset = ctx.path.startsWith('/docs/') ? ctx.path.slice('/docs/'.length) : '';
    if (!assets.has(asset)) return next();
    return send(ctx, path.extname(asset), await readFile(path.join(absolutePath(), asset), 'utf8'));
  };
}

function send(ctx: Parameters<Middleware>[0], type: string, body: string): void {
  ctx.type = type;
  ctx.body = body;
}
