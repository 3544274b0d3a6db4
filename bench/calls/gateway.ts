import { request } from 'undici';
import type { Body } from '../../gateway/wire/values';
import { chatBody, firstBytes, median, sendMany, streamBody } from '../load';
import type { Row } from '../row';
import type { Stack } from '../stack';
import {
  type Installation,
  keyOf,
  middle,
  partsOf,
  type Shares,
  spentBy,
  sumOf,
  wordsFor,
} from './installation';

const ROUNDS = 7;
const REQUESTS = 2_000;
const WARM_UP = 3_000;
const IN_FLIGHT = 32;
const STREAMS = 600;
const TURN = 30;
const WARM_UP_TURNS = 5;
const STREAMS_WARM_UP = 3_000;
const path = '/v1/chat/completions';

/**
 * CPU per priced chat request at the gateway and in all processes, and the time it adds to a
 * stream's first byte.
 */
export async function gatewayRows(installation: Installation): Promise<Row[]> {
  const rounds = await cpuOfAll(installation);
  return [cpuRow(rounds), peerRow(rounds), await firstByteRow(installation.stack)];
}

/** CPU milliseconds a request. */
type Round = Shares & Record<'floor' | 'rushed' | 'passed', number>;

/**
 * Turn by turn, so that other work of the machine is shared by all. The floor proxy goes as fast as
 * it can (`rushed`). The cost of a request depends on how many come in a second: a proxy that is
 * never idle is woken once for many. So its cost at the gateway's own rate, evenly spread over its
 * connections, stands beside it (`floor`), and is only shown.
 */
async function cpuOfAll(installation: Installation): Promise<Round[]> {
  const { stack, peer } = installation;
  const ours = (n: number) =>
    cpuPerRequest(stack.gateway.url, keyOf(stack), partsOf(installation), n);
  const floor = <Name extends string>(name: Name, n: number, per_second?: number) => {
    const pids = { [name]: stack.floor.pid } as Record<Name, number>;
    return cpuPerRequest(stack.floor.url, {}, pids, n, per_second);
  };
  const passed = (n: number) => cpuPerRequest(peer.url, peer.headers, { passed: peer.pid }, n);
  for (const turn of [ours, passed]) await turn(WARM_UP);
  await floor('rushed', WARM_UP);
  const rounds: Round[] = [];
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

function cpuRow(rounds: readonly Round[]): Row {
  const ratioOf = ({ gateway, rushed }: Round) => gateway / rushed;
  const { gateway, floor, rushed } = middle(rounds, ratioOf);
  const ratio = gateway / rushed;
  return {
    measure:
      'gateway CPU per priced chat request, 32 in flight, everything on, against the floor proxy as fast as it goes',
    figure: `${gateway.toFixed(3)} ms against ${rushed.toFixed(3)} ms (${floor.toFixed(3)} ms at the gateway's rate: ${(gateway / floor).toFixed(2)} x)`,
    ratio,
    bar: 'at most 3.5 x',
    isMet: ratio <= 3.5,
  };
}

function peerRow(rounds: readonly Round[]): Row {
  const ratioOf = (round: Round) => sumOf(round) / round.passed;
  const round = middle(rounds, ratioOf);
  const ratio = ratioOf(round);
  return {
    measure:
      'the same, 32 in flight: CPU of gateway + API + worker + PostgreSQL against the public peer',
    figure: `${wordsFor(round)} against ${round.passed.toFixed(2)} ms`,
    ratio,
    bar: 'at most 0.8 x',
    isMet: ratio <= 0.8,
  };
}

async function firstByteRow(stack: Stack): Promise<Row> {
  const bytes = (url: string, headers: Record<string, string>) => () =>
    firstBytes({ url, path, headers, body: streamBody, requests: TURN });
  const ways = {
    direct: bytes(stack.upstream.url, {}),
    floor: bytes(stack.floor.url, {}),
    gateway: bytes(stack.gateway.url, keyOf(stack)),
    reserve: () => reserveTimes(stack, TURN),
  };
  // Until the code of streams is compiled, as that of whole answers is by now.
  const warm_up = { path, body: streamBody, in_flight: IN_FLIGHT, requests: STREAMS_WARM_UP };
  await sendMany({ ...warm_up, url: stack.floor.url, headers: {} });
  await sendMany({ ...warm_up, url: stack.gateway.url, headers: keyOf(stack) });
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
export async function reserveTimes(stack: Stack, requests: number): Promise<number[]> {
  const headers = { authorization: `Bearer ${stack.control_plane_key}` };
  const owner = await ownerOf(stack);
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

async function cpuPerRequest<Name extends string>(
  url: string,
  headers: Record<string, string>,
  pids: Record<Name, number>,
  requests: number,
  per_second?: number,
): Promise<Record<Name | 'per_second', number>> {
  let elapsed_ms = 0;
  const load = { url, path, headers, body: chatBody, in_flight: IN_FLIGHT, requests, per_second };
  const spent = await spentBy(pids, async () => {
    elapsed_ms = await sendMany(load);
  });
  const each = Object.entries<number>(spent).map(([name, ms]) => [name, ms / requests]);
  return { ...Object.fromEntries(each), per_second: (requests * 1_000) / elapsed_ms };
}

/** Whose key it is, as the gateway learns it. */
export async function ownerOf(stack: Stack): Promise<Body> {
  const verified = await request(`${stack.api.url}/v1/gateway/keys/verify`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${stack.control_plane_key}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ key: stack.gateway_key }),
  });
  const { allowed_models: _, expires_at: __, ...owner } = (await verified.body.json()) as Body;
  return owner;
}
