import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchCluster } from './cluster';
import { cpuMs } from './cpu';
import { chatBody, sendMany } from './load';
import { startPeer } from './peer';
import { type Stack, startStack } from './stack';

/** Everything on, and beside it a public peer that only passes requests on. */
export interface Installation {
  cluster: BenchCluster;
  stack: Stack;
  peer: Awaited<ReturnType<typeof startPeer>>;
}

/** CPU milliseconds; PostgreSQL's with its children. */
export type Shares = Record<'gateway' | 'api' | 'worker' | 'pg', number>;

// Compiles the code: many at once, since that is soon over, and then one by one.
const WARM_UP = { requests: 4_000, in_flight: 32, alone: 600 };

/** Starts it, and makes calls of the usual kind until all code is compiled. */
export async function openInstallation(cluster: BenchCluster) {
  const stack = await startStack(cluster, true);
  const peer = await startPeer(stack.upstream.url);
  for (const [url, headers] of [
    [stack.gateway.url, keyOf(stack)],
    [peer.url, peer.headers],
    [stack.floor.url, {}],
  ] as const) {
    const load = { path: '/v1/chat/completions', body: chatBody, url, headers };
    await sendMany({ ...load, in_flight: WARM_UP.in_flight, requests: WARM_UP.requests });
    await sendMany({ ...load, in_flight: 1, requests: WARM_UP.alone });
  }
  return {
    cluster,
    stack,
    peer,
    async stop() {
      await peer.stop();
      await stack.stop();
    },
  };
}

/** The processes that a request costs something in. */
export function partsOf({ cluster, stack }: Installation): Shares {
  const { gateway, api, worker } = stack;
  return { gateway: gateway.pid, api: api.pid, worker: worker?.pid ?? 0, pg: cluster.pid };
}

/** The head of the gateway's caller. */
export function keyOf({ gateway_key }: Stack): Record<string, string> {
  return { authorization: `Bearer ${gateway_key}` };
}

// Events leave within a second of their call; the last settlements are on their way, too.
const TAIL_MS = 1_100;

/** CPU milliseconds that each process spends on some work and on what follows it. */
export async function spentBy<Name extends string>(
  pids: Record<Name, number>,
  work: () => Promise<unknown>,
  tail_ms = TAIL_MS,
): Promise<Record<Name, number>> {
  const names = Object.keys(pids) as Name[];
  const before = names.map((name) => cpuMs([pids[name]]));
  await work();
  await sleep(tail_ms);
  const spent = names.map((name, n) => [name, cpuMs([pids[name]]) - (before[n] ?? 0)]);
  return Object.fromEntries(spent);
}

export function sumOf({ gateway, api, worker, pg }: Shares): number {
  return gateway + api + worker + pg;
}

/** Its parts as they stand in a figure: 0.47 + 0.23 + 0.00 + 0.36. */
export function wordsFor({ gateway, api, worker, pg }: Shares): string {
  const parts = [gateway, api, worker, pg].map((ms) => ms.toFixed(2)).join(' + ');
  return `${sumOf({ gateway, api, worker, pg }).toFixed(2)} ms (${parts})`;
}

/** The round whose ratio is the median: how fast the machine is changes from one to the next. */
export function middle<Round>(rounds: readonly Round[], ratioOf: (round: Round) => number): Round {
  const sorted = [...rounds].sort((a, b) => ratioOf(a) - ratioOf(b));
  return sorted[Math.floor(sorted.length / 2)] as Round;
}
