import Router from '@koa/router';
import Koa, { type Context } from 'koa';
import { conventions } from '../../runtime/conventions';
import type { Logger } from '../../runtime/log';
import type { Networks } from '../../runtime/networks';
import { addToLine } from '../../runtime/request-log';
import { API_VERSION } from '../../runtime/version';
import type { ApiClient } from './api-client';
import { chatModels, forgetChatKey, sendMessage } from './chat';
import { readableRefusals } from './file-refusals';
import { forward } from './forward';
import type { GatewayClient } from './gateway-client';
import { pages, readBuild } from './pages';
import type { Row } from './rows/row';
import { sameSiteOnly } from './same-site';
import { createCookies } from './session';
import {
  beginOidc,
  choices,
  chooseOrg,
  current,
  endOidc,
  issuers,
  signIn,
  signOut,
} from './sign-in';
import { rows } from './table';

export interface ConsoleParts {
  api: ApiClient;
  /** Behind the chat; undefined without CONSOLE_GATEWAY_URL. */
  gateway?: GatewayClient | undefined;
  /** CONSOLE_COOKIE_KEYS. */
  cookie_keys: readonly string[];
  /** CONSOLE_ORIGIN. */
  origin: string;
  trusted: Networks;
  /** CONSOLE_DIR. */
  folder: string;
  isDraining: () => boolean;
}

const gone = /^(ECONNRESET|EPIPE|ECONNABORTED|ERR_STREAM_PREMATURE_CLOSE|UND_ERR_\w+|HPE_\w+)$/;

/** The console's server: pages, sign-in, and the rows that are forwarded to the API. */
export function createConsole(parts: ConsoleParts, log: Logger): Koa {
  const app = new Koa();
  app.on('error', (error) => {
    // The browser or the API broke a connection off.
    if (gone.test(error.code ?? '') || error.name === 'AbortError') return;
    log.error({ err: error }, 'unexpected error');
  });
  app.use(conventions(log));
  app.use((ctx, next) => {
    ctx.set('x-frame-options', 'DENY');
    return next();
  });
  app.use(health(parts).routes());
  const router = routesOf(parts);
  app.use(readableRefusals(fileRow, log));
  app.use((ctx, next) => {
    if (!ctx.path.startsWith('/api/')) return next();
    return sameSiteOnly(parts.origin, (one) => fileRow(one.path) !== undefined)(ctx, next);
  });
  app.use(router.routes());
  app.use(pages(parts.folder));
  return app;
}

/** Paths that the browser opens as links, to keep files. */
const files = rows
  .filter(({ answers }) => answers === 'file')
  .map((row) => ({ row, path: new RegExp(`^${row.path.replace(/:\w+/g, '[^/]+')}$`) }));

function fileRow(asked: string): Row | undefined {
  return files.find(({ path }) => path.test(asked))?.row;
}

function routesOf({ api, gateway, cookie_keys, origin, trusted }: ConsoleParts): Router {
  const cookies = createCookies(cookie_keys);
  const places = { api, gateway, cookies, trusted, origin };
  const router = new Router({ strict: true, sensitive: true });
  router.get('/api/session', (ctx: Context) => current(ctx, places));
  router.post('/api/session', (ctx: Context) => signIn(ctx, places));
  router.delete('/api/session', (ctx: Context) => signOut(ctx, places));
  router.get('/api/session/issuers', (ctx: Context) => issuers(ctx, places));
  router.get('/api/session/organizations', (ctx: Context) => choices(ctx, places));
  router.post('/api/session/oidc', (ctx: Context) => beginOidc(ctx, places));
  router.put('/api/session/org', (ctx: Context) => chooseOrg(ctx, places));
  router.get('/api/chat/models', (ctx: Context) => chatModels(ctx, places));
  router.post('/api/chat/messages', (ctx: Context) => sendMessage(ctx, places));
  router.delete('/api/chat/key', (ctx: Context) => forgetChatKey(ctx, places));
  router.get('/callback', (ctx: Context) => endOidc(ctx, places));
  for (const row of rows)
    router[row.method](row.path, (ctx: Context) => {
      addToLine(ctx, { route: row.path });
      return forward(row, ctx, { api, cookies, trusted });
    });
  return router;
}

/** What monitors and deployments ask; the first asks nobody else. */
function health({ api, folder, isDraining }: ConsoleParts): Router {
  const { api_url, gateway_url } = readBuild(folder);
  const router = new Router({ strict: true });
  router.get('/api/health', (ctx: Context) => {
    ctx.body = { status: 'ok', version: API_VERSION, api_url, gateway_url };
  });
  router.get('/readyz', async (ctx: Context) => {
    if (isDraining()) {
      ctx.status = 503;
      ctx.body = { status: 'draining' };
      return;
    }
    await api.requireReady();
    ctx.body = { status: 'ready' };
  });
  return router;
}
