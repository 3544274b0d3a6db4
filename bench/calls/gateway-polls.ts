import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import * as configs from '../../domain/gateways/configs';
import { openDatabase } from '../../runtime/database';
import { freePorts } from '../../sandbox/processes/ports';
import type { BenchCluster } from '../cluster';
import { cpuMs } from '../cpu';
import { seedHotWallet } from '../ledger';
import { end, startScript, waitFor } from '../programs';
import type { Row } from '../row';
import { seedKeys } from '../seed';

const GATEWAYS = 200;
const WAIT_MS = 25_000;
const REPORT_MS = 20_000;
/** Two waits, so that every gateway asks anew at least twice. */
const MEASURED_MS = 50_000;
const IDLE_MS = 15_000;
const BAR = 0.01;

/** CPU of one API process whose 200 gateways wait for their configuration, of one core. */
export async function gatewayPollRow(cluster: BenchCluster): Promise<Row> {
  const url = await cluster.database('bench_gateway_polls');
  const { org_id } = await seedHotWallet(url);
  const { control_plane } = await seedKeys(url, org_id);
  await putConfig(url);
  const [port = 0] = await freePorts(1);
  const api = startScript('bench/processes/api-process.ts', {
    DATABASE_URL: url,
    PORT: String(port),
  });
  const address = `http://127.0.0.1:${port}`;
  // Not /readyz: it asks Temporal, which nobody runs here, and the client would go on trying.
  await waitFor(`${address}/health`, true);
  const pool = new Pool(address, { connections: 2 * GATEWAYS });
  const headers = { authorization: `Bearer ${control_plane}`, 'content-type': 'application/json' };
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const gateways = Array.from({ length: GATEWAYS }, (_, at) => ({ id: `gateway-${at}`, at }));
  const polling = gateways.map(({ id, at }) => pollOn(pool, { id, at, headers }, over.signal));
  await sleep(WAIT_MS);
  const polled = await shareOf(api.pid as number, MEASURED_MS);
  const reporting = gateways.map(({ id, at }) => reportOn(pool, { id, at, headers }, over.signal));
  const reported = await shareOf(api.pid as number, REPORT_MS);
  over.abort();
  await Promise.all([...polling, ...reporting]);
  await pool.destroy();
  // Last: what an API does as it starts would hide what its gateways cost.
  const idle = await shareOf(api.pid as number, IDLE_MS);
  const [waiting, all] = [polled - idle, reported - idle];
  await end(api);
  const percent = (share: number) => `${(100 * share).toFixed(2)} %`;
  return {
    measure: 'CPU of one API whose 200 gateways wait for their configuration, of one core',
    figure: `${percent(waiting)}; ${percent(all)} with their reports, one each in 20 s; ${percent(idle)} without gateways`,
    ratio: waiting / BAR,
    bar: 'at most 1 %',
    isMet: waiting <= BAR,
  };
}

/** Version 1, for all gateways. */
async function putConfig(url: string): Promise<void> {
  const db = openDatabase(url, 1);
  await configs.put(db, { config: { bench: true }, config_hash: null, note: null, by: 'bench' });
  await db.destroy();
}

interface Light {
  id: string;
  at: number;
  headers: Record<string, string>;
}

/** Waits for another configuration all the time, as a gateway does. */
async function pollOn(pool: Pool, { id, at, headers }: Light, signal: AbortSignal): Promise<void> {
  await sleep((at / GATEWAYS) * WAIT_MS);
  const path = `/v1/gateway/config?gateway_id=${id}&group=default&wait_ms=${WAIT_MS}`;
  while (!signal.aborted) {
    const asked = { ...headers, 'if-none-match': '"1"' };
    const answer = await pool
      .request({ method: 'GET', path, headers: asked, signal, headersTimeout: 2 * WAIT_MS })
      .catch(() => undefined);
    if (answer === undefined) continue;
    await answer.body.dump();
    if (answer.statusCode !== 304) throw new Error(`A poll was answered ${answer.statusCode}.`);
  }
}

async function reportOn(
  pool: Pool,
  { id, at, headers }: Light,
  signal: AbortSignal,
): Promise<void> {
  const started_at = new Date().toISOString();
  const counts = { finished: 0, own_5xx: 0, upstream_5xx: 0, refused: 0, lost_reports: 0 };
  await sleep((at / GATEWAYS) * REPORT_MS);
  while (!signal.aborted) {
    counts.finished += 7;
    const own = { id, host: 'bench', group: 'default', state: 'running', started_at };
    const runs = { config_version: null, config_hash: 'of its file', refused_version: null };
    const body = JSON.stringify({ ...own, ...runs, error: null, in_flight: 1, held: 0, counts });
    const path = '/v1/gateway/config/report';
    const answer = await pool.request({ method: 'POST', path, headers, body });
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`A report was answered ${answer.statusCode}.`);
    await sleep(REPORT_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** The share of a core that a process takes in a time. */
async function shareOf(pid: number, ms: number): Promise<number> {
  const before = cpuMs([pid]);
  const since = performance.now();
  await sleep(ms);
  return (cpuMs([pid]) - before) / (performance.now() - since);
}
