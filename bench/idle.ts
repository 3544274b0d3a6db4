import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Demo } from '../sandbox/demo/facts';
import { cpuByProcess } from './cpu';
import { sendMany } from './load';
import { end, startScript } from './programs';
import type { Row } from './row';

const READY_MS = 60_000;
const CALLS = 20;
const QUIET_MS = 60_000;
const MEASURED_MS = 60_000;

/**
 * CPU of all that `npm start` runs, Temporal aside, in a minute after one without a call; in
 * percent of a core.
 */
export async function idleRow(): Promise<Row> {
  const data_dir = mkdtempSync(path.join(tmpdir(), 'svc-bench-idle-'));
  chmodSync(data_dir, 0o711);
  const start = startScript('sandbox/start.ts', { DATA_DIR: data_dir, PORTS: 'free' });
  try {
    const demo = await demoOf(data_dir);
    await callSome(demo);
    await sleep(QUIET_MS);
    const before = cpuByProcess(start.pid as number);
    const since = performance.now();
    await sleep(MEASURED_MS);
    const elapsed_ms = performance.now() - since;
    const after = cpuByProcess(start.pid as number);
    const names = namesOf(demo);
    const shares: Record<string, number> = {};
    // A process that has ended meanwhile is in its parent's time, so sums are compared.
    for (const [uses, sign] of [
      [after, 1],
      [before, -1],
    ] as const) {
      for (const { pid, parent, ms } of uses) {
        const name = names.get(pid) ?? names.get(parent) ?? 'npm start and sandbox';
        shares[name] = (shares[name] ?? 0) + (sign * ms) / elapsed_ms;
      }
    }
    return rowOf(shares);
  } finally {
    await end(start);
    rmSync(data_dir, { recursive: true, force: true });
  }
}

function rowOf({ temporal = 0, ...shares }: Record<string, number>): Row {
  const percent = (share: number) => `${(100 * share).toFixed(2)} %`;
  const all = Object.values(shares).reduce((sum, share) => sum + share, 0);
  const parts = Object.entries(shares).map(([name, share]) => `${name} ${percent(share)}`);
  return {
    measure: 'CPU of an installation without a call for a minute, of one core, Temporal aside',
    figure: `${percent(all)} (${parts.join(', ')}); Temporal ${percent(temporal)}`,
    ratio: all / 0.02,
    bar: 'at most 2 %',
    isMet: all <= 0.02,
  };
}

/** The facts that a start writes once all of it works. */
async function demoOf(data_dir: string): Promise<Demo> {
  const file = path.join(data_dir, 'demo.json');
  for (const until = performance.now() + READY_MS; performance.now() < until; await sleep(200)) {
    try {
      return JSON.parse(readFileSync(file, 'utf8')) as Demo;
    } catch {
      // Not there yet.
    }
  }
  throw new Error(`npm start was not ready after ${READY_MS / 1_000} s.`);
}

async function callSome({ gateway_url, keys, models }: Demo): Promise<void> {
  const messages = [{ role: 'user', content: 'Some words.' }];
  await sendMany({
    url: gateway_url,
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${keys.gateway}` },
    body: JSON.stringify({ model: models[0], messages, max_tokens: 16 }),
    in_flight: 1,
    requests: CALLS,
  });
}

function namesOf({ pids }: Demo): Map<number, string> {
  const named: [string, (number | null)[]][] = [
    ['gateway', pids.gateways],
    ['API', pids.apis],
    ['worker', [pids.worker_lifecycle]],
    ['PostgreSQL', [pids.postgres]],
    ['temporal', [pids.temporal]],
  ];
  return new Map(named.flatMap(([name, all]) => all.map((pid) => [pid ?? 0, name] as const)));
}
