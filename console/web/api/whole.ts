// Lists of the API come a page at a time; a file has all of what a filter finds.

/** A page of a list, and where the next one begins; null: this was the last. */
export interface Part<Item> {
  items: readonly Item[];
  next: string | null;
}

/** Reads the page at a place; undefined is the first. */
export type ReadPart<Item> = (place: string | undefined) => Promise<Part<Item>>;

/** More rows than these are an export's. */
export const ROWS_MAX = 10_000;

/** The pages of the API's lists have at most so many rows. */
export const PART_ROWS = 200;

/**
 * All rows of a list, as it stands, at most `most`; `is_whole` is false if there are more. `onRows`
 * hears after each page how many there are. Stops with what it throws when `signal` aborts.
 */
export async function readWhole<Item>(
  read: ReadPart<Item>,
  {
    most = ROWS_MAX,
    signal,
    onRows,
  }: { most?: number; signal?: AbortSignal; onRows?: (count: number) => void } = {},
): Promise<{ items: Item[]; is_whole: boolean }> {
  const items: Item[] = [];
  let place: string | undefined;
  for (;;) {
    const part = await read(place);
    signal?.throwIfAborted();
    items.push(...part.items);
    onRows?.(Math.min(items.length, most));
    if (part.next === null) return { items: items.slice(0, most), is_whole: items.length <= most };
    if (items.length >= most) return { items: items.slice(0, most), is_whole: false };
    place = part.next;
  }
}

/** Where the list goes on that an answer is a page of, however it was asked for. */
export function nextOf(answer: object): string | null {
  return 'next' in answer && typeof answer.next === 'string' ? answer.next : null;
}
