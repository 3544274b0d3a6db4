import type { BenchCluster } from './cluster';
import { cpuMs } from './cpu';
import { chatBody, firstBytes, median, sendMany, streamBody } from './load';
import type { Row } from './main';
import { startPeer } from './peer';
import { type Stack, startStack } from './stack';

const REQUESTS = 8_000;
const WARM_UP = 5_000;
const IN_FLIGHT = 32;
const STREAMS = 300;
const path = '/v1/chat/completions';

/** CPU per priced chat request at the gateway and in all processes, and the time it adds to a stream's first byte. */
export async function gatewayRows(cluster: BenchCluster): Promise<Row[]> {
  const stack = await startStack(cluster, true);
  const peer = await startPeer(stack.upstream.url);
  try {
    const ours = [stack.gateway.pid, stack.api.pid, cluster.pid];
    const floor_ms = await cpuPerRequest(stack.floor.url, {}, { floor: [stack.floor.pid] });
    const priced = await cpuPerRequest(stack.gateway.url, key(stack), {
      gateway: [stack.gateway.pid],
      api: [stack.api.pid],
      pg: [cluster.pid],
      all: ours,
    });
    const passed = await cpuPerRequest(peer.url, peer.headers, { peer: [peer.pid] });
    return [
      cpuRow(priced.gateway, floor_ms.floor),
      peerRow(priced, passed.peer),
      await firstByteRow(stack),
    ];
  } finally {
    await peer.stop();
    await stack.stop();
  }
}

function cpuRow(gateway_ms: number, floor_ms: number): Row {
  const ratio = gateway_ms / floor_ms;
  return {
    measure:
      'gateway CPU per priced chat request, 32 in flight, key + six tiers + policy pack + reserve + settle + events',
    figure: `${gateway_ms.toFixed(3)} ms against ${floor_ms.toFixed(3)} ms of the floor proxy`,
    ratio,
    bar: 'at most 3.5 x',
    isMet: ratio <= 3.5,
  };
}

function peerRow(ours: Record<'gateway' | 'api' | 'pg' | 'all', number>, peer_ms: number): Row {
  const parts = [ours.gateway, ours.api, ours.pg].map((ms) => ms.toFixed(2)).join(' + ');
  return {
    measure:
      'gateway + API + PostgreSQL CPU of that request against a public peer that only passes it on',
    figure: `${ours.all.toFixed(2)} ms (${parts}) against ${peer_ms.toFixed(2)} ms`,
    ratio: ours.all / peer_ms,
    bar: 'below 1 x',
    isMet: ours.all < peer_ms,
  };
}

async function firstByteRow(stack: Stack): Promise<Row> {
  const measure = async (url: string, headers: Record<string, string>, requests: number) =>
    median(await firstBytes({ url, path, headers, body: streamBody, requests }));
  const round = async (requests: number) => ({
    direct: await measure(stack.upstream.url, {}, requests),
    floor: await measure(stack.floor.url, {}, requests),
    gateway: await measure(stack.gateway.url, key(stack), requests),
    reserve: await reserveTime(stack, requests),
  });
  await round(50);
  const { direct, floor, gateway, reserve } = await round(STREAMS);
  const ratio = (gateway - reserve - direct) / (floor - direct);
  return {
    measure: "time added to a stream's first byte, 1 in flight, reserve's round trip taken off",
    figure: `${(gateway - reserve - direct).toFixed(2)} ms (reserve ${reserve.toFixed(2)} ms) against ${(floor - direct).toFixed(2)} ms`,
    ratio,
    bar: 'at most 2.5 x',
    isMet: ratio <= 2.5,
  };
}

/** Median of a reserve through the same batch route that the gateway uses. */
async function reserveTime(stack: Stack, requests: number): Promise<number> {
  const headers = { authorization: `Bearer ${stack.control_plane_key}` };
  const body = JSON.stringify({
    items: [
      {
        id: '1',
        op: 'reserve',
        body: {
          org_id: stack.org_id,
          provider: 'openai',
          model: 'gpt-4o-mini',
          estimated_prompt_tokens: 180,
          max_completion_tokens: 256,
          request_body_hash: `sha256:${'0'.repeat(64)}`,
        },
      },
    ],
  });
  return median(
    await firstBytes({
      url: stack.api.url,
      path: '/v1/gateway/wallets/batch',
      headers,
      body,
      requests,
    }),
  );
}

function key(stack: Stack): Record<string, string> {
  return { authorization: `Bearer ${stack.gateway_key}` };
}

async function cpuPerRequest<Name extends string>(
  url: string,
  headers: Record<string, string>,
  groups: Record<Name, number[]>,
): Promise<Record<Name, number>> {
  const load = { url, path, headers, body: chatBody, in_flight: IN_FLIGHT };
  await sendMany({ ...load, requests: WARM_UP });
  const names = Object.keys(groups) as Name[];
  const before = names.map((name) => cpuMs(groups[name]));
  await sendMany({ ...load, requests: REQUESTS });
  const spent = names.map((name, n) => [name, (cpuMs(groups[name]) - (before[n] ?? 0)) / REQUESTS]);
  return Object.fromEntries(spent) as Record<Name, number>;
}
