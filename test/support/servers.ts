import { rmSync } from 'node:fs';
import { chmod, mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import { freePorts } from '../../sandbox/processes/ports';
import { launch, type Process } from '../../sandbox/processes/processes';
import { prepareTemporal } from '../../sandbox/servers/temporal';
import { bundleWorkflows } from '../../workers/bundle';
import { type Cluster, openCluster } from './postgres/cluster';
import { scratchRoot } from './scratch';

// Servers start beside each other, and perhaps on a machine that is busy.
const READY_MS = 180_000;

export interface Servers {
  stop: () => Promise<void>;
}

/**
 * Starts the servers that all test files share and publishes their addresses in the environment,
 * which Jest's workers inherit.
 */
export async function startServers(): Promise<Servers> {
  const folder = await mkdtemp(path.join(scratchRoot(), 'svc-test-'));
  removeWhenInterrupted(folder);
  // The system user that PostgreSQL runs as under root must enter it.
  await chmod(folder, 0o755);
  const [postgres_port = 0, temporal_port = 0, ui_port = 0] = await freePorts(3);
  const started = await Promise.allSettled([
    startPostgres(folder, postgres_port),
    startTemporal(temporal_port, ui_port),
    keepBundle(),
  ]);
  const stop = async () => {
    const running = started.map((part) => (part.status === 'fulfilled' ? part.value : undefined));
    await Promise.all(running.map((server) => server?.stop(2_000)));
    rmSync(folder, { recursive: true, force: true });
  };
  for (const part of started) {
    if (part.status === 'fulfilled') continue;
    await stop();
    throw part.reason;
  }
  return { stop };
}

async function startPostgres(data_dir: string, port: number): Promise<Cluster> {
  const cluster = await openCluster({ data_dir, port, durable: false });
  process.env.TEST_DATABASE_URL = cluster.template;
  return cluster;
}

async function startTemporal(port: number, ui_port: number): Promise<Process> {
  const program = await prepareTemporal({ port, ui_port });
  const server = await launch({ ...program, ready_timeout_ms: READY_MS });
  process.env.TEST_TEMPORAL_ADDRESS = `127.0.0.1:${port}`;
  return server;
}

// Made once here, and found in the cache by whatever starts a worker.
async function keepBundle(): Promise<undefined> {
  await bundleWorkflows();
}

// The servers end with this process whatever happens to it; the folder needs us to leave in order.
function removeWhenInterrupted(folder: string): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => process.exit(1));
  }
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
}
