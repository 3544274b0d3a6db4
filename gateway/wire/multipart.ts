import { Busboy } from '@fastify/busboy';
import { AppError } from '../../domain/errors';
import type { Span } from './scan';

/** A part of a form: a text, or a file. */
export interface Part {
  name: string;
  /** Undefined if the part is a file. */
  text: string | undefined;
  file_name: string;
  type: string;
  /** Where its content lies, in bytes. */
  place: Span;
}

const HEAD_MAX_BYTES = 8_192;
const LINE_END = '\r\n';
const HEAD_END = '\r\n\r\n';
// Nothing is decoded here, nor by most providers.
const plain_encodings = new Set(['7bit', '8bit', 'binary']);
// Readers differ in whether a backslash escapes a quote. A name is looked for as each of them does.
const balanced = /^(?:[^"]|"(?:[^"\\]|\\.)*")*$/s;
const escaping = /;\s*(name\*?)=("(?:[^"\\]|\\.)*"|[^\s;"]*)(?=\s*(?:;|$))|"(?:[^"\\]|\\.)*"/gis;
const bare = /;\s*(name\*?)\s*=\s*("[^"]*"|[^\s;]*)|"[^"]*"/gi;

/**
 * The parts of a multipart form, in their order. A form that readers may take apart in different
 * ways is refused: the provider must not read another one than was checked.
 */
export async function partsOf(bytes: Buffer, boundary: string, parts_max: number): Promise<Part[]> {
  const places = placesOf(bytes, `--${boundary}`, parts_max);
  for (const { head } of places) checkHead(bytes.toString('latin1', head.start, head.end));
  const parts = await read(bytes, boundary);
  const is_alike = parts.length === places.length;
  if (!is_alike) throw broken('One of its parts is none of a form.');
  return parts.map((part, at) => {
    const place = (places[at] as Place).content;
    if (!isSame(part, bytes.subarray(place.start, place.end)))
      throw broken('Its parts cannot be told apart.');
    const { name, text, file_name, type } = part;
    return { name, text, file_name, type, place };
  });
}

/** The refusal of a form. */
export function broken(why: string): AppError {
  return new AppError('invalid_request', `The body is not a form as this route takes it. ${why}`);
}

interface Place {
  head: Span;
  content: Span;
}

/** Finds the parts by the lines between them. */
function placesOf(bytes: Buffer, delimiter: string, parts_max: number): Place[] {
  const places: Place[] = [];
  let at = bytes.indexOf(delimiter);
  if (at < 0) throw broken('Its boundary stands nowhere.');
  if (at > 0 && !standsAt(bytes, LINE_END, at - 2)) throw midst();
  for (;;) {
    const behind = at + delimiter.length;
    const next = bytes.indexOf(delimiter, behind);
    if (standsAt(bytes, '--', behind)) {
      if (next >= 0) throw broken('It goes on behind its end.');
      return places;
    }
    if (!standsAt(bytes, LINE_END, behind)) throw midst();
    if (next < 0) throw broken('It ends early, without its last boundary.');
    places.push(placeBetween(bytes, behind, next));
    if (places.length > parts_max) throw broken(`It has over ${parts_max} parts.`);
    at = next;
  }
}

function placeBetween(bytes: Buffer, from: number, next: number): Place {
  if (!standsAt(bytes, LINE_END, next - LINE_END.length)) throw midst();
  const head_end = bytes.indexOf(HEAD_END, from);
  const start = head_end + HEAD_END.length;
  const end = next - LINE_END.length;
  if (head_end <= from || start > end) throw broken('One of its parts has no head.');
  const head = { start: from + LINE_END.length, end: head_end };
  if (head.end - head.start > HEAD_MAX_BYTES)
    throw broken(`The head of a part has over ${HEAD_MAX_BYTES} bytes.`);
  return { head, content: { start, end } };
}

function midst(): AppError {
  return broken('Its boundary stands in the midst of a line.');
}

function standsAt(bytes: Buffer, text: string, at: number): boolean {
  return bytes.toString('latin1', Math.max(at, 0), at + text.length) === text;
}

/** Refuses a head that may be read to name the part in two ways. */
function checkHead(head: string): void {
  const lines = head.split(/\r\n(?![ \t])/);
  const [line, ...others] = lines.filter((one) => /^\s*content-disposition\s*:/i.test(one));
  if (line === undefined || others.length > 0)
    throw broken('A part needs one line "content-disposition".');
  const [name, ...more] = balanced.test(line) ? namesIn(line, escaping) : [];
  const others_named = namesIn(line, bare).filter((one) => one !== name);
  if (!name || more.length > 0 || others_named.length > 0)
    throw broken('A part needs one name, in a form that all readers read alike.');
}

/** The names that a line gives its part, as they are written. */
function namesIn(line: string, reading: RegExp): string[] {
  const found = [...line.matchAll(reading)].filter(([, key]) => key !== undefined);
  return found.map(([, key = '', name = '']) => (key.endsWith('*') ? '' : name));
}

type Read = Omit<Part, 'place'> & { chunks: Buffer[] };

function read(bytes: Buffer, boundary: string): Promise<Read[]> {
  const parts: Read[] = [];
  return new Promise((resolve, reject) => {
    const reader = new Busboy({
      headers: { 'content-type': `multipart/form-data; boundary="${boundary}"` },
      limits: { fieldSize: bytes.length, headerSize: HEAD_MAX_BYTES + HEAD_END.length },
      preservePath: true,
      isPartAFile: (_name, _type, file_name) => file_name !== undefined,
    });
    const add = (part: Read, encoding: string): void => {
      if (!plain_encodings.has(encoding)) reject(broken('A part is encoded.'));
      if (!part.name) reject(broken('A part has no name.'));
      parts.push(part);
    };
    reader.on('field', (name, text, _short_name, _short_text, encoding, type) =>
      add({ name, text, file_name: '', type, chunks: [] }, encoding),
    );
    reader.on('file', (name, stream, file_name, encoding, type) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('error', () => reject(broken('It ends early.')));
      add({ name, text: undefined, file_name, type, chunks }, encoding);
    });
    reader.on('finish', () => resolve(parts));
    reader.on('error', () => reject(broken('Its parts cannot be told apart.')));
    reader.end(bytes);
  });
}

function isSame({ text, chunks }: Read, content: Buffer): boolean {
  if (text !== undefined) return text === content.toString('utf8');
  let from = 0;
  for (const chunk of chunks) {
    if (!chunk.equals(content.subarray(from, from + chunk.length))) return false;
    from += chunk.length;
  }
  return from === content.length;
}
