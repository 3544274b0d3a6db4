import type { Db } from '../sql';
import type { DailyKind } from './columns';
import { type CopyText, copyLine, lineEnds, valuesOf } from './copy-text';
import { dailyKind, type KindName } from './kinds';
import { statementRows, statementSums } from './statement';
import { addUp, type Sum, sumsOf } from './sums';

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
  /** Which of them an earlier export of its schedule has; null: none. */
  events_after: string | null;
}

/** A page of a part, and what it adds to the manifest. */
export interface PartPage {
  /** Its rows in COPY's text format. */
  text: Buffer;
  rows: number;
  first_id: string | null;
  last_id: string | null;
  sums: Sum[];
}

/** Rows of one page: each is a transaction of its own, so that no snapshot is held for long. */
const PAGE_ROWS = 5_000;
/** A page of rows without a bound ends with the row that brings their long values to so much. */
const PAGE_BYTES = 4 * 1_048_576;

/** The pages of a part in their order; the same each time, whatever was written meanwhile. */
export function pagesOf(db: Db, part: Part, copyText: CopyText): AsyncGenerator<PartPage> {
  const kind = dailyKind(part.kind);
  if (kind === undefined) return statementPages(db, part);
  return dailyPages(kind, part, (page, bindings) => copyText(db, page, bindings));
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
    const text = Buffer.from(rows.map(copyLine).join(''));
    yield { text, rows: rows.length, first_id: first, last_id: last, sums };
  }
}

/** The statement of a page that ends by the bytes of its long values too. */
function boundedPage(page: string, { selected, long }: DailyKind): string {
  if (long === undefined) return page;
  const bytes = long.map((name) => `coalesce(octet_length(p.${name}), 0)`).join(' + ');
  return `
    select ${selected.map(({ name }) => name).join(', ')} from (
      select p.*, ${bytes} as long_bytes, sum(${bytes}) over (rows unbounded preceding) as page_bytes from (${page}) as p
    ) as s where s.page_bytes - s.long_bytes < ${PAGE_BYTES}`;
}

/** While a page is written the next one is read. */
async function* dailyPages(
  kind: DailyKind,
  part: Part,
  copied: (page: string, bindings: Record<string, unknown>) => Promise<Buffer>,
): AsyncGenerator<PartPage> {
  const { selected, key, sums } = kind;
  const at = (name: string | undefined) => selected.findIndex((column) => column.name === name);
  const [key_at, key_2_at] = [at(key[0]), at(key[1])];
  const places = { currency: at(sums.currency), type: at(sums.type), amount: at(sums.amount) };
  const page = boundedPage(kind.page, kind);
  const read = async (last: (string | null)[] | undefined): Promise<Buffer> => {
    const after = { after: last?.[key_at] ?? '', after_2: last?.[key_2_at] ?? '' };
    return copied(page, { ...part, ...after, limit: PAGE_ROWS });
  };
  for (let reading: Promise<Buffer> | undefined = read(undefined); reading !== undefined; ) {
    const text: Buffer = await reading;
    if (text.length === 0) return;
    const ends = [...lineEnds(text)];
    const last = valuesOf(text, (ends.at(-2) ?? -1) + 1, text.length - 1);
    // One that ended by its bytes has fewer rows than it might.
    reading = kind.long !== undefined || ends.length === PAGE_ROWS ? read(last) : undefined;
    // Its error is met when the page is asked for, if it ever is.
    reading?.catch(() => undefined);
    yield {
      text,
      rows: ends.length,
      first_id: valuesOf(text, 0, ends[0] ?? 0)[0] ?? null,
      last_id: last[0] ?? null,
      sums: sumsOf(text, places),
    };
  }
}
