import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { type Db, one } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { listen } from '../../runtime/listen';
import { createReceiver, createReceiverServer } from '../../sandbox/notices/receiver';
import { gatewayToken } from '../../test/support/keys';
import { makePrice, reserveBody } from '../../test/support/ledger';
import type { BenchCluster } from '../cluster';
import { median } from '../load';
import { percentile, type Row } from '../row';
import { type Buyer, openShop, type Shop, wish } from './shop';

/** Of each of the two organizations of a burst, as many as may be open. */
const TICKETS = 500;
const BURSTS = 3;
const IN_FLIGHT = 50;
const HANGING = 50;
/** A person may have ten open. */
const CHECKOUTS_EACH = 8;
const GIVE_UP_MS = 120_000;

interface Town {
  shop: Shop;
  receiver: ReturnType<typeof createReceiver>;
  receiver_url: string;
  api: Pool;
  /** The gateway's own token. */
  machine: string;
}

/**
 * Being told in time: the first notice of a burst of 1,000 tickets, and what people at a checkout
 * feel of it while destinations hang.
 */
export async function noticeRows(cluster: BenchCluster): Promise<Row[]> {
  // For each round two buy alone and two in the organizations of the burst.
  const env = { NOTICE_NETWORKS: '127.0.0.0/8' };
  const shop = await openShop(cluster, { buyers: 4 * BURSTS, env });
  const receiver = createReceiver();
  const server = createReceiverServer(receiver);
  const api = new Pool(shop.api_url, { connections: IN_FLIGHT });
  const db = openDatabase(shop.database_url, 2);
  try {
    await makePrice(db);
    const receiver_url = `http://127.0.0.1:${await listen(server, 0)}`;
    const town = { shop, receiver, receiver_url, api, machine: await gatewayToken(db) };
    for (let buyer = 0; buyer < 2; buyer += 1) await shop.ask('create-checkout', wish, buyer);
    // Before all bursts: what they leave to be sent takes a minute.
    const buyers = shop.buyers.map((_, n) => n);
    const alone = await checkouts(shop, buyers.slice(2 * BURSTS));
    const rounds: Round[] = [];
    for (let n = 0; n < BURSTS; n += 1)
      rounds.push(await measureRound(town, db, buyers.slice(2 * n, 2 * n + 2)));
    return rowsOf(alone, rounds);
  } finally {
    await db.destroy();
    await api.close();
    server.closeAllConnections();
    server.close();
    await shop.stop();
  }
}

interface Round {
  /** From the first ticket of the burst to the arrival of the first message, in milliseconds. */
  first_ms: number;
  /** Milliseconds of each checkout during the burst. */
  beside: number[];
}

function rowsOf(checkouts_alone: number[], rounds: readonly Round[]): Row[] {
  const first = median(rounds.map(({ first_ms }) => first_ms));
  const alone = percentile(checkouts_alone, 0.95);
  const beside = percentile(
    rounds.flatMap((one) => one.beside),
    0.95,
  );
  return [
    {
      measure: `first notice of a burst of ${2 * TICKETS} tickets, ${HANGING} destinations hang`,
      figure: `${first.toFixed(0)} ms after the first ticket`,
      ratio: first / 1_000,
      bar: 'under 1 s',
      isMet: first < 1_000,
    },
    {
      measure: 'create-checkout p95 during that burst, against alone',
      figure: `${beside.toFixed(0)} ms against ${alone.toFixed(0)} ms`,
      ratio: beside / alone,
      bar: 'at most 1.5 x',
      isMet: beside <= 1.5 * alone,
    },
  ];
}

async function measureRound(town: Town, db: Db, buyers: readonly number[]): Promise<Round> {
  const { shop, receiver } = town;
  const told = await Promise.all(
    buyers.map((buyer) => makeDestinations(town, shop.buyers[buyer] as Buyer)),
  );
  const burst = Promise.all(buyers.map((buyer) => makeTickets(town, shop.buyers[buyer] as Buyer)));
  const beside = await checkouts(shop, buyers);
  await burst;
  const arrived = () => receiver.arrivals.filter(({ path }) => told.includes(path));
  await until(() => arrived().reduce((sum, { body }) => sum + body.data.count, 0) >= 2 * TICKETS);
  const org_ids = buyers.map((buyer) => shop.buyers[buyer]?.org_id as string);
  const { began } = await one<{ began: Date }>(
    db,
    'select min(created_at) as began from cost_tickets where org_id = any (:org_ids)',
    { org_ids },
  );
  const first = Math.min(...arrived().map(({ at }) => Date.parse(at)));
  receiver.clearFaults();
  return { first_ms: first - began.getTime(), beside };
}

/** One checkout at a time, in turns; milliseconds of each. */
async function checkouts({ ask }: Shop, buyers: readonly number[]): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < CHECKOUTS_EACH; n += 1)
    for (const buyer of buyers) {
      const began = performance.now();
      await ask('create-checkout', wish, buyer);
      times.push(performance.now() - began);
    }
  return times;
}

/** Half of those that hang, and one that answers, whose path this is. */
async function makeDestinations(town: Town, { key }: Buyer): Promise<string> {
  const { receiver, receiver_url } = town;
  const make = async () => {
    const path = `/hooks/${randomUUID()}`;
    const kinds = ['ticket_created'];
    const body = { name: path, channel: 'webhook', url: `${receiver_url}${path}`, kinds };
    await post(town, '/v1/notice-destinations', key, body, 201);
    return path;
  };
  const live = await make();
  for (let n = 0; n < HANGING / 2; n += 1)
    receiver.addFault({ path: await make(), answer: 'timeout', times: 0 });
  return live;
}

/** Reserves that nothing covers, each with a ticket of its own. */
async function makeTickets(town: Town, { org_id }: Buyer): Promise<void> {
  let left = TICKETS;
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      const request_body_hash = `sha256:${randomUUID().replaceAll('-', '').repeat(2)}`;
      const body = { ...reserveBody(org_id, 100), request_body_hash };
      await post(town, '/v1/gateway/wallets/reserve', town.machine, body, 402);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT / 2 }, lane));
}

async function post(
  { api }: Town,
  path: string,
  key: string,
  body: object,
  status: number,
): Promise<void> {
  const answer = await api.request({
    path,
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
  });
  const text = await answer.body.text();
  if (answer.statusCode !== status)
    throw new Error(`${path} answered ${answer.statusCode}: ${text}`);
}

async function until(isDone: () => boolean): Promise<void> {
  const began = performance.now();
  while (!isDone()) {
    if (performance.now() - began > GIVE_UP_MS) throw new Error('Not all were told in time.');
    await sleep(20);
  }
}
