import type { BenchCluster } from './cluster';
import { cpuMs } from './cpu';
import { chatBody, firstBytes, median, sendMany, streamBody } from './load';
import type { Row } from './main';
import { startPeer } from './peer';
import { type Stack, startStack } from './stack';

// No provider answers sooner. Behind one that takes no time a proxy is never idle: it is woken once for many requests, and a
// request costs the floor proxy a third of what it costs at the same rate as the gateway.
const ANSWER_AFTER_MS = 20;
const ROUNDS = 5;
const REQUESTS = 2_000;
const WARM_UP = 5_000;
const IN_FLIGHT = 32;
const STREAMS = 300;
const path = '/v1/chat/completions';

/** CPU per priced chat request at the gateway and in all processes, and the time it adds to a stream's first byte. */
export async function gatewayRows(cluster: BenchCluster): Promise<Row[]> {
  const stack = await startStack(cluster, { everything: true, answer_after_ms: ANSWER_AFTER_MS });
  const peer = await startPeer(stack.upstream.url);
  try {
    const { floor, gateway, api, pg, passed } = await cpuOfAll(cluster, stack, peer);
    return [
      cpuRow(gateway, floor),
      peerRow({ gateway, api, pg }, passed),
      await firstByteRow(stack),
    ];
  } finally {
    await peer.stop();
    await stack.stop();
  }
}

type Parts = Record<'floor' | 'gateway' | 'api' | 'pg' | 'passed', number>;

/** Turn by turn, so that what the machine does besides is shared by all; the median of each. */
async function cpuOfAll(
  cluster: BenchCluster,
  stack: Stack,
  peer: Awaited<ReturnType<typeof startPeer>>,
): Promise<Parts> {
  const ours = { gateway: [stack.gateway.pid], api: [stack.api.pid], pg: [cluster.pid] };
  const turns = {
    floor: (n: number) => cpuPerRequest(stack.floor.url, {}, { floor: [stack.floor.pid] }, n),
    ours: (n: number) => cpuPerRequest(stack.gateway.url, key(stack), ours, n),
    peer: (n: number) => cpuPerRequest(peer.url, peer.headers, { passed: [peer.pid] }, n),
  };
  for (const turn of Object.values(turns)) await turn(WARM_UP);
  const rounds: Parts[] = [];
  while (rounds.length < ROUNDS) {
    rounds.push({
      ...(await turns.floor(REQUESTS)),
      ...(await turns.ours(REQUESTS)),
      ...(await turns.peer(REQUESTS)),
    });
  }
  const names = ['floor', 'gateway', 'api', 'pg', 'passed'] as const;
  return Object.fromEntries(
    names.map((name) => [name, median(rounds.map((round) => round[name]))]),
  ) as Parts;
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

function peerRow(
  { gateway, api, pg }: Pick<Parts, 'gateway' | 'api' | 'pg'>,
  peer_ms: number,
): Row {
  const all = gateway + api + pg;
  const parts = [gateway, api, pg].map((ms) => ms.toFixed(2)).join(' + ');
  return {
    measure:
      'gateway + API + PostgreSQL CPU of that request against a public peer that only passes it on',
    figure: `${all.toFixed(2)} ms (${parts}) against ${peer_ms.toFixed(2)} ms`,
    ratio: all / peer_ms,
    bar: 'below 1 x',
    isMet: all < peer_ms,
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
  requests: number,
): Promise<Record<Name, number>> {
  const names = Object.keys(groups) as Name[];
  const before = names.map((name) => cpuMs(groups[name]));
  await sendMany({ url, path, headers, body: chatBody, in_flight: IN_FLIGHT, requests });
  const spent = names.map((name, n) => [name, (cpuMs(groups[name]) - (before[n] ?? 0)) / requests]);
  return Object.fromEntries(spent) as Record<Name, number>;
}
