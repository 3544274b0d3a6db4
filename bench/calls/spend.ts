import { audit } from '../../domain/ledger/audit';
import * as editions from '../../domain/spend/editions';
import { spend } from '../../domain/spend/spend';
import { type Db, many, one } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import type { BenchCluster } from '../cluster';
import { cycles, seedHotWallet } from '../ledger';
import { median } from '../load';
import type { Row } from '../row';

const SECONDS = 8;
const ROUNDS = 2;
const FOLD_MS = 2_000;
const LOOKS = 60;
const WARM_UP = 10;
const FEW = 100_000;
const MANY = 10_000_000;

/** What folding costs the hot wallet, and what thirty days cost to read in a large ledger. */
export async function spendRows(cluster: BenchCluster): Promise<Row[]> {
  return [await foldRow(cluster), await readRow(cluster)];
}

/** Cycles on one hot wallet while an API folds beside them, against none that folds. */
async function foldRow(cluster: BenchCluster): Promise<Row> {
  const url = await cluster.database('bench_fold');
  const account = await seedHotWallet(url);
  const db = openDatabase(url, 2);
  await editions.openEditions(db);
  const rate = { folded: 0, alone: 0 };
  let busy_ms = 0;
  let folded = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const way of round % 2 ? (['folded', 'alone'] as const) : (['alone', 'folded'] as const)) {
      const folds = way === 'folded' ? keepFolding(db) : undefined;
      const counted = await cycles({ url, ...account, way: 'batched', seconds: SECONDS });
      rate[way] += counted.cycles / SECONDS / ROUNDS;
      const work = await folds?.();
      busy_ms += work?.busy_ms ?? 0;
      folded += work?.folded ?? 0;
    }
  }
  const { broken } = await audit(db);
  await db.destroy();
  const ratio = rate.folded / rate.alone;
  // A cycle is two entries.
  const folds_per_s = Math.round(folded / 2 / (busy_ms / 1_000));
  return {
    measure: 'cycles a second on one hot wallet while spend is folded, against none that folds',
    figure: `${Math.round(rate.folded)}/s against ${Math.round(rate.alone)}/s; folds ${folds_per_s} settlements/s; audit ${broken.length ? 'BROKEN' : 'clean'}`,
    ratio,
    bar: 'at least 0.9 x, and faster than they settle',
    isMet: ratio >= 0.9 && folds_per_s > rate.folded && broken.length === 0,
  };
}

/** Folds as an API does; what it folded, and how long it took. */
function keepFolding(db: Db): () => Promise<{ folded: number; busy_ms: number }> {
  let is_over = false;
  const work = { folded: 0, busy_ms: 0 };
  const done = (async () => {
    while (!is_over) {
      const began = performance.now();
      for (let count = editions.STEP_ENTRIES; count >= editions.STEP_ENTRIES; ) {
        count = await editions.foldStep(db);
        work.folded += count;
      }
      work.busy_ms += performance.now() - began;
      await new Promise((resolve) => setTimeout(resolve, FOLD_MS));
    }
  })();
  return async () => {
    is_over = true;
    await done;
    return work;
  };
}

/** Thirty days by model, in a ledger of ten million settlements against a small one. */
async function readRow(cluster: BenchCluster): Promise<Row> {
  const sides = [];
  for (const settlements of [FEW, MANY]) {
    const url = await cluster.database(`bench_spend_${settlements}`);
    const { org_id } = await seedHotWallet(url);
    const db = openDatabase(url, 1);
    await fill(db, org_id, settlements);
    sides.push({ db, org_id, times: [] as number[] });
  }
  for (let n = 0; n < LOOKS; n += 1)
    for (const side of n % 2 ? sides : [...sides].reverse()) {
      const taken = await look(side.db, side.org_id);
      // The first ones read from disk.
      if (n >= WARM_UP) side.times.push(taken);
    }
  const [few = 0, large = 0] = sides.map(({ times }) => median(times));
  for (const { db } of sides) await db.destroy();
  const ratio = large / few;
  return {
    measure: `thirty days of spend by model in a ledger of ${MANY} settlements, against ${FEW}`,
    figure: `${large.toFixed(1)} ms against ${few.toFixed(1)} ms`,
    ratio,
    bar: 'within 1.3 x, below 100 ms',
    isMet: ratio <= 1.3 && large < 100,
  };
}

/** Milliseconds of one look. */
async function look(db: Db, org_id: string): Promise<number> {
  const viewer = { org_id, user_id: null, sees_all: true };
  const began = performance.now();
  const { buckets } = await spend(db, viewer, {}, { interval: 'day', group_by: ['model'] });
  const taken = performance.now() - began;
  if (buckets.length < 100) throw new Error(`Only ${buckets.length} buckets were read.`);
  return taken;
}

const STEP = 1_000_000;

/**
 * Settlements of ninety days by a hundred keys and five models, in one wallet, and all of them
 * folded but the newest 1,000.
 */
async function fill(db: Db, org_id: string, settlements: number): Promise<void> {
  const { id: wallet_id } = await one<{ id: string }>(
    db,
    'select id from wallets where org_id = :org_id',
    { org_id },
  );
  await many(db, 'delete from wallet_transactions');
  for (let from = 0; from < settlements; from += STEP) {
    const to = Math.min(from + STEP, settlements);
    const step = { org_id, wallet_id, from, to, settlements };
    await many(
      db,
      `insert into reservations (id, org_id, request_id, status, wallet_id, wallet_owner_type, key_id, user_id, team_id, family,
         provider, model, price_version_id, exchange_rate, currency, estimated_nanos, held_nanos, actual_cost_nanos, usage, life_seconds,
         created_at, expires_at, closed_at)
       select 'res_' || n, :org_id, 'req_' || n, 'settled', :wallet_id, 'organization', 'key_' || n % 100, 'user_' || n % 100 / 2,
         'team_' || n % 100 / 10, 'chat', 'openai', 'model-' || n % 5, 'v', 1, 'USD', 1000, 1000, 900,
         '{"prompt_tokens": 100, "completion_tokens": 20}', 900, q.at, q.at, q.at
       from generate_series(:from::bigint, :to::bigint - 1) as n
       cross join lateral (select now() - interval '89 days' * (1 - n::float8 / :settlements::float8) as at) as q`,
      step,
    );
    await many(
      db,
      `insert into wallet_transactions (id, wallet_id, org_id, seq, type, amount_nanos, balance_after_nanos, provider, model,
         reservation_id, phase, actual_cost_nanos, created_at)
       select 'txn_' || n, :wallet_id, :org_id, n + 1, 'settlement', -900, 0, 'openai', 'model-' || n % 5, 'res_' || n, 'close', 900,
         now() - interval '89 days' * (1 - n::float8 / :settlements::float8)
       from generate_series(:from::bigint, :to::bigint - 1) as n`,
      step,
    );
  }
  const set = 'update wallets set seq = :seq where id = :wallet_id';
  await many(db, set, { wallet_id, seq: settlements - 1_000 });
  await many(db, 'analyze');
  await editions.openEditions(db);
  while ((await editions.foldStep(db)) > 0);
  await many(db, set, { wallet_id, seq: settlements });
  await many(db, 'vacuum analyze');
}
