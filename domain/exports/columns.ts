/**
 * What a column holds. A row's values are text or null, whatever the type. A `sum` is of nanos: a
 * period may move more through a wallet than 64 bits can say, though none ever holds so much.
 */
export type ColumnType = 'text' | 'time' | 'integer' | 'decimal' | 'nanos' | 'sum' | 'json';

/** A column of an exported file. */
export interface Column {
  name: string;
  type: ColumnType;
}

/** A row: a text or null for each column. Nanos and integers are digits, JSON is JSON text. */
export type Row = (string | null)[];

/** A column as a statement selects it. */
export interface Selected extends Column {
  sql: string;
}

/** A kind that is read in pages, a file for each UTC day. */
export interface DailyKind {
  selected: readonly Selected[];
  /** The columns that order the rows; a page goes on after their values in the last row. */
  key: readonly [string] | readonly [string, string];
  /**
   * The statement of a page. Its bindings: the part's, `after` and `after_2` (values of the key, or
   * empty) and `limit`.
   */
  page: string;
  /** Columns whose values may be long. Without them a row is some kilobytes at most. */
  long?: readonly string[];
  /** The columns that the manifest sums by, and the amount that it sums. */
  sums: { currency?: string; type: string; amount?: string };
}

/** Columns from triples of name, type and SQL expression. */
export function columns(given: readonly (readonly [string, ColumnType, string])[]): Selected[] {
  return given.map(([name, type, sql]) => ({ name, type, sql }));
}

/**
 * What somebody or something was called as the export was made: files are the same whenever they
 * are written.
 */
export function nameThen(id: string): string {
  return `case when ${id} is not null then
    (select n.name from export_names n where n.export_id = :export_id and n.id = ${id}) end`;
}

/** The select list of columns, each as text: a time in UTC as PostgreSQL writes it. */
export function selectList(selected: readonly Selected[]): string {
  return selected
    .map(
      ({ name, type, sql }) =>
        `${type === 'time' ? `((${sql}) at time zone 'UTC')::text` : `(${sql})::text`} as ${name}`,
    )
    .join(', ');
}

/**
 * The columns of a file: before each amount in nanos stands the same amount as an exact decimal of
 * major units, under the name without `_nanos`.
 */
export function fileColumns(selected: readonly Column[]): Column[] {
  return selected.flatMap<Column>(({ name, type }) =>
    isAmount(type)
      ? [
          { name: name.replace(/_nanos$/, ''), type: 'decimal' },
          { name, type },
        ]
      : [{ name, type }],
  );
}

export function isAmount(type: ColumnType | undefined): boolean {
  return type === 'nanos' || type === 'sum';
}

/** A row of a file from one of a statement, whose values stand in the order of the columns. */
export function fileRow(selected: readonly Column[], found: Row): Row {
  const row: Row = [];
  for (let index = 0; index < selected.length; index += 1) {
    const value = found[index] ?? null;
    if (isAmount(selected[index]?.type)) row.push(value === null ? null : decimalOf(value));
    row.push(value);
  }
  return row;
}

/** The exact decimal text of digits of nanos: as decimalText of money, without a number. */
export function decimalOf(nanos: string): string {
  const sign = nanos[0] === '-' ? '-' : '';
  const digits = nanos.slice(sign.length).padStart(10, '0');
  let end = digits.length;
  const point = end - 9;
  while (end > point && digits.charCodeAt(end - 1) === 48) end -= 1;
  return sign + digits.slice(0, point) + (end > point ? `.${digits.slice(point, end)}` : '');
}
