import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { type Batches, openBatches } from '../api/ledger/batches';
import { openWaiters } from '../api/ledger/waiters';
import * as organizations from '../domain/people/organizations';
import { type Db, many, maybe, one } from '../domain/sql';
import { openDatabase } from '../runtime/database';
import { createLog } from '../runtime/log';
import type { BenchCluster } from './cluster';
import { residentBytes } from './cpu';
import { cycles, seedHotWallet } from './ledger';
import { chatBody, median } from './load';
import { percentile, type Row } from './row';
import { seedKeys } from './seed';
import { type Stack, startStack } from './stack';

const HELD = 100;
const HELD_FOR_MEMORY = 1_000;
const WAITERS = 1_000;
const WAIT_MS = 30_000;
const SECONDS = 5;
const ROUNDS = 3;
// Longer than the pause between two looks at a queue, which a lonely credit does not meet.
const PAUSE_MS = 40;
const GIVE_UP_MS = 2_000;
/** Calls with one body share a ticket, and a key may have 50 open. */
const BODIES = 40;

/**
 * The cost of waiting calls: the way from a credit to their first byte, the ledger's other work,
 * and memory.
 */
export async function ticketRows(cluster: BenchCluster): Promise<Row[]> {
  const stack = await startStack(cluster);
  const db = openDatabase(stack.database_url, 4);
  try {
    return [await wakeRow(stack, db), await heldMemoryRow(stack, db), await throughputRow(cluster)];
  } finally {
    await db.destroy();
    await stack.stop();
  }
}

interface Poor {
  org_id: string;
  wallet_id: string;
  key: string;
}

/** An organization without money, and a key of it. */
async function makePoor(stack: Stack, db: Db): Promise<Poor> {
  const { id: org_id } = await organizations.create(db, { name: randomUUID(), currency: 'USD' });
  const { gateway: key } = await seedKeys(stack.database_url, org_id, randomUUID());
  const { id: wallet_id } = await one<{ id: string }>(
    db,
    `select id from wallets where org_id = :org_id`,
    { org_id },
  );
  return { org_id, wallet_id, key };
}

/**
 * So many calls that wait at the gateway, of 40 bodies; `first_bytes` are
 * performance.now() of each.
 */
