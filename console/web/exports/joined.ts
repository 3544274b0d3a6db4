/** Files of more than this, packed, are an archive's and no spreadsheet's. */
export const JOINED_BYTES_MAX = 50_000_000;

const LINE_FEED = 10;

/**
 * Packed files of comma-separated values as one, in their order: the titles of the first stand
 * above the rows of all. Each is read when it is its turn, so that one is unpacked at a time.
 */
export async function joinedCsv(
  files: readonly (() => Promise<Blob>)[],
  onFile: (done: number) => void = () => undefined,
): Promise<Blob> {
  const parts: Blob[] = [];
  for (const [place, read] of files.entries()) {
    const packed = await read();
    // Chunks of a stream come into the blob as they are; a browser may keep that on its disk.
    const whole = await new Response(
      packed.stream().pipeThrough(new DecompressionStream('gzip')),
    ).blob();
    parts.push(place === 0 ? whole : await withoutTitles(whole));
    onFile(place + 1);
  }
  return new Blob(parts, { type: 'text/csv' });
}

/** No title has a line break in it. */
async function withoutTitles(whole: Blob): Promise<Blob> {
  const STEP = 65_536;
  for (let start = 0; start < whole.size; start += STEP) {
    const bytes = new Uint8Array(await whole.slice(start, start + STEP).arrayBuffer());
    const end = bytes.indexOf(LINE_FEED);
    if (end >= 0) return whole.slice(start + end + 1);
  }
  return new Blob([]);
}
