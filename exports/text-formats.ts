import type { Column, Row } from '../domain/exports/columns';

/** Lines of a page of rows. */
export type Lines = (rows: readonly Row[]) => string;

/** A text format: its first line if it has one, and its rows. */
export interface TextFormat {
  head: (columns: readonly Column[]) => string;
  lines: (columns: readonly Column[]) => Lines;
}

/** JSON values that stand in a line as they are. */
const bare: readonly string[] = ['integer', 'json'];

/** JSON Lines: an object a row. Amounts are text: JSON's numbers are doubles to most readers. */
export const jsonl: TextFormat = {
  head: () => '',
  lines(columns) {
    const cells = columns.map(({ name, type }, index) => ({
      before: `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`,
      isBare: bare.includes(type),
      isText: type === 'text',
    }));
    return (rows) => {
      let text = '';
      for (const row of rows) {
        for (const [index, { before, isBare, isText }] of cells.entries()) {
          const value = row[index];
          text += before;
          if (value === null || value === undefined) text += 'null';
          else if (isBare) text += value;
          else text += isText ? JSON.stringify(value) : `"${value}"`;
        }
        text += '}\n';
      }
      return text;
    };
  },
};

/** A spreadsheet takes such a text for a formula; an apostrophe makes it text. */
const formula = /^[=+\-@\t\r]/;
const special = /[",\r\n]/;

/**
 * CSV by RFC 4180, with a line of names. Null is an empty cell, an empty text is quoted. Texts that
 * a spreadsheet would run as a formula begin with an apostrophe; numbers stay as they are.
 */
export const csv: TextFormat = {
  head: (columns) => `${columns.map(({ name }) => name).join(',')}\r\n`,
  lines(columns) {
    const isText = columns.map(({ type }) => type === 'text' || type === 'json');
    return (rows) => {
      let text = '';
      for (const row of rows) {
        for (let index = 0; index < isText.length; index += 1)
          text += (index === 0 ? '' : ',') + cell(row[index] ?? null, isText[index] === true);
        text += '\r\n';
      }
      return text;
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
