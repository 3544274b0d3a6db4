import { type Db, texts } from '../sql';
import { type DailyKind, fileRow, type Row } from './columns';
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
  /** It begins, or ends, where the export does. */
  is_first: boolean;
  is_last: boolean;
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
export const PAGE_ROWS = 2_500;
/** A page ends with the row that brings it to so many bytes. */
const PAGE_BYTES = 4 * 1_048_576;

/** The pages of a part in their order; the same each time, whatever was written meanwhile. */
export function pagesOf(db: Db, part: Part, page_rows = PAGE_ROWS): AsyncGenerator<PartPage> {
  const kind = dailyKind(part.kind);
  return kind === undefined ? statementPages(db, part) : dailyPages(db, part, kind, page_rows);
}

async function* statementPages(db: Db, part: Part): AsyncGenerator<PartPage> {
  for await (const { rows, found } of statementRows(db, part)) {
    const [first, last] = [found[0]?.wallet_id ?? null, found.at(-1)?.wallet_id ?? null];
    const sums = addUp(
      found.flatMap((one) =>
        statementSums.map((type) => ({
          currency: one.currency ?? null,
          type,
          rows: 1,
          amount_nanos: one[`${type}_nanos`] ?? '0',
        })),
      ),
    );
    yield { rows, first_id: first, last_id: last, sums };
  }
}

interface Read {
  rows: Row[];
  has_more: boolean;
}

/** The statement of a page that ends by its bytes too; the last column has those up to a row. */
function boundedPage(page: string): string {
  return `
    select * from (
      select m.*, sum(m.row_bytes) over (rows unbounded preceding) as page_bytes
      from (select p.*, octet_length(p::text) as row_bytes from (${page}) as p) as m
    ) as s where s.page_bytes - s.row_bytes < ${PAGE_BYTES}`;
}

/** While a page is written the next one is read. */
async function* dailyPages(
  db: Db,
  part: Part,
  { selected, key, page, sums, is_copied }: DailyKind,
  page_rows: number,
): AsyncGenerator<PartPage> {
  const at = (name: string | undefined) => selected.findIndex((column) => column.name === name);
  const [key_at, key_2_at] = [at(key[0]), at(key[1])];
  const places = { currency: at(sums.currency), type: at(sums.type), amount: at(sums.amount) };
  const bounded = boundedPage(page);
  const read = async (last: Row | undefined): Promise<Read> => {
    const after = { after: last?.[key_at] ?? '', after_2: last?.[key_2_at] ?? '' };
    const found = await texts(db, bounded, { ...part, ...after, limit: page_rows });
    const is_cut = Number(found.at(-1)?.at(-1) ?? 0) >= PAGE_BYTES;
    const rows = is_copied ? found.map(([row]) => copied(row ?? '{}')) : found;
    return { rows, has_more: is_cut || found.length === page_rows };
  };
  const copied = (row: string): Row => {
    const values = JSON.parse(row) as Record<string, string | null>;
    return selected.map(({ name }) => values[name] ?? null);
  };
  for (let reading: Promise<Read> | undefined = read(undefined); reading !== undefined; ) {
    const { rows: found, has_more }: Read = await reading;
    const last = found.at(-1);
    if (last === undefined) return;
    reading = has_more ? read(last) : undefined;
    // Its error is met when the page is asked for, if it ever is.
    reading?.catch(() => undefined);
    yield {
      rows: found.map((one) => fileRow(selected, one)),
      first_id: found[0]?.[0] ?? null,
      last_id: last[0] ?? null,
      sums: sumsOf(found, places),
    };
  }
}

interface Places {
  currency: number;
  type: number;
  amount: number;
}

function sumsOf(found: readonly Row[], { currency, type, amount }: Places): Sum[] {
  const totals = new Map<string, Sum & { total: bigint }>();
  for (const row of found) {
    const name = `${row[currency] ?? ''} ${row[type] ?? ''}`;
    let sum = totals.get(name);
    if (sum === undefined) {
      const of = { currency: row[currency] ?? null, type: row[type] ?? '' };
      sum = { ...of, rows: 0, amount_nanos: null, total: 0n };
      totals.set(name, sum);
    }
    sum.rows += 1;
    const nanos = row[amount];
    if (nanos === null || nanos === undefined) continue;
    sum.total += BigInt(nanos);
    sum.amount_nanos = '';
  }
  return [...totals.values()].map(({ total, ...sum }) => ({
    ...sum,
    amount_nanos: sum.amount_nanos === null ? null : String(total),
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
