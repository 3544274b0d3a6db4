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
import { pacedStreamBody, sendMany } from './load';
import type { Row } from './row';

const ROUNDS = 5;
const STREAMS = 400;
const WARM_UP = 1_000;
const IN_FLIGHT = 16;

type Round = Shares & { passed: number };

/**
 * CPU of a stream whose 20 chunks come one by one, 5 ms after each other: the provider's pace, so
 * that nothing is passed on at once that a person would see word by word.
 */
export async function streamRow(installation: Installation): Promise<Row> {
  const { stack, peer } = installation;
  const ours = (requests: number) => streams(stack.gateway.url, keyOf(stack), requests);
  const passed = (requests: number) => streams(peer.url, peer.headers, requests);
  for (const way of [ours, passed]) await way(WARM_UP)();
  const rounds: Round[] = [];
  while (rounds.length < ROUNDS) {
    const spent = {
      ...(await spentBy(partsOf(installation), ours(STREAMS))),
      ...(await spentBy({ passed: peer.pid }, passed(STREAMS))),
    };
    const each = Object.entries(spent).map(([name, ms]) => [name, ms / STREAMS]);
    rounds.push(Object.fromEntries(each) as Round);
  }
  const ratioOf = (round: Round) => sumOf(round) / round.passed;
  const round = middle(rounds, ratioOf);
  return {
    measure:
      'a stream of 20 chunks, 5 ms apart, 16 in flight, everything on: CPU of gateway + API + worker + PostgreSQL against the public peer',
    figure: `${wordsFor(round)} against ${round.passed.toFixed(2)} ms`,
    ratio: ratioOf(round),
    bar: 'at most 1.2 x',
    isMet: ratioOf(round) <= 1.2,
  };
}

function streams(url: string, headers: Record<string, string>, requests: number) {
  const load = { url, headers, path: '/v1/chat/completions', body: pacedStreamBody };
  return () => sendMany({ ...load, in_flight: IN_FLIGHT, requests });
}
