import { readCatalog } from '../../domain/prices/catalogs/read';
import { diff } from '../../domain/prices/diff';
import * as imports from '../../domain/prices/imports';
import { makePlan } from '../../domain/prices/plan';
import type { Db } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import type { BenchCluster } from '../cluster';
import { median } from '../load';
import type { Row } from '../row';

// As many as all models that the catalog inside has.
const MODELS = 1_700;
/** USD a token of the input: one round each. */
const INPUTS = [1e-6, 1.1e-6, 1.2e-6];
const BAR_MS = 5_000;

/** A whole catalog: its plan, the diff that a person reads, and the import; each time dearer. */
export async function priceImportRow(cluster: BenchCluster): Promise<Row> {
  const db = openDatabase(await cluster.database('bench_prices'), 2);
  try {
    const times: number[] = [];
    for (const input of INPUTS) times.push(await importMs(db, input));
    const ms = median(times);
    return {
      measure: `import of ${MODELS.toLocaleString('en-US')} prices, with its plan and its diff`,
      figure: `${(ms / 1_000).toFixed(2)} s`,
      bar: 'below 5 s',
      isMet: ms < BAR_MS,
    };
  } finally {
    await db.destroy();
  }
}

async function importMs(db: Db, input_cost_per_token: number): Promise<number> {
  const entry = { litellm_provider: 'openai', mode: 'chat', output_cost_per_token: 4e-6 };
  const names = Array.from({ length: MODELS }, (_, at) => `m${at}`);
  const entries = names.map((name) => [name, { ...entry, input_cost_per_token }]);
  const text = JSON.stringify(Object.fromEntries(entries));
  const served = names.map((model) => ({ provider: 'openai', model }));
  const began = performance.now();
  const catalog = await readCatalog(text, { name: 'made', dated: null });
  const plan = await makePlan(db, [catalog], { served, whole: [] });
  await diff(db, plan);
  const { prices } = await imports.apply(db, plan, { take: [], free: [] }, 'bench');
  const ms = performance.now() - began;
  if (prices !== MODELS) throw new Error(`${prices} prices were imported.`);
  return ms;
}
