import type { Db } from '../sql';

// Rows in the text format of PostgreSQL's COPY: a line each, a tab between values, `\N` for null,
// and a backslash before what would end a value. For many rows whose values only go on, the server
// and this process need a fraction of what messages of rows take.

export const TAB = 9;
export const NEWLINE = 10;
export const BACKSLASH = 92;

/** What stands behind a backslash, and for what. */
const escapes: Record<string, string> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};
const by_letter = Uint8Array.from({ length: 256 }, (_, letter) => {
  const escaped_as = escapes[String.fromCharCode(letter)];
  return escaped_as === undefined ? letter : escaped_as.charCodeAt(0);
});

/**
 * Reads the rows of a statement in COPY's text format, UTF-8. A name stands for a binding, as
 * elsewhere.
 */
export type CopyText = (db: Db, sql: string, bindings: Record<string, unknown>) => Promise<Buffer>;

/** A row as COPY writes it, its newline too. */
export function copyLine(row: readonly (string | null)[]): string {
  return `${row.map((value) => (value === null ? '\\N' : escaped(value))).join('\t')}\n`;
}

function escaped(value: string): string {
  return value.replace(/[\b\f\n\r\t\v\\]/g, (character) => {
    const found = Object.entries(escapes).find(([, one]) => one === character);
    return `\\${found?.[0] ?? character}`;
  });
}

/** Where the lines of a text end. */
export function* lineEnds(text: Buffer): Generator<number> {
  for (let end = text.indexOf(NEWLINE); end !== -1; end = text.indexOf(NEWLINE, end + 1)) yield end;
}

/** The values of a line. */
export function valuesOf(text: Buffer, start: number, end: number): (string | null)[] {
  return text.toString('utf8', start, end).split('\t').map(said);
}

/** The rows of a text, each a list of its values. */
export function* rowsOf(text: Buffer): Generator<(string | null)[]> {
  let start = 0;
  for (const end of lineEnds(text)) {
    yield valuesOf(text, start, end);
    start = end + 1;
  }
}

/** What a value says. */
export function said(written: string): string | null {
  if (written === '\\N') return null;
  if (!written.includes('\\')) return written;
  return written.replace(/\\(.)/g, (_, letter: string) => escapes[letter] ?? letter);
}

/** What a byte behind a backslash stands for. */
export function unescaped(letter: number): number {
  return by_letter[letter] as number;
}

/** True if the value that begins there is null. */
export function isNull(text: Buffer, from: number): boolean {
  return text[from] === BACKSLASH && text[from + 1] === UPPER_N;
}

const UPPER_N = 78;
