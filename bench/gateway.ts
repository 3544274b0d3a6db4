import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import type { Body } from '../gateway/wire/values';
import type { BenchCluster } from './cluster';
import { cpuMs } from './cpu';
import { chatBody, firstBytes, median, sendMany, streamBody } from './load';
import { startPeer } from './peer';
import type { Row } from './row';
import { type Stack, startStack } from './stack';

const ROUNDS = 7;
const REQUESTS = 2_000;
const WARM_UP = 8_000;
const IN_FLIGHT = 32;
const STREAMS = 600;
const TURN = 30;
const TAIL_MS = 500;
const WARM_UP_TURNS = 5;
const STREAMS_WARM_UP = 3_000;
const path = '/v1/chat/completions';

/**
 * CPU per priced chat request at the gateway and in all processes, and the time it adds to a
 * stream's first byte.
 */
export async function gatewayRows(cluster: BenchCluster): Promise<Row[]> {
  const stack = await startStack(cluster, true);
  const peer = await startPeer(stack.upstream.url);
  try {
    const rounds = await cpuOfAll(cluster, stack, peer);
    return [cpuRow(rounds), peerRow(rounds), await firstByteRow(stack)];
  } finally {
    await peer.stop();
    await stack.stop();
  }
}

/** CPU milliseconds a request. */
type Parts = Record<'gateway' | 'api' | 'pg' | 'floor' | 'rushed' | 'passed', number>;

/**
 * Turn by turn, so that other work of the machine is shared by all. The cost of a request depends
 * on how many come in a second: a proxy that is never idle is woken once for many. So the floor
 * proxy is given as many as the gateway serves, evenly spread over its connections; its cost at
 * full speed (`rushed`) stands beside it, and so that the ratio to it can be read too.
 */
async function cpuOfAll(
  cluster: BenchCluster,
  stack: Stack,
  peer: Awaited<ReturnType<typeof startPeer>>,
): Promise<Parts[]> {
  const own = { gateway: stack.gateway.pid, api: stack.api.pid, pg: cluster.pid };
  const ours = (n: number) => cpuPerRequest(stack.gateway.url, key(stack), own, n);
  const floor = <Name extends string>(name: Name, n: number, per_second?: number) =>
    cpuPerRequest(
      stack.floor.url,
      {},
      { [name]: stack.floor.pid } as Record<Name, number>,
      n,
      per_second,
    );
  const passed = (n: number) => cpuPerRequest(peer.url, peer.headers, { passed: peer.pid }, n);
  for (const turn of [ours, passed]) await turn(WARM_UP);
  await floor('rushed', WARM_UP);
  const rounds: Parts[] = [];
  while (rounds.length < ROUNDS) {
    const { per_second, ...served } = await ours(REQUESTS);
    rounds.push({
      ...served,
      ...(await floor('floor', REQUESTS, per_second)),
      ...(await floor('rushed', REQUESTS)),
      ...(await passed(REQUESTS)),
    });
  }
  return rounds;
}

/** The round whose ratio is the median: how fast the machine is changes from one to the next. */
function middle(rounds: readonly Parts[], ratioOf: (parts: Parts) => number): Parts {
  const ratio = median(rounds.map(ratioOf));
  return rounds.find((parts) => ratioOf(parts) === ratio) as Parts;
}

function cpuRow(rounds: readonly Parts[]): Row {
  const ratioOf = ({ gateway, floor }: Parts) => gateway / floor;
  const { gateway, floor, rushed } = middle(rounds, ratioOf);
  const ratio = gateway / floor;
  return {
    measure:
      'gateway CPU per priced chat request, 32 in flight, key + six tiers + policy pack + reserve + settle + events, against the floor proxy at that rate',
    figure: `${gateway.toFixed(3)} ms against ${floor.toFixed(3)} ms (${rushed.toFixed(3)} ms as fast as it goes)`,
    ratio,
    bar: 'at most 3.5 x',
    isMet: ratio <= 3.5,
  };
}

