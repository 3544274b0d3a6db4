/** A column of a file: its title, and what it says of an item; null is an empty cell. */
export interface CsvColumn<Item> {
  title: string;
  text: (item: Item) => string | null;
}

/** A column of names, of the ids that another column says. */
export interface NameColumn<Item> {
  title: string;
  name_of: (item: Item) => string | null;
}

export type AnyColumn<Item> = CsvColumn<Item> | NameColumn<Item>;

// Spreadsheets read a file without it in the alphabet of their country.
const BYTE_ORDER_MARK = '\ufeff';

/** Rows as a file of comma-separated values (RFC 4180), under their titles. */
export function csvText<Item>(columns: readonly CsvColumn<Item>[], items: readonly Item[]): string {
  const lines = [
    columns.map(({ title }) => title),
    ...items.map((item) => columns.map(({ text }) => text(item) ?? '')),
  ];
  return `${BYTE_ORDER_MARK}${lines.map((cells) => cells.map(cellText).join(',')).join('\r\n')}\r\n`;
}

/** A cell; what a spreadsheet would take for a formula is marked as text. */
function cellText(text: string): string {
  const is_number = /^-?\d+(\.\d+)?$/.test(text);
  const safe = /^[=+\-@＝＋－＠\t\r\n]/.test(text) && !is_number ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
