import { Button } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useRef, useState } from 'react';
import { namesOf } from '../api/names';
import { type ReadPart, ROWS_MAX, readWhole } from '../api/whole';
import { type AnyColumn, type CsvColumn, csvText } from '../base/csv';
import { locale } from '../base/locale';
import { act } from './act';
import { saveFile } from './file-link';

const number = new Intl.NumberFormat(locale);

const LEFT_OUT = `A file has at most ${number.format(ROWS_MAX)} rows, and there are more. Narrow the filters. Of ledger entries, calls, payments, tickets, events and the audit log an export has all.`;

/**
 * Keeps all rows that the filters find, not only the page that is shown, as a file of
 * comma-separated values. Says how many were read while it reads, and how many the file has.
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
  const [count, setCount] = useState<number>();
  const left = useRef(new AbortController());
  useEffect(() => {
    const leaving = new AbortController();
    left.current = leaving;
    return () => leaving.abort();
  }, []);
  const keep = async () => {
    const { signal } = left.current;
    setCount(0);
    try {
      const { items, is_whole } = await readWhole(read, { signal, onRows: setCount });
      const named = await withNames(columns, items);
      signal.throwIfAborted();
      saveFile(`${file}.csv`, new Blob([csvText(named, items)], { type: 'text/csv' }));
      const rows = rowWords(items.length);
      notifications.show(
        is_whole
          ? { message: `${file}.csv has ${rows}.` }
          : { title: `${file}.csv has the first ${rows}`, message: LEFT_OUT, autoClose: false },
      );
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      setCount(undefined);
    }
  };
  return (
    <Button
      variant="default"
      aria-busy={count !== undefined}
      onClick={() => count === undefined && void act(keep)}
    >
      {count === undefined ? 'Download CSV' : `${rowWords(count)} read…`}
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

/** `1 row`, `1,234 rows` */
function rowWords(count: number): string {
  return count === 1 ? '1 row' : `${number.format(count)} rows`;
}
