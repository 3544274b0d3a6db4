import { randomUUID } from 'node:crypto';
import * as reservations from '../domain/ledger/reservations';
import type { Db } from '../domain/sql';
import { openDatabase } from '../runtime/database';
import type { BenchCluster } from './cluster';
import { seedHotWallet } from './ledger';
import { median } from './load';
import type { Row } from './row';

const WALLETS = 100_000;
const ENTRIES = 1_000_000;
const RESERVES = 600;
const ROUNDS = 3;

/** Latency of a reserve in a large database against an empty one, measured in turns. */
export async function growthRow(cluster: BenchCluster): Promise<Row> {
  const sides = [];
  for (const name of ['bench_empty', 'bench_large'] as const) {
    const url = await cluster.database(name);
    const account = await seedHotWallet(url);
    const db = openDatabase(url, 1);
    if (name === 'bench_large') await fill(db, account.org_id);
    sides.push({ db, ...account, times: [] as number[] });
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const side of sides) side.times.push(...(await reserveTimes(side.db, side)));
  }
  const [empty = 0, large = 0] = sides.map(({ times }) => median(times));
  for (const { db } of sides) await db.destroy();
  const ratio = large / empty;
  return {
    measure: 'reserve latency with 1,000,000 ledger rows and 100,000 wallets',
    figure: `${large.toFixed(2)} ms against ${empty.toFixed(2)} ms empty`,
    ratio,
    bar: 'within 1.2 x',
    isMet: ratio <= 1.2,
  };
}

async function reserveTimes(
  db: Db,
  { org_id, key_id }: { org_id: string; key_id: string },
): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < RESERVES; n += 1) {
    const item = reservations.reserveItem({
      org_id,
      key_id,
      request_id: randomUUID(),
      provider: 'openai',
      model: 'gpt-4o-mini',
      estimated_prompt_tokens: 10,
      max_completion_tokens: 100,
      request_body_hash: `sha256:${'0'.repeat(64)}`,
    });
    const started = performance.now();
    await reservations.reserveBatch(db, org_id, { settlements: [], reserves: [item] });
    times.push(performance.now() - started);
  }
  return times;
}

/**
 * Users with wallets, and settled reservations with their two entries each, as the product would
 * have left them.
 */
async function fill(db: Db, org_id: string): Promise<void> {
  const run = (sql: string) => db.raw(sql, { org_id, wallets: WALLETS, holds: ENTRIES / 2 });
  await run(
    `insert into users (id, name) select 'user_' || n, 'User ' || n from generate_series(1, :wallets) n`,
  );
  await run(
    `insert into memberships (org_id, user_id, role) select :org_id, 'user_' || n, 'member' from generate_series(1, :wallets) n`,
  );
  await run(`insert into wallets (id, org_id, owner_type, owner_user_id, currency, balance_nanos, seq)
    select 'wal_' || n, :org_id, 'user', 'user_' || n, 'USD', 0, 10 from generate_series(1, :wallets) n`);
  await run(`insert into reservations (id, org_id, request_id, status, wallet_id, wallet_owner_type, provider, model, price_version_id,
      exchange_rate, currency, estimated_nanos, held_nanos, actual_cost_nanos, life_seconds, created_at, expires_at, closed_at)
    select 'res_' || n, :org_id, 'req_' || n, 'settled', 'wal_' || (n % :wallets + 1), 'user', 'openai', 'gpt-4o-mini', 'v', 1, 'USD', 1, 1, 0,
      900, now(), now(), now() from generate_series(0, :holds - 1) n`);
  await run(`insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, reservation_id, phase, created_at)
    select 'txn_' || n || p.phase, 'wal_' || (n % :wallets + 1), :org_id, n / :wallets * 2 + p.place, p.type, p.amount, p.after, 'res_' || n, p.phase, now()
    from generate_series(0, :holds - 1) n,
      (values (1, 'reservation', 'hold', -1, -1), (2, 'settlement', 'close', 1, 0)) as p (place, type, phase, amount, after)`);
  await db.raw('vacuum analyze');
}