async function hold(stack: Stack, db: Db, poor: Poor, count: number) {
  const pool = new Pool(stack.gateway.url, { connections: count, headersTimeout: 0 });
  const first_bytes: number[] = [];
  const calls = Array.from({ length: count }, async (_, n) => {
    const body = JSON.stringify({ ...JSON.parse(chatBody), user: `caller ${n % BODIES}` });
    const answer = await pool.request({
      path: '/v1/chat/completions',
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${poor.key}` },
      body,
    });
    first_bytes.push(performance.now());
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`A held call got ${answer.statusCode}.`);
  });
  while ((await waitersOf(db, poor)) < count) await sleep(50);
  return { first_bytes, done: Promise.all(calls).then(() => pool.close()) };
}

async function waitersOf(db: Db, { org_id }: Poor): Promise<number> {
  const { count } = await one<{ count: number }>(
    db,
    `select count(*)::int as count from ticket_waiters
     where org_id = :org_id and answer is null and until > clock_timestamp()`,
    { org_id },
  );
  return count;
}

/** The money that the oldest waiting call needs; one nano if none waits any more. */
async function needOf(db: Db, { org_id }: Poor): Promise<bigint> {
  const row = await maybe<{ need: bigint }>(
    db,
    `select need_nanos as need from ticket_waiters where org_id = :org_id and answer is null order by since limit 1`,
    { org_id },
  );
  return row?.need ?? 1n;
}

async function credit(db: Db, { org_id, wallet_id }: Poor, amount: bigint): Promise<number> {
  await many(db, `select credit(:org_id, :wallet_id, :amount, 'bench')`, {
    org_id,
    wallet_id,
    amount,
  });
  return performance.now();
}

/** 100 calls wait; each credit pays for the oldest of them. */
async function wakeRow(stack: Stack, db: Db): Promise<Row> {
  const poor = await makePoor(stack, db);
  const held = await hold(stack, db, poor, HELD);
  const times: number[] = [];
  // Calls settle below their holds, and the rest pays for further ones between two credits.
  while ((await waitersOf(db, poor)) > 0) {
    const need = await needOf(db, poor);
    const answered = held.first_bytes.length;
    const committed_at = await credit(db, poor, need);
    const give_up_at = performance.now() + GIVE_UP_MS;
    while (held.first_bytes.length === answered && performance.now() < give_up_at) await sleep(1);
    const first_byte = held.first_bytes[answered];
    // None if the last one had just been paid for.
    if (first_byte !== undefined) times.push(first_byte - committed_at);
    await sleep(PAUSE_MS);
  }
  await held.done;
  const p50 = median(times);
  return {
    measure: `commit of a credit to the first byte of the call that it pays for, ${HELD} held`,
    figure: `p50 ${p50.toFixed(1)} ms, p95 ${percentile(times, 0.95).toFixed(1)} ms`,
    ratio: p50 / 50,
    bar: 'p50 under 50 ms',
    isMet: p50 < 50,
  };
}

async function heldMemoryRow(stack: Stack, db: Db): Promise<Row> {
  const poor = await makePoor(stack, db);
  const before = residentBytes(stack.gateway.pid);
  const held = await hold(stack, db, poor, HELD_FOR_MEMORY);
  const each_kb = (residentBytes(stack.gateway.pid) - before) / HELD_FOR_MEMORY / 1_000;
  const started_at = performance.now();
  // A little more than each needs: bodies differ by a token.
  await credit(db, poor, (await needOf(db, poor)) * BigInt(HELD_FOR_MEMORY) * 2n);
  await held.done;
  const freed_ms = performance.now() - started_at;
  return {
    measure: `memory of a gateway per held call, ${HELD_FOR_MEMORY} held, its body included`,
    figure: `${each_kb.toFixed(0)} kB; one credit for all answers the last after ${freed_ms.toFixed(0)} ms`,
    ratio: each_kb / 100,
    bar: 'under 100 kB',
    isMet: each_kb < 100,
  };
}

/**
 * The hot wallet's cycles with a thousand calls waiting in the same organization, against the same
 * without.
 */
async function throughputRow(cluster: BenchCluster): Promise<Row> {
  const url = await cluster.database(`bench_waiters_${Date.now()}`);
  const { org_id, key_id } = await seedHotWallet(url);
  const spec = { url, org_id, key_id, way: 'batched' as const, seconds: SECONDS };
  const rate = { none: 0, waiting: 0 };
  for (let round = 0; round < ROUNDS; round += 1) {
    rate.none += (await cycles(spec)).cycles;
    const stop = await waitFor1000(url, org_id);
    rate.waiting += (await cycles(spec)).cycles;
    await stop();
  }
  const ratio = rate.none / rate.waiting;
  const perSecond = (count: number) => (count / SECONDS / ROUNDS).toFixed(0);
  return {
    measure: `reserve+settle cycles a second with ${WAITERS} calls waiting in the same organization`,
    figure: `${perSecond(rate.waiting)}/s against ${perSecond(rate.none)}/s with none`,
    ratio,
    bar: 'within 1.2 x',
    isMet: ratio <= 1.2,
  };
}

/** An API's waiters with a thousand calls that the wallet never covers. */
async function waitFor1000(url: string, org_id: string): Promise<() => Promise<void>> {
  const db = openDatabase(url, 4);
  const log = createLog('bench', 'error');
  const batches: Batches = openBatches(db, log);
  const waiters = openWaiters({ db, batches, database_url: url, log });
  const callers: AbortController[] = [];
  const calls = Array.from({ length: WAITERS }, async (_, n) => {
    const request_id = randomUUID();
    const request_body_hash = `sha256:${String(n % BODIES).padStart(64, '0')}`;
    const short = await batches.reserve({
      org_id,
      provider: 'openai',
      model: 'gpt-4o-mini',
      request_id,
      request_body_hash,
      estimated_prompt_tokens: 9_000_000_000_000_000,
      max_completion_tokens: 0,
    });
    const ticket_id = String(short.cost_ticket?.id);
    const gone = new AbortController();
    callers.push(gone);
    await waiters.redeem(
      { org_id, ticket_id, request_id, request_body_hash, wait_ms: WAIT_MS },
      gone.signal,
    );
  });
  const count = async () =>
    one<{ count: number }>(
      db,
      'select count(*)::int as count from ticket_waiters where answer is null',
    );
  while ((await count()).count < WAITERS) await sleep(50);
  return async () => {
    for (const gone of callers) gone.abort();
    await Promise.all(calls);
    await waiters.close();
    await batches.close();
    await many(db, 'delete from ticket_waiters');
    await db.destroy();
  };
}
