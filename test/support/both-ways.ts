import type * as calls from '../../domain/ledger/calls';
import * as reservations from '../../domain/ledger/reservations';
import { type Db, many, one } from '../../domain/sql';

// One settle, one reserve or both, as batches of one item and as the functions for any batch run
// them: two ways to one ledger.

export interface Pair {
  settle?: calls.Settle | undefined;
  reserve?: calls.Reserve | undefined;
}

/** What a run answers, and the organization's rows after it, with names for what it made. */
interface Outcome {
  answers: unknown;
  rows: unknown;
}

/** Runs a pair in both ways from the same state, and keeps the second's work. */
export async function runBothWays(db: Db, org_id: string, pair: Pair) {
  const settlements = pair.settle ? [reservations.settleItem(pair.settle)] : [];
  const reserves = pair.reserve ? [reservations.reserveItem(pair.reserve)] : [];
  const name = pair.settle?.reservation_id ?? pair.settle?.request_id ?? '';
  const said = { trace_label: 'told', identity_proof_method: 'gateway_key' as const };
  const traces = {
    ...(pair.settle && { [name]: said }),
    ...(pair.reserve && { [pair.reserve.request_id]: said }),
  };
  const known = await knownOf(db, org_id);
  let taken: Taken | undefined;
  const alone = await inTransaction(db, false, async (trx) => {
    const answers = await reservations.reserveBatch(trx, org_id, { settlements, reserves, traces });
    return outcome(trx, org_id, known, answers);
  });
  await inTransaction(db, false, async (trx) => {
    taken = await tookShortWay(trx, org_id, settlements, reserves);
  });
  const batch = await inTransaction(db, true, async (trx) => {
    await one(trx, `select set_config('svc.traces', :traces, true)`, {
      traces: JSON.stringify(traces),
    });
    const answers = await runBatch(trx, org_id, settlements, reserves);
    return outcome(trx, org_id, known, answers, answers);
  });
  return { alone: alone.outcome, batch: batch.outcome, answers: batch.answers, taken };
}

interface Taken {
  settle: boolean;
  reserve: boolean;
}

/** Whether the functions for one item do these, or leave them to the others. */
async function tookShortWay(
  trx: Db,
  org_id: string,
  settlements: object[],
  reserves: object[],
): Promise<Taken> {
  const took = async (sql: string, [item]: object[]) => {
    if (item === undefined) return false;
    const { op } = await one<{ op: string | null }>(trx, sql, {
      org_id,
      item: JSON.stringify(item),
    });
    return op !== null;
  };
  await many(trx, 'select from lock_organization(:org_id)', { org_id });
  const settle = await took('select (settle_alone(:org_id, :item)).op', settlements);
  const reserve = await took('select (reserve_alone(:org_id, :item)).op', reserves);
  return { settle, reserve };
}

async function runBatch(trx: Db, org_id: string, settlements: object[], reserves: object[]) {
  const answers: reservations.ItemAnswer[] = [];
  const run = async (sql: string, items: object[]) => {
    if (items.length === 0) return;
    answers.push(
      ...(await many<reservations.ItemAnswer>(trx, sql, { org_id, items: JSON.stringify(items) })),
    );
  };
  await run(
    `select r.*, null::bigint as max_completion_tokens, null::jsonb as warnings, null::timestamptz as resets_at,
       null::jsonb as own_keys
     from settle_3(:org_id, :items) as r`,
    settlements,
  );
  await run(`select ${reservations.answerColumns} from reserve_2(:org_id, :items) as r`, reserves);
  return answers;
}

class Undone extends Error {}

async function inTransaction<T>(
  db: Db,
  is_kept: boolean,
  run: (trx: Db) => Promise<T>,
): Promise<T> {
  let result: T | undefined;
  try {
    await db.transaction(async (trx) => {
      result = await run(trx);
      if (!is_kept) throw new Undone();
    });
  } catch (error) {
    if (!(error instanceof Undone)) throw error;
  }
  return result as T;
}

const tables: readonly [from: string, order: string][] = [
  ['reservations t where t.org_id = :org_id', 't.request_id'],
  ['wallet_transactions t where t.org_id = :org_id', 't.wallet_id, t.seq'],
  ['wallets t where t.org_id = :org_id', 't.id'],
  ['tokens t where t.org_id = :org_id', 't.id'],
  ['organizations t where t.id = :org_id', 't.id'],
  // Ids of one millisecond are in no order.
  ['events t where t.org_id = :org_id', 't.type, t.request_id, t.payload::text, t.id'],
  ['outbox t where t.org_id = :org_id', 't.id'],
  ['cost_tickets t where t.org_id = :org_id', 't.created_at, t.id'],
  ['budgets t where t.org_id = :org_id', 't.id'],
  ['approval_rules t where t.org_id = :org_id', 't.id'],
  ['settlement_excess t where t.org_id = :org_id', 't.reservation_id'],
  [
    'constraint_usage t where t.constraint_id in (select c.id from usage_constraints c where c.org_id = :org_id)',
    't.constraint_id, t.window_start',
  ],
];

async function rowsOf(db: Db, org_id: string): Promise<unknown[]> {
  const rows: unknown[] = [];
  for (const [from, order] of tables) {
    // Numbers of sequences and transactions are no part of what happened.
    const sql = `select to_jsonb(t) - '{transaction_id}'::text[] as row from ${from} order by ${order}`;
    const found = await many<{ row: Record<string, unknown> }>(db, sql, { org_id });
    rows.push(found.map(({ row }) => (typeof row.id === 'number' ? { ...row, id: null } : row)));
  }
  return rows;
}

const made = /\b(res|txn|evt|ticket|excess)_[0-9a-f]{32}\b/g;

/** The ids and the times that were there before a run: they are the same for both ways. */
interface Known {
  ids: Set<string>;
  times_ms: Set<number>;
}

async function knownOf(db: Db, org_id: string): Promise<Known> {
  const text = JSON.stringify(await rowsOf(db, org_id));
  return {
    ids: new Set(text.match(made) ?? []),
    times_ms: new Set((text.match(time) ?? []).map((at) => Date.parse(at))),
  };
}

async function outcome<T>(
  db: Db,
  org_id: string,
  known: Known,
  given: reservations.ItemAnswer[],
  answers?: T,
) {
  const { now } = await one<{ now: Date }>(db, 'select clock_timestamp() as now');
  const names = new Map<string, string>();
  const plain = (value: unknown) => {
    const text = JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? String(v) : v));
    const named = text.replace(made, (id, prefix) => {
      if (known.ids.has(id)) return id;
      if (!names.has(id)) names.set(id, `${prefix} ${names.size}`);
      return names.get(id) as string;
    });
    const told = (at: string) => (known.times_ms.has(Date.parse(at)) ? at : sinceNow(at, now));
    return JSON.parse(named.replace(time, told));
  };
  const sorted = [...given].sort((a, b) => (a.op < b.op ? 1 : -1));
  const found: Outcome = { answers: plain(sorted), rows: plain(await rowsOf(db, org_id)) };
  return { outcome: found, answers: answers as T };
}

const time = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)/g;
const DAY_MS = 86_400_000;

/** Times that a run makes, in minutes from its end; the others as they are. */
function sinceNow(text: string, now: Date): string {
  const minutes = (Date.parse(text) - now.getTime()) / 60_000;
  const is_made =
    Math.abs(minutes) <= (2 * DAY_MS) / 60_000 && !/:00(?:\.0+)?(?:Z|\+00:00)$/.test(text);
  return is_made ? `in ${Math.round(minutes)} minutes` : text;
}
