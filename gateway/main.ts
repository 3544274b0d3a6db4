import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadConfig } from '../runtime/config';
import { listen } from '../runtime/listen';
import { createLog } from '../runtime/log';
import { tuneV8 } from '../runtime/v8';
import { createApp } from './app';
import type { Gateway } from './call/call';
import { loadSettings } from './config/settings';
import { openConfiguration } from './configuration';
import { openControlPlane } from './control-plane/client';
import { closeGateway, drain, openGateway } from './gateway';
import { attachSockets } from './sockets/upgrade';
import { logMissingPrices, logTrust } from './warnings';

// Longer than a balancer keeps an idle connection, so that it never sends into a closing one.
const KEEP_ALIVE_MS = 65_000;
// How long a control plane that starts at the same time may take before it is logged.
const START_MS = 5_000;

export async function main(): Promise<void> {
  tuneV8({ is_bounded: true });
  const config = loadConfig('gateway');
  const settings = loadSettings(config.GATEWAY_CONFIG);
  const log = createLog('gateway', config.LOG_LEVEL);
  const { CONTROL_PLANE_URL: urls, CONTROL_PLANE_TOKEN: token } = config;
  const spool_dir = config.GATEWAY_SPOOL_DIR;
  const control_plane = openControlPlane({ urls, token, spool_dir }, log);
  const sample_ratio = config.OTEL_TRACES_SAMPLER_ARG;
  const gateway = await openGateway({ settings, control_plane, log, sample_ratio });
  const configuration = openConfiguration(gateway, {
    file: config.GATEWAY_CONFIG,
    group: config.GATEWAY_GROUP,
    reach: { origins: config.GATEWAY_ORIGINS, variables: config.GATEWAY_SECRET_ENVS },
  });
  const server = createServer(createApp(gateway, configuration).callback());
  const sockets = attachSockets(server, gateway);
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  const port = await listen(server, config.GATEWAY_PORT, {
    host: config.GATEWAY_HOST,
    name: 'GATEWAY',
  });
  log.info({ port }, 'the gateway listens');
  logTrust(gateway);
  void logReadiness(gateway, urls);

  const stop = async (signal: string): Promise<void> => {
    if (gateway.is_draining) return;
    log.info({ signal, calls: gateway.calls.size }, 'the gateway drains');
    const drained = drain(gateway, sockets);
    configuration.report();
    await drained;
    server.close();
    server.closeAllConnections();
    await configuration.close();
    await closeGateway(gateway);
    log.info({ unsettled: control_plane.unsettled() }, 'the gateway stops');
    process.exit(0);
  };
  process.on('SIGTERM', (signal) => void stop(signal));
  process.on('SIGINT', (signal) => void stop(signal));
}

/**
 * Logs if the control plane stays away, and when it answers. All processes of an installation may
 * start at once.
 */
async function logReadiness(gateway: Gateway, urls: readonly string[]): Promise<void> {
  const { control_plane, log } = gateway;
  await sleep(START_MS, undefined, { ref: false });
  let is_told = false;
  while (!gateway.is_draining && !(await control_plane.isReady())) {
    if (!is_told)
      log.warn({ urls }, 'the control plane does not answer this gateway: no call can be paid for');
    is_told = true;
    await sleep(START_MS, undefined, { ref: false });
  }
  if (gateway.is_draining) return;
  if (is_told) log.info('the control plane answers this gateway');
  await logMissingPrices(gateway);
}