function peerRow(rounds: readonly Parts[]): Row {
  const allOf = ({ gateway, api, pg }: Parts) => gateway + api + pg;
  const { gateway, api, pg, passed } = middle(rounds, (parts) => allOf(parts) / parts.passed);
  const all = gateway + api + pg;
  const parts = [gateway, api, pg].map((ms) => ms.toFixed(2)).join(' + ');
  return {
    measure:
      'gateway + API + PostgreSQL CPU of that request against a public peer that only passes it on',
    figure: `${all.toFixed(2)} ms (${parts}) against ${passed.toFixed(2)} ms`,
    ratio: all / passed,
    bar: 'below 1 x',
    isMet: all < passed,
  };
}

async function firstByteRow(stack: Stack): Promise<Row> {
  const bytes = (url: string, headers: Record<string, string>) => () =>
    firstBytes({ url, path, headers, body: streamBody, requests: TURN });
  const ways = {
    direct: bytes(stack.upstream.url, {}),
    floor: bytes(stack.floor.url, {}),
    gateway: bytes(stack.gateway.url, key(stack)),
    reserve: () => reserveTimes(stack, TURN),
  };
  // Until the code of streams is compiled, as that of whole answers is by now.
  const warm_up = { path, body: streamBody, in_flight: IN_FLIGHT, requests: STREAMS_WARM_UP };
  await sendMany({ ...warm_up, url: stack.floor.url, headers: {} });
  await sendMany({ ...warm_up, url: stack.gateway.url, headers: key(stack) });
  const times = { direct: [], floor: [], gateway: [], reserve: [] } as Record<string, number[]>;
  for (let done = -WARM_UP_TURNS * TURN; done < STREAMS; done += TURN) {
    for (const [name, way] of Object.entries(ways)) {
      const taken = await way();
      if (done >= 0) times[name]?.push(...taken);
    }
  }
  const of = (name: keyof typeof ways) => median(times[name] ?? []);
  const [direct, floor, gateway, reserve] = [
    of('direct'),
    of('floor'),
    of('gateway'),
    of('reserve'),
  ];
  const ratio = (gateway - reserve - direct) / (floor - direct);
  return {
    measure: "time added to a stream's first byte, 1 in flight, reserve's round trip taken off",
    figure: `${(gateway - reserve - direct).toFixed(2)} ms (reserve ${reserve.toFixed(2)} ms) against ${(floor - direct).toFixed(2)} ms`,
    ratio,
    bar: 'at most 2.5 x',
    isMet: ratio <= 2.5,
  };
}

/** Reserves of the same key through the same batch route as the gateway's. */
async function reserveTimes(stack: Stack, requests: number): Promise<number[]> {
  const headers = { authorization: `Bearer ${stack.control_plane_key}` };
  const verified = await request(`${stack.api.url}/v1/gateway/keys/verify`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ key: stack.gateway_key }),
  });
  const { allowed_models: _, expires_at: __, ...owner } = (await verified.body.json()) as Body;
  const reserve = {
    ...owner,
    family: 'chat.completions',
    provider: 'openai',
    model: 'gpt-4o-mini',
    estimated_prompt_tokens: 180,
    max_completion_tokens: 256,
    request_body_hash: `sha256:${'0'.repeat(64)}`,
    identity_proof_method: 'gateway_key',
  };
  return firstBytes({
    url: stack.api.url,
    path: '/v1/gateway/wallets/batch',
    headers,
    body: JSON.stringify({ items: [{ id: '1', op: 'reserve', body: reserve }] }),
    requests,
  });
}

function key(stack: Stack): Record<string, string> {
  return { authorization: `Bearer ${stack.gateway_key}` };
}

async function cpuPerRequest<Name extends string>(
  url: string,
  headers: Record<string, string>,
  pids: Record<Name, number>,
  requests: number,
  per_second?: number,
): Promise<Record<Name | 'per_second', number>> {
  const names = Object.keys(pids) as Name[];
  const before = names.map((name) => cpuMs([pids[name]]));
  const load = { url, path, headers, body: chatBody, in_flight: IN_FLIGHT, requests, per_second };
  const elapsed_ms = await sendMany(load);
  // The last settlements and events are on their way.
  await sleep(TAIL_MS);
  const spent = names.map((name, n) => [name, (cpuMs([pids[name]]) - (before[n] ?? 0)) / requests]);
  return { ...Object.fromEntries(spent), per_second: (requests * 1_000) / elapsed_ms };
}
