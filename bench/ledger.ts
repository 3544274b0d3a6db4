import { fork } from 'node:child_process';
import path from 'node:path';
import { audit } from '../domain/ledger/audit';
import { one } from '../domain/sql';
import { openDatabase } from '../runtime/database';
import { root } from '../runtime/root';
import type { BenchCluster } from './cluster';
import type { LoadSpec } from './processes/ledger-load';
import type { Row } from './row';

const SECONDS = 8;
const ROUNDS = 2;

/**
 * Cycles a second on one hot wallet, 64 in flight over two processes, durable: batches against
 * interactive transactions.
 */
export async function ledgerRow(cluster: BenchCluster): Promise<Row> {
  const url = await cluster.database('bench_ledger');
  const account = await seedHotWallet(url);
  const rate = { batched: 0, interactive: 0 };
  let errors = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const way of ['interactive', 'batched'] as const) {
      const counted = await cycles({ url, ...account, way, seconds: SECONDS });
      rate[way] += counted.cycles / SECONDS / ROUNDS;
      if (way === 'batched') errors += counted.errors;
    }
  }
  const db = openDatabase(url, 1);
  const { broken } = await audit(db);
  await db.destroy();
  const ratio = rate.batched / rate.interactive;
  return {
    measure: 'reserve+settle cycles a second, one hot wallet, SQL layer, 64 in flight, 2 processes',
    figure: `${Math.round(rate.batched)}/s against ${Math.round(rate.interactive)}/s interactive; ${errors} errors, audit ${broken.length ? 'BROKEN' : 'clean'}`,
    ratio,
    bar: 'at least 15 x',
    isMet: ratio >= 15 && errors === 0 && broken.length === 0,
  };
}

export async function seedHotWallet(url: string): Promise<{ org_id: string; key_id: string }> {
  const db = openDatabase(url, 1);
  const now = new Date(Date.now() - 60_000);
  const [org] = await db('organizations').insert({ name: 'Bench' }).returning('id');
  const wallet = await one<{ id: string }>(
    db,
    `select id from ensure_wallet(:id, 'organization', null)`,
    { id: org.id },
  );
  await one(db, `select credit(:org_id, :wallet_id, 1000000000000000, 'bench')`, {
    org_id: org.id,
    wallet_id: wallet.id,
  });
  const [key] = await db('tokens')
    .insert({ org_id: org.id, token_type: 'gateway', name: 'bench' })
    .returning('id');
  await db('model_prices').insert({
    id: 'price_bench',
    provider: 'openai',
    model: 'gpt-4o-mini',
    input_per_1m: 0.15,
    output_per_1m: 0.6,
    effective_from: now,
    created_at: now,
    updated_at: now,
  });
  await db.destroy();
  return { org_id: org.id, key_id: key.id };
}

/** Whole cycles of two processes, 64 in flight together. */
export async function cycles(spec: Omit<LoadSpec, 'in_flight'>) {
  const counts = await Promise.all([1, 2].map(() => load({ ...spec, in_flight: 32 })));
  const sum = (of: 'cycles' | 'errors') => counts.reduce((all, count) => all + count[of], 0);
  return { cycles: sum('cycles'), errors: sum('errors') };
}

function load(spec: LoadSpec): Promise<{ cycles: number; errors: number }> {
  const child = fork(path.join(root, 'run.cjs'), [
    path.join(root, 'bench/processes/ledger-load.ts'),
  ]);
  return new Promise((resolve, reject) => {
    child.once('message', resolve);
    child.once('error', reject);
    child.once(
      'exit',
      (code) => code !== 0 && reject(new Error(`A load process ended with ${code}.`)),
    );
    child.send(spec);
  });
}
