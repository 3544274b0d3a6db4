import type { Column, Row } from '../domain/exports/columns';

/** A text format: its first line if it has one, and the line of a row. */
export interface TextFormat {
  head: (columns: readonly Column[]) => string;
  lineOf: (columns: readonly Column[]) => (row: Row) => string;
}

/** JSON values that stand in a line as they are. */
const bare: readonly string[] = ['integer', 'json'];

/** JSON Lines: an object a row. Amounts are text: JSON's numbers are doubles to most readers. */
export const jsonl: TextFormat = {
  head: () => '',
  lineOf(columns) {
    const before = columns.map(
      ({ name }, index) => `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`,
    );
    const of_null = before.map((text) => `${text}null`);
    const isBare = columns.map(({ type }) => bare.includes(type));
    return (row) => {
      let line = '';
      for (let index = 0; index < before.length; index += 1) {
        const value = row[index] ?? null;
        if (value === null) line += of_null[index];
        else line += before[index] + (isBare[index] ? value : quoted(value));
      }
      return `${line}}\n`;
    };
  },
};

// What JSON.stringify writes in another way than it stands.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
const escaped = /["\\\u0000-\u001f\ud800-\udfff]/;

function quoted(value: string): string {
  return escaped.test(value) ? JSON.stringify(value) : `"${value}"`;
}

/**
 * A spreadsheet takes such a text for a formula, also with the signs in the width of East Asian
 * letters; an apostrophe makes it text.
 */
const formula = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
const special = /[",\r\n]/;

/**
 * CSV by RFC 4180, with a line of names. Null is an empty cell, an empty text is quoted. Texts that
 * a spreadsheet would run as a formula begin with an apostrophe; numbers stay as they are.
 */
export const csv: TextFormat = {
  head: (columns) => `${columns.map(({ name }) => name).join(',')}\r\n`,
  lineOf(columns) {
    const isText = columns.map(({ type }) => type === 'text' || type === 'json');
    return (row) => {
      let line = '';
      for (let index = 0; index < isText.length; index += 1)
        line += (index === 0 ? '' : ',') + cell(row[index] ?? null, isText[index] === true);
      return `${line}\r\n`;
    };
  },
};

function cell(value: string | null, isText: boolean): string {
  if (value === null) return '';
  if (!isText) return value;
  if (value === '') return '""';
  const guarded = formula.test(value) ? `'${value}` : value;
  return special.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded;
}
