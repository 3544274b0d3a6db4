import { Button } from '@mantine/core';

export interface CsvColumn<Item> {
  title: string;
  text: (item: Item) => string | null;
}

/** Keeps the rows that are shown as a file of comma-separated values (RFC 4180). */
export function CsvButton<Item>({
  file,
  columns,
  items,
}: {
  /** `members`, for members.csv. */
  file: string;
  columns: readonly CsvColumn<Item>[];
  items: readonly Item[] | undefined;
}) {
  const keep = () => {
    const lines = [
      columns.map(({ title }) => title),
      ...(items ?? []).map((item) => columns.map(({ text }) => text(item) ?? '')),
    ];
    const body = lines.map((cells) => cells.map(cellText).join(',')).join('\r\n');
    const url = URL.createObjectURL(new Blob([`${body}\r\n`], { type: 'text/csv' }));
    const link = document.createElement('a');
    link.href = url;
    link.download = `${file}.csv`;
    link.click();
    URL.revokeObjectURL(url);
  };
  return (
    <Button variant="default" disabled={!items?.length} onClick={keep}>
      CSV of these rows
    </Button>
  );
}

/** A cell; what a spreadsheet would take for a formula is marked as text. */
function cellText(text: string): string {
  const is_number = /^-?\d+(\.\d+)?$/.test(text);
  const safe = /^[=+\-@\t\r]/.test(text) && !is_number ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
