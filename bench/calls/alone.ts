import { openDatabase } from '../../runtime/database';
import { chatBody, firstBytes, median, sendMany } from '../load';
import { withKoaRoute } from '../programs';
import type { Row } from '../row';
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

const path = '/v1/chat/completions';
const ROUNDS = 5;
const REQUESTS = 300;
const PACED = { per_second: 20, requests: 100, rounds: 3, lead: 20 };

/** Median milliseconds of each way, and CPU milliseconds a call. */
interface Round extends Shares {
  direct: number;
  floor: number;
  ours: number;
  peer: number;
  koa: number;
  commit: number;
  passed: number;
}

/**
 * A priced call with no other in flight: the time that it adds, against the work that no such call
 * can be without, and its CPU. All in turns, so that other work of the machine is shared.
 */
export async function aloneRows(installation: Installation): Promise<Row[]> {
  const { stack, peer } = installation;
  const rounds = await withKoaRoute(async (koa) => {
    const committing = await openCommits(stack.database_url);
    const measured: Round[] = [];
    for (let n = -1; n < ROUNDS; n += 1) {
      const ours = await inTurn(partsOf(installation), stack.gateway.url, keyOf(stack));
      const passed = await inTurn({ passed: peer.pid }, peer.url, peer.headers);
      const round = {
        ...ours.spent,
        ...passed.spent,
        ours: ours.p50,
        peer: passed.p50,
        direct: await p50(stack.upstream.url),
        floor: await p50(stack.floor.url),
        koa: await p50(koa.url),
        commit: median(await committing.times(REQUESTS)),
      };
      // The first round only warms what the others need.
      if (n >= 0) measured.push(round);
    }
    await committing.close();
    return measured;
  });
  return [addedRow(rounds), cpuRow(rounds)];
}

function addedRow(rounds: readonly Round[]): Row {
  const least = ({ floor, direct, koa, commit }: Round) => floor - direct + koa + commit;
  const ratioOf = (round: Round) => (round.ours - round.direct) / least(round);
  const round = middle(rounds, ratioOf);
  const { direct, floor, ours, koa, commit, peer } = round;
  const parts = [floor - direct, koa, commit].map((ms) => ms.toFixed(2)).join(' + ');
  return {
    measure:
      'priced chat call, 1 in flight, everything on: added p50, against floor proxy + a round trip to an idle Koa route + an update and commit',
    figure: `${(ours - direct).toFixed(2)} ms against ${least(round).toFixed(2)} ms (${parts}); the public peer adds ${(peer - direct).toFixed(2)} ms`,
    ratio: ratioOf(round),
    bar: 'at most 2.5 x',
    isMet: ratioOf(round) <= 2.5,
  };
}

function cpuRow(rounds: readonly Round[]): Row {
  const ratioOf = (round: Round) => sumOf(round) / round.passed;
  const round = middle(rounds, ratioOf);
  return {
    measure:
      'the same, 1 in flight: CPU of gateway + API + worker + PostgreSQL against the public peer',
    figure: `${wordsFor(round)} against ${round.passed.toFixed(2)} ms`,
    ratio: ratioOf(round),
    bar: 'at most 2 x',
    isMet: ratioOf(round) <= 2,
  };
}

/** A priced call each 50 ms, as ten developers make them: each wakes what has gone to sleep. */
export async function pacedRow(installation: Installation): Promise<Row> {
  const { stack, peer } = installation;
  const rounds: (Shares & { passed: number })[] = [];
  const paced = (url: string, headers: Record<string, string>, requests: number) => () =>
    sendMany({
      url,
      path,
      headers,
      body: chatBody,
      in_flight: 1,
      requests,
      per_second: PACED.per_second,
    });
  const spent = async <Name extends string>(
    pids: Record<Name, number>,
    url: string,
    headers: Record<string, string>,
  ) => {
    // What follows these is counted, and what follows the last of the others is not.
    await paced(url, headers, PACED.lead)();
    return perCall(await spentBy(pids, paced(url, headers, PACED.requests), 0), PACED.requests);
  };
  while (rounds.length < PACED.rounds) {
    rounds.push({
      ...(await spent(partsOf(installation), stack.gateway.url, keyOf(stack))),
      ...(await spent({ passed: peer.pid }, peer.url, peer.headers)),
    });
  }
  const ratioOf = (round: Shares & { passed: number }) => sumOf(round) / round.passed;
  const round = middle(rounds, ratioOf);
  return {
    measure:
      'a priced call each 50 ms: CPU of gateway + API + worker + PostgreSQL against the public peer at that rate',
    figure: `${wordsFor(round)} against ${round.passed.toFixed(2)} ms`,
    ratio: ratioOf(round),
    bar: 'at most 2.5 x',
    isMet: ratioOf(round) <= 2.5,
  };
}

/** Calls one after the other: their median, and what each costs the processes. */
async function inTurn<Name extends string>(
  pids: Record<Name, number>,
  url: string,
  headers: Record<string, string>,
) {
  let taken = 0;
  const spent = await spentBy(pids, async () => {
    taken = await p50(url, headers);
  });
  return { p50: taken, spent: perCall(spent, REQUESTS) };
}

async function p50(url: string, headers: Record<string, string> = {}): Promise<number> {
  return median(
    await firstBytes({ url, path, headers, body: chatBody, requests: REQUESTS, pause_ms: 0 }),
  );
}

function perCall<Name extends string>(
  spent: Record<Name, number>,
  calls: number,
): Record<Name, number> {
  const each = Object.entries<number>(spent).map(([name, ms]) => [name, ms / calls]);
  return Object.fromEntries(each);
}

/** An update of one row and its commit, by the driver and with the settings of the API. */
async function openCommits(database_url: string) {
  const db = openDatabase(database_url, 1);
  await db.raw('create table if not exists bench_row (id int primary key, count bigint not null)');
  await db.raw('insert into bench_row values (1, 0) on conflict do nothing');
  return {
    times: async (count: number) => {
      const times: number[] = [];
      for (let n = 0; n < count; n += 1) {
        const started = performance.now();
        await db.raw('update bench_row set count = count + ? where id = ?', [1, 1]);
        times.push(performance.now() - started);
      }
      return times;
    },
    close: () => db.destroy(),
  };
}
