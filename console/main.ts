import { createServer } from 'node:http';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadConfig } from '../runtime/config';
import { listen } from '../runtime/listen';
import { createLog } from '../runtime/log';
import { createNetworks } from '../runtime/networks';
import { tuneV8 } from '../runtime/v8';
import { createApiClient } from './server/api-client';
import { createConsole } from './server/app';
import { createGatewayClient } from './server/gateway-client';

const DRAIN_MS = 1_500;
const REQUEST_MS = 30_000;

/** The console: serves what was built, and forwards to the API. Drains on SIGTERM and SIGINT. */
export async function main(): Promise<void> {
  tuneV8();
  const config = loadConfig('console');
  const log = createLog('console', config.LOG_LEVEL);
  const api = createApiClient(config.CONSOLE_API_URL);
  const { CONSOLE_GATEWAY_URL } = config;
  const gateway = CONSOLE_GATEWAY_URL ? createGatewayClient(CONSOLE_GATEWAY_URL) : undefined;
  let is_draining = false;
  const app = createConsole(
    {
      api,
      gateway,
      cookie_keys: config.CONSOLE_COOKIE_KEYS,
      origin: config.CONSOLE_ORIGIN,
      trusted: createNetworks(config.TRUSTED_PROXIES),
      folder: path.resolve(config.CONSOLE_DIR),
      isDraining: () => is_draining,
    },
    log,
  );
  const server = createServer(app.callback());
  server.keepAliveTimeout = 65_000;
  server.requestTimeout = REQUEST_MS;
  const port = await listen(server, config.CONSOLE_PORT, {
    host: config.CONSOLE_HOST,
    name: 'CONSOLE',
  });
  log.info({ port }, 'console listens');
  const stop = async () => {
    if (is_draining) return;
    is_draining = true;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    // Event streams never end by themselves; browsers take them up again elsewhere.
    await Promise.race([closed, sleep(DRAIN_MS, undefined, { ref: false })]);
    server.closeAllConnections();
    await api.destroy();
    await gateway?.destroy();
    log.info('console has stopped');
    process.exit(0);
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}
