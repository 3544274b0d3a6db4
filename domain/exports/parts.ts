import { type Db, many } from '../sql';
import { fileRow, type Row } from './columns';
import { dailyKind, type KindName } from './kinds';
import { statementRows, statementSums } from './statement';

/** A file of an export, before it is written. */
export interface Part {
  export_id: string;
  org_id: string | null;
  n: number;
  kind: KindName;
  /** `2027-01-31`; null: the whole period. */
  day: string | null;
  /** Its time, half open. */
  from: Date;
  to: Date;
  /** Which transactions' events belong to it. */
  snapshot: string;
}

/** A sum of a file: amounts of one currency and type, or their number alone. */
export interface Sum {
  currency: string | null;
  type: string;
  rows: number;
  amount_nanos: string | null;
}

/** A page of a part, and what it adds to the manifest. */
export interface PartPage {
  rows: Row[];
  first_id: string | null;
  last_id: string | null;
  sums: Sum[];
}

/** Rows of one page: each is a transaction of its own, so that no snapshot is held for long. */
export const PAGE_ROWS = 5_000;

type Found = Record<string, string | null>;

/** The pages of a part in their order; the same each time, whatever was written meanwhile. */
export async function* pagesOf(
  db: Db,
  part: Part,
  page_rows = PAGE_ROWS,
): AsyncGenerator<PartPage> {
  const kind = dailyKind(part.kind);
  if (kind === undefined) {
    for await (const { rows, found } of statementRows(db, part)) {
      const sums = found.flatMap(statementSumsOf);
      yield {
        rows,
        first_id: idOf(found[0], 'wallet_id'),
        last_id: idOf(found.at(-1), 'wallet_id'),
        sums,
      };
    }
    return;
  }
  const { selected, key, page, sums } = kind;
  const id = selected[0]?.name ?? 'id';
  for (let after: Found | undefined, more = true; more; ) {
    const read = await many<Found & { row?: Found }>(db, page, {
      ...part,
      after: idOf(after, key[0]) ?? '',
      after_2: idOf(after, key[1]) ?? '',
      limit: page_rows,
    });
    const found = read.map((one) => one.row ?? one);
    after = found.at(-1);
    more = found.length === page_rows;
    if (after === undefined) return;
    yield {
      rows: found.map((one) => fileRow(selected, one)),
      first_id: idOf(found[0], id),
      last_id: idOf(after, id),
      sums: found.map((one) => ({
        currency: idOf(one, sums.currency),
        type: one[sums.type] ?? '',
        rows: 1,
        amount_nanos: idOf(one, sums.amount),
      })),
    };
  }
}

function idOf(found: Found | undefined, name: string | undefined): string | null {
  return (name === undefined ? undefined : found?.[name]) ?? null;
}

function statementSumsOf(found: Found): Sum[] {
  return statementSums.map((type) => ({
    currency: found.currency ?? null,
    type,
    rows: 1,
    amount_nanos: found[`${type}_nanos`] ?? '0',
  }));
}

/** Sums of one currency and type become one, in the order of both. */
export function addUp(sums: readonly Sum[]): Sum[] {
  const totals = new Map<string, { of: Sum; rows: number; amount: bigint | null }>();
  for (const sum of sums) {
    const name = `${sum.currency ?? ''} ${sum.type}`;
    const known = totals.get(name) ?? { of: sum, rows: 0, amount: null };
    const amount = sum.amount_nanos === null ? null : BigInt(sum.amount_nanos);
    known.rows += sum.rows;
    if (amount !== null) known.amount = (known.amount ?? 0n) + amount;
    totals.set(name, known);
  }
  return [...totals.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { of, rows, amount }]) => ({
      currency: of.currency,
      type: of.type,
      rows,
      amount_nanos: amount === null ? null : String(amount),
    }));
}
