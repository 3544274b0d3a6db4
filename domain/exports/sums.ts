import { isNull, NEWLINE, said, TAB } from './copy-text';

/** A sum of a file: amounts of one currency and type, or their number alone. */
export interface Sum {
  currency: string | null;
  type: string;
  rows: number;
  amount_nanos: string | null;
}

/** The columns that are summed by, and the amount that is summed; -1: the rows have none. */
interface Places {
  currency: number;
  type: number;
  amount: number;
}

/** Rows of one currency and type. The sum is `high` x 10^9 + `low`: both stay exact over a page. */
interface Group {
  currency: Buffer;
  type: Buffer;
  rows: number;
  has_amount: boolean;
  high: number;
  low: number;
}

const [MINUS, ZERO] = [45, 48];
const LOW_DIGITS = 9;
const nothing = Buffer.from('\\N');

/**
 * The sums of a page of COPY's text. It looks at no value but those that count, and makes no object
 * for a row: the ledger has millions.
 */
export function sumsOf(text: Buffer, { currency, type, amount }: Places): Sum[] {
  const groups: Group[] = [];
  const most = Math.max(currency, type, amount);
  for (let start = 0; start < text.length; ) {
    let [currency_at, currency_end, type_at, type_end, amount_at] = [0, 0, 0, 0, -1];
    let from = start;
    for (let index = 0; index <= most; index += 1) {
      let to = from;
      while (text[to] !== TAB && text[to] !== NEWLINE) to += 1;
      if (index === currency) [currency_at, currency_end] = [from, to];
      else if (index === type) [type_at, type_end] = [from, to];
      else if (index === amount) amount_at = from;
      from = to + 1;
    }
    start = text.indexOf(NEWLINE, from - 1) + 1;
    let group = groups.find(
      (one) =>
        isSame(one.type, text, type_at, type_end) &&
        (currency === -1 || isSame(one.currency, text, currency_at, currency_end)),
    );
    if (group === undefined) {
      const of = {
        currency: currency === -1 ? nothing : text.subarray(currency_at, currency_end),
        type: text.subarray(type_at, type_end),
      };
      group = { ...of, rows: 0, has_amount: false, high: 0, low: 0 };
      groups.push(group);
    }
    group.rows += 1;
    if (amount_at !== -1 && !isNull(text, amount_at)) addAmount(group, text, amount_at);
  }
  return groups.map(sumOf);
}

function isSame(known: Buffer, text: Buffer, from: number, to: number): boolean {
  if (known.length !== to - from) return false;
  for (let at = 0; at < known.length; at += 1) if (known[at] !== text[from + at]) return false;
  return true;
}

function addAmount(group: Group, text: Buffer, from: number): void {
  const sign = text[from] === MINUS ? -1 : 1;
  let at = sign === -1 ? from + 1 : from;
  let end = at;
  while (text[end] !== TAB && text[end] !== NEWLINE) end += 1;
  let [high, low] = [0, 0];
  for (; at < end - LOW_DIGITS; at += 1) high = high * 10 + (text[at] as number) - ZERO;
  for (; at < end; at += 1) low = low * 10 + (text[at] as number) - ZERO;
  group.high += sign * high;
  group.low += sign * low;
  group.has_amount = true;
}

function sumOf({ currency, type, rows, has_amount, high, low }: Group): Sum {
  return {
    currency: said(currency.toString()),
    type: said(type.toString()) ?? '',
    rows,
    amount_nanos: has_amount ? String(BigInt(high) * 1_000_000_000n + BigInt(low)) : null,
  };
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
