import Koa from 'koa';
import { createTargetOf } from '../exports/open';
import { createProviderOf } from '../payment-providers/configured';
import { conventions } from '../runtime/conventions';
import type { Logger } from '../runtime/log';
import { createNetworks } from '../runtime/networks';
import { API_VERSION } from '../runtime/version';
import { requireConsoleVersion } from './http/access';
import { createBuckets } from './http/buckets';
import { createEventStreams } from './http/event-streams';
import { createIdTokens } from './http/id-tokens';
import { type Connections, mount, type NoticeReach } from './http/route';
import { createShares } from './http/shares';
import { requestSpans } from './http/tracing';
import { createKeyring } from './ledger/keyring';
import { approvalPage } from './notices/page';
import { docs } from './openapi/docs';
import { routes } from './table';

const gone = /^(ECONNRESET|EPIPE|ECONNABORTED|HPE_\w+)$/;

type Made =
  | 'buckets'
  | 'keyrings'
  | 'shares'
  | 'providerOf'
  | 'exportTargetOf'
  | 's3_origins'
  | 'notice_reach'
  | 'event_streams'
  | 'id_tokens'
  | 'trusted_proxies'
  | 'log';

/** What the application does not make for itself. */
export type Given = Omit<Connections, Made> & {
  /** Of one key or person; 0: as many as come. */
  requests_per_minute?: number | undefined;
  /** The folder of exports: EXPORT_DIR. */
  export_dir?: string | undefined;
  /** The object stores that exports may go to: EXPORT_S3_ORIGINS. */
  s3_origins?: readonly string[] | undefined;
  /** Where notices may go; servers of the world alone if absent. */
  notice_reach?: NoticeReach | undefined;
  /** Networks of the proxies whose X-Forwarded-For is believed: TRUSTED_PROXIES. */
  trusted_proxies?: readonly string[] | undefined;
};

/** The control plane as a Koa application. */
export function createApp(
  {
    requests_per_minute = 0,
    export_dir,
    s3_origins = [],
    trusted_proxies = [],
    notice_reach = { networks: undefined, chat_hosts: [], has_mail: false },
    ...connections
  }: Given,
  log: Logger,
): Koa {
  const app = new Koa();
  app.on('error', (error) => {
    // What a route throws does not come here: this is the client's connection, which it broke off.
    if (gone.test(error.code ?? '')) return;
    log.error({ err: error }, 'unexpected error');
  });
  app.use(conventions(log));
  app.use((ctx, next) => {
    ctx.set('x-svc-api-version', API_VERSION);
    requireConsoleVersion(ctx);
    return next();
  });
  if (connections.tracing !== undefined) app.use(requestSpans(connections.tracing));
  app.use(docs());
  const { pools, secrets, isDraining } = connections;
  app.use(approvalPage(secrets));
  const made = {
    buckets: createBuckets(requests_per_minute),
    keyrings: {
      people: createKeyring(pools.people),
      reads: createKeyring(pools.reads),
      machine: createKeyring(pools.machine),
    },
    shares: { people: createShares(pools.people), reads: createShares(pools.reads) },
    providerOf: createProviderOf(pools.people, secrets, connections.payment_hosts, {
      authorities: connections.payment_authorities ?? [],
    }),
    s3_origins,
    notice_reach,
    exportTargetOf: createTargetOf(pools.people, { dir: export_dir, origins: s3_origins, secrets }),
    event_streams: createEventStreams(pools.reads, isDraining),
    id_tokens: createIdTokens(secrets),
    trusted_proxies: createNetworks(trusted_proxies),
    log,
  };
  app.use(mount(routes, { ...connections, ...made }).routes());
  return app;
}
