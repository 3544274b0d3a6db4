import { AppError } from '../errors';
import { decimalText } from '../money';
import { type Db, many } from '../sql';
import { type Column, columns, nameThen, type Row, selectList } from './columns';

// The closing statement: of each wallet what it had, what each kind of entry came to, and what it
// has. It is proved as it is written.

const types = [
  'credit',
  'payment_credit',
  'payment_refund',
  'allocation_in',
  'allocation_out',
  'reservation',
  'settlement',
] as const;

const wallet = columns([
  ['wallet_id', 'text', 'w.id'],
  ['org_id', 'text', 'w.org_id'],
  ['org_name', 'text', nameThen('w.org_id')],
  ['owner_type', 'text', 'w.owner_type'],
  ['owner_id', 'text', 'coalesce(w.owner_team_id, w.owner_user_id)'],
  ['owner_name', 'text', nameThen('coalesce(w.owner_team_id, w.owner_user_id, w.org_id)')],
  ['currency', 'text', 'w.currency'],
  ['from_seq', 'integer', 'x.from_seq'],
  ['to_seq', 'integer', 'x.to_seq'],
  ['opening_nanos', 'nanos', `coalesce((${balanceAt('x.from_seq')}), 0)`],
  ['closing_nanos', 'nanos', `coalesce((${balanceAt('x.to_seq')}), 0)`],
]);

/** The columns of the statement: `cost_nanos` is what settled calls of the period cost. */
export const statementColumns: Column[] = [
  ...wallet.slice(0, -1),
  ...types.map((type) => ({ name: `${type}_nanos`, type: 'sum' as const })),
  ...wallet.slice(-1),
  { name: 'cost_nanos', type: 'sum' },
];

/** Wallets that are read together, and entries of one that are summed together. */
const WALLETS = 500;
const ENTRIES = 50_000;

type Found = Record<string, string | null>;

/**
 * The rows of a statement, a page at a time. Throws `ledger_broken` if a wallet does not add up.
 */
export async function* statementRows(
  db: Db,
  { export_id }: { export_id: string },
): AsyncGenerator<{ rows: Row[]; found: Found[] }> {
  for (let after = '', more = true; more; ) {
    const wallets = await many<Found>(
      db,
      `select ${selectList(wallet)} from export_wallets x join wallets w on w.id = x.wallet_id
       where x.export_id = :export_id and x.wallet_id > :after order by x.wallet_id limit :limit`,
      { export_id, after, limit: WALLETS },
    );
    const found: Found[] = [];
    for (const one of wallets) found.push({ ...one, ...(await sumsOf(db, one)) });
    after = wallets.at(-1)?.wallet_id ?? after;
    more = wallets.length === WALLETS;
    if (found.length > 0) yield { rows: found.map(rowOf), found };
  }
}

function rowOf(found: Found): Row {
  return statementColumns.map(({ name }) => found[name] ?? null);
}

/** What each type of entry came to, and what calls cost; as they add up, or not at all. */
async function sumsOf(db: Db, row: Found): Promise<Found> {
  const [from, to] = [BigInt(row.from_seq ?? 0), BigInt(row.to_seq ?? 0)];
  const sums = new Map<string, bigint>(types.map((type) => [`${type}_nanos`, 0n]));
  let cost = 0n;
  for (let low = from; low < to; low += BigInt(ENTRIES)) {
    const part = await many<{ type: string; amount: string; cost: string }>(
      db,
      `select t.type, sum(t.amount_nanos)::text as amount, coalesce(sum(t.actual_cost_nanos), 0)::text as cost
       from wallet_transactions t
       where t.wallet_id = :wallet_id and t.seq > :low and t.seq <= least(:low::bigint + :entries, :to::bigint) group by t.type`,
      { wallet_id: row.wallet_id, low, to, entries: ENTRIES },
    );
    for (const { type, amount, cost: spent } of part) {
      sums.set(`${type}_nanos`, (sums.get(`${type}_nanos`) ?? 0n) + BigInt(amount));
      cost += BigInt(spent);
    }
  }
  const moved = [...sums.values()].reduce((sum, one) => sum + one, 0n);
  const [opening, closing] = [BigInt(row.opening_nanos ?? 0), BigInt(row.closing_nanos ?? 0)];
  if (opening + moved !== closing)
    throw new AppError(
      'ledger_broken',
      `Wallet ${row.wallet_id} had ${decimalText(opening)}, moved by ${decimalText(moved)} and has ` +
        `${decimalText(closing)} ${row.currency}. Run: npm run audit`,
    );
  return {
    ...Object.fromEntries([...sums].map(([name, sum]) => [name, String(sum)])),
    cost_nanos: String(cost),
  };
}

/** The balance after an entry; null before the first. */
function balanceAt(seq: string): string {
  return `select b.balance_after_nanos from wallet_transactions b where b.wallet_id = w.id and b.seq = ${seq}`;
}

/** What a manifest sums of a statement: opening, each type, closing and cost, by currency. */
export const statementSums = ['opening', ...types, 'closing', 'cost'] as const;
