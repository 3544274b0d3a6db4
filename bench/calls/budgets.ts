import * as budgets from '../../domain/ledger/budgets';
import { openDatabase } from '../../runtime/database';
import { type Caller, noteUse, seedCaller, send } from '../alone-reserve';
import type { BenchCluster } from '../cluster';
import { median } from '../load';
import type { Row } from '../row';

const ROUNDS = 7;
const TURNS = 150;
const WARM_UP = 300;

const windows = ['hour', 'day', 'week', 'month', 'life'] as const;

/**
 * A reserve of one call, with five budgets in force that have room against none, in turns in one
 * server; its settle stands beside it.
 */
export async function budgetRow(cluster: BenchCluster): Promise<Row> {
  const sides = [await open(cluster, 'bench_no_budgets'), await open(cluster, 'bench_budgets')];
  const { db, caller } = sides[1] as Side;
  const { org_id } = caller.identity;
  for (const window of windows) await makeBudget(db, org_id, window);
  for (const side of sides) await noteUse(side.db, side.caller);
  for (let n = 0; n < WARM_UP; n += 1) for (const side of sides) await turn(side);
  const ratios: number[] = [];
  const times: Record<'reserve' | 'settle', number[]>[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const side of sides) {
      side.times = { reserve: [], settle: [] };
      await noteUse(side.db, side.caller);
    }
    for (let n = 0; n < TURNS; n += 1)
      for (const side of n % 2 ? sides : [...sides].reverse()) await turn(side);
    const [none, five] = sides.map((side) => median(side.times.reserve)) as [number, number];
    ratios.push(five / none);
    times.push(...sides.map((side) => side.times));
  }
  for (const side of sides) await side.db.destroy();
  const of = (name: 'reserve' | 'settle', which: number) =>
    median(times.filter((_, n) => n % 2 === which).map((all) => median(all[name]))).toFixed(2);
  const ratio = median(ratios);
  return {
    measure: 'reserve of one item with five budgets in force, against none',
    figure: `${of('reserve', 1)} ms against ${of('reserve', 0)} ms (settle ${of('settle', 1)} against ${of('settle', 0)} ms)`,
    ratio,
    bar: 'within 1.15 x',
    isMet: ratio <= 1.15,
  };
}

interface Side {
  db: ReturnType<typeof openDatabase>;
  caller: Caller;
  times: Record<'reserve' | 'settle', number[]>;
}

async function open(cluster: BenchCluster, name: string): Promise<Side> {
  const url = await cluster.database(name);
  const caller = await seedCaller(url);
  return { db: openDatabase(url, 1), caller, times: { reserve: [], settle: [] } };
}

function makeBudget(db: Side['db'], org_id: string, window: (typeof windows)[number]) {
  return budgets.create(db, {
    org_id,
    owner_type: 'organization',
    owner_id: org_id,
    limit_nanos: 1_000_000_000_000_000n,
    window,
    on_exceed: 'ticket',
    thresholds: [50, 80, 100],
    created_by: null,
  });
}

async function turn({ db, caller, times }: Side): Promise<void> {
  const started = performance.now();
  const held = await send(db, caller);
  const reserved = performance.now();
  await send(db, caller, { settle: held, isLast: true });
  times.reserve.push(reserved - started);
  times.settle.push(performance.now() - reserved);
}
