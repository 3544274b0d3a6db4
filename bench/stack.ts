import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { stringify } from 'yaml';
import { root } from '../runtime/root';
import { freePorts } from '../sandbox/processes/ports';
import { few_heaps } from '../sandbox/product/node-programs';
import type { BenchCluster } from './cluster';
import { seedHotWallet } from './ledger';
import { end, measured_folder, type Part, startScript, waitFor } from './programs';
import { allOn, seedKeys } from './seed';
import { startTemporal } from './temporal';

// All three programs in one process, as npm start runs them; versions before 1.5 have one.
const workers_script = ['workers/main.ts', 'workers/lifecycle.ts'].find((script) =>
  existsSync(path.join(measured_folder, script)),
) as string;

export interface Stack {
  upstream: Part;
  floor: Part;
  api: Part;
  gateway: Part;
  /** Only with everything on. */
  worker?: { pid: number };
  gateway_key: string;
  control_plane_key: string;
  org_id: string;
  database_url: string;
  stop(): Promise<void>;
}

/**
 * Upstream, floor proxy, one API and one gateway as processes of their own, with money and keys.
 * With `everything` the gateway also limits by all six tiers and looks at the texts, the key has a
 * budget and an agent with a cap, and a worker runs with a Temporal of its own.
 */
export async function startStack(cluster: BenchCluster, everything = false): Promise<Stack> {
  const temporal = everything ? await startTemporal() : undefined;
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-bench-gateway-'));
  const [u = 0, f = 0, a = 0, g = 0] = await freePorts(4);
  const url = (port: number) => `http://127.0.0.1:${port}`;
  const children: ChildProcess[] = [];
  const part = async (
    script: string,
    port: number,
    env: Record<string, string>,
    ready?: string,
  ): Promise<Part> => {
    const child = startScript(script, { ...env, PORT: String(port) });
    children.push(child);
    await waitFor(`${url(port)}${ready ?? '/'}`, ready !== undefined);
    return { url: url(port), pid: child.pid as number };
  };
  const upstream = await part('bench/processes/upstream.ts', u, {});
  const floor = await part('bench/processes/floor-proxy.ts', f, { UPSTREAM_URL: url(u) });
  // Migrated by the API, which may be that of another version.
  const database_url = await cluster.database(`bench_stack_${Date.now()}`, { is_empty: true });
  const control_plane_env = {
    DATABASE_URL: database_url,
    SVC_SECRETS_KEY: randomBytes(32).toString('base64'),
    // No route that the bench calls needs Temporal.
    TEMPORAL_ADDRESS: temporal?.address ?? '127.0.0.1:1',
    LOG_LEVEL: 'error',
  };
  const api_env = { ...control_plane_env, API_PORT: String(a) };
  const api = await part('api/main.ts', a, api_env, '/readyz');
  const { org_id } = await seedHotWallet(database_url);
  const keys = await seedKeys(database_url, org_id, 'first', everything);
  const config = path.join(folder, 'gateway.yaml');
  const settings = { ...settingsFor(url(u)), ...(everything ? allOn(keys.gateway_key_id) : {}) };
  writeFileSync(config, stringify(settings));
  const gateway_env = {
    CONTROL_PLANE_URL: url(a),
    CONTROL_PLANE_TOKEN: keys.control_plane,
    GATEWAY_CONFIG: config,
    GATEWAY_PORT: String(g),
    BENCH_KEY: 'bench',
    LOG_LEVEL: 'error',
  };
  const gateway = await part('gateway/main.ts', g, gateway_env, '/readyz');
  const worker = temporal && startScript(workers_script, { ...few_heaps, ...control_plane_env });
  if (worker) {
    children.push(worker);
    await temporal?.workersFor(['payments', 'lifecycle'], [worker]);
  }
  return {
    upstream,
    floor,
    api,
    gateway,
    ...(worker && { worker: { pid: worker.pid as number } }),
    gateway_key: keys.gateway,
    control_plane_key: keys.control_plane,
    org_id,
    database_url,
    async stop() {
      for (const child of children.reverse()) await end(child);
      await temporal?.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The gateway's file: one model and one tool server at the given address. */
function settingsFor(upstream_url: string) {
  const target = {
    id: 'bench',
    provider: 'openai',
    shape: 'openai',
    base_url: `${upstream_url}/v1`,
    api_key_env: 'BENCH_KEY',
    models: ['gpt-4o-mini'],
  };
  // One key holds all that a row of this version lets wait; older ones lack some of the bounds.
  const cost_tickets = { held_max: 2_000, held_per_org_max: 2_000, held_per_key_max: 2_000 };
  const mcp = { servers: [{ name: 'bench', url: `${upstream_url}/mcp` }] };
  const held = measured_folder === root ? { cost_tickets } : {};
  return { providers: { targets: [target] }, ...held, mcp };
}
