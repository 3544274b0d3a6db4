import { type Column, type ColumnType, fileColumns, isAmount } from '../domain/exports/columns';
import { BACKSLASH, isNull, NEWLINE, TAB } from '../domain/exports/copy-text';
import type { Lines } from './lines';

// Rows go from the bytes of COPY to the bytes of a file, value by value, without a string between:
// an export of millions of rows is little else.

/** Writes the value that begins at a place of COPY's text; where it ends. */
export type WriteValue = (lines: Lines, text: Buffer, from: number) => number;

/** A text format: its first line if it has one, what is written of each value, and a row's end. */
export interface TextFormat {
  head: (columns: readonly Column[]) => string;
  values: (columns: readonly Column[]) => WriteValue[];
  row_end: string;
}

const [QUOTE, APOSTROPHE] = [34, 39];

/** JSON Lines: an object a row. Amounts are text: JSON's numbers are doubles to most readers. */
export const jsonl: TextFormat = {
  head: () => '',
  values: (columns) =>
    columns.map((column, index) => {
      const [before, other] = fileColumns([column]).map(({ name }, nth) =>
        Buffer.from(`${index + nth === 0 ? '{' : ','}${JSON.stringify(name)}:`),
      ) as [Buffer, Buffer?];
      const { type } = column;
      return (lines, text, from) => {
        lines.put(before);
        if (other === undefined) return json(lines, text, from, type);
        if (isNull(text, from)) lines.put(null_text);
        else {
          lines.byte(QUOTE);
          lines.decimal(text, from);
          lines.byte(QUOTE);
        }
        lines.put(other);
        return json(lines, text, from, 'text');
      };
    }),
  row_end: '}\n',
};

const null_text = Buffer.from('null');
/** How long a null is. */
const NULL_BYTES = 2;

function json(lines: Lines, text: Buffer, from: number, type: ColumnType): number {
  if (isNull(text, from)) {
    lines.put(null_text);
    return from + NULL_BYTES;
  }
  if (type === 'integer' || type === 'json') return lines.value(text, from);
  if (type !== 'time') return lines.json(text, from);
  lines.byte(QUOTE);
  const end = lines.time(text, from);
  lines.byte(QUOTE);
  return end;
}

/**
 * CSV by RFC 4180, with a line of names. Null is an empty cell, an empty text is quoted. Texts that
 * a spreadsheet would run as a formula begin with an apostrophe; numbers stay as they are.
 */
export const csv: TextFormat = {
  head: (columns) =>
    `${fileColumns(columns)
      .map(({ name }) => name)
      .join(',')}\r\n`,
  values: (columns) =>
    columns.map(({ type }, index) => {
      const is_text = type === 'text' || type === 'json';
      const is_amount = isAmount(type);
      return (lines, text, from) => {
        if (index > 0) lines.byte(COMMA);
        if (is_amount && !isNull(text, from)) lines.decimal(text, from);
        if (is_amount) lines.byte(COMMA);
        if (isNull(text, from)) return from + NULL_BYTES;
        if (type === 'time') return lines.time(text, from);
        return is_text ? cell(lines, text, from) : lines.value(text, from);
      };
    }),
  row_end: '\r\n',
};

const COMMA = 44;
const [LOWER_N, LOWER_R, LOWER_T] = Buffer.from('nrt');

/**
 * A spreadsheet takes a text for a formula that begins so, also with the signs in the width of East
 * Asian letters; an apostrophe makes it text.
 */
const signs = Buffer.from('=+-@');
const wide_signs = ['＝', '＋', '－', '＠'].map((sign) => Buffer.from(sign));

function isFormula(text: Buffer, from: number): boolean {
  const [first, second] = [text[from] as number, text[from + 1] as number];
  if (first === BACKSLASH) return [LOWER_N, LOWER_R, LOWER_T].includes(second);
  if (first < 128) return signs.includes(first);
  return wide_signs.some((sign) => sign.compare(text, from, from + sign.length) === 0);
}

/** True if a cell with this value is quoted. */
function isSpecial(text: Buffer, from: number): boolean {
  let at = from;
  for (; text[at] !== TAB && text[at] !== NEWLINE; at += 1) {
    const byte = text[at];
    if (byte === QUOTE || byte === COMMA) return true;
    if (byte !== BACKSLASH) continue;
    at += 1;
    if (text[at] === LOWER_N || text[at] === LOWER_R) return true;
  }
  return at === from;
}

function cell(lines: Lines, text: Buffer, from: number): number {
  const guarded = isFormula(text, from);
  const special = isSpecial(text, from);
  if (special) lines.byte(QUOTE);
  if (guarded) lines.byte(APOSTROPHE);
  return special ? lines.doubled(text, from) : lines.value(text, from);
}
