/** A cell: a text, a number, or nothing. Amounts are decimal text. */
type Cell = { text: string | null } | { number: string | number | bigint };

/**
 * CSV by RFC 4180 with a line of names, as exports write it: nothing is an empty cell, and a text
 * that a spreadsheet would run as a formula begins with an apostrophe.
 */
export function csvOf(names: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [names.join(','), ...rows.map((row) => row.map(textOf).join(','))];
  return `${lines.join('\r\n')}\r\n`;
}

function textOf(cell: Cell): string {
  if ('number' in cell) return String(cell.number);
  if (cell.text === null) return '';
  const safe = formula.test(cell.text) ? `'${cell.text}` : cell.text;
  return special.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const formula = /^[=+\-@＝＋－＠\t\r\n]/;
const special = /[",\r\n]|^$/;
