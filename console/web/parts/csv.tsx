import { Button } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useRef, useState } from 'react';
import { namesOf } from '../api/names';
import { type ReadPart, ROWS_MAX, readWhole } from '../api/whole';
import { act } from './act';
import { saveFile } from './file-link';

export interface CsvColumn<Item> {
  title: string;
  text: (item: Item) => string | null;
}

/** A column of names, of the ids that another column says. */
export interface NameColumn<Item> {
  title: string;
  name_of: (item: Item) => string | null;
}

type AnyColumn<Item> = CsvColumn<Item> | NameColumn<Item>;

/**
 * Keeps all rows that the filters find, not only the page that is shown, as a file of
 * comma-separated values (RFC 4180).
 */
export function CsvButton<Item>({
  file,
  columns,
  read,
}: {
  /** `members`, for members.csv. */
  file: string;
  columns: readonly AnyColumn<Item>[];
  /** Reads a page of the list with the filters that stand there. */
  read: ReadPart<Item>;
}) {
  const [is_reading, setReading] = useState(false);
  const left = useRef(new AbortController());
  useEffect(() => {
    const leaving = new AbortController();
    left.current = leaving;
    return () => leaving.abort();
  }, []);
  const keep = async () => {
    const { signal } = left.current;
    setReading(true);
    try {
      const { items, is_whole } = await readWhole(read, { signal });
      const named = await withNames(columns, items);
      signal.throwIfAborted();
      saveFile(`${file}.csv`, new Blob([csvText(named, items)], { type: 'text/csv' }));
      if (!is_whole)
        notifications.show({
          title: `The file has the first ${ROWS_MAX} rows`,
          message: 'Narrow the filters, or make an export, which has all of them.',
        });
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      setReading(false);
    }
  };
  return (
    <Button variant="default" loading={is_reading} onClick={() => void act(keep)}>
      CSV of all rows
    </Button>
  );
}

/** The columns, those of names as columns of text. */
async function withNames<Item>(
  columns: readonly AnyColumn<Item>[],
  items: readonly Item[],
): Promise<CsvColumn<Item>[]> {
  const ids = columns.flatMap((column) =>
    'name_of' in column ? items.map((item) => column.name_of(item)) : [],
  );
  const names = await namesOf(ids.filter((id) => id !== null));
  return columns.map((column) => {
    if (!('name_of' in column)) return column;
    const { title, name_of } = column;
    return { title, text: (item) => names.get(name_of(item) ?? '') ?? null };
  });
}

// Spreadsheets read a file without it in the alphabet of their country.
const BYTE_ORDER_MARK = '\ufeff';

/** Rows as a file of comma-separated values, under their titles. */
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
