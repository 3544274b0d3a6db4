import Koa, { type Context } from 'koa';
import { createProviderOf } from '../payment-providers/configured';
import { conventions } from '../runtime/conventions';
import type { Logger } from '../runtime/log';
import { API_VERSION } from '../runtime/version';
import { createEventStreams } from './http/event-streams';
import { type Connections, mount } from './http/route';
import { requestSpans } from './http/tracing';
import { createKeyring } from './ledger/keyring';
import { docs } from './openapi/docs';
import { routes } from './table';

const gone = /^(ECONNRESET|EPIPE|ECONNABORTED)$/;

/** The control plane as a Koa application. */
export function createApp(
  connections: Omit<Connections, 'keys' | 'providerOf' | 'event_streams' | 'log'>,
  log: Logger,
): Koa {
  const app = new Koa();
  app.on('error', (error, ctx?: Context) => {
    // A client that breaks off its connection is no error of ours.
    if (ctx?.res.destroyed && gone.test(error.code ?? '')) return;
    log.error({ err: error }, 'unexpected error');
  });
  app.use(conventions(log));
  app.use((ctx, next) => {
    ctx.set('x-svc-api-version', API_VERSION);
    return next();
  });
  if (connections.tracing !== undefined) app.use(requestSpans(connections.tracing));
  app.use(docs());
  const keys = createKeyring(connections.db);
  const providerOf = createProviderOf(connections.db, connections.secrets);
  const event_streams = createEventStreams(connections.db, connections.isDraining);
  app.use(mount(routes, { ...connections, keys, providerOf, event_streams, log }).routes());
  return app;
}
