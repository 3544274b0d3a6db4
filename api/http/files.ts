import type { Context } from 'koa';
import { AppError } from '../../domain/errors';
import type { ByteRange } from '../../exports/target';

/** A file as it is offered to a reader. */
export interface OfferedFile {
  name: string;
  content_type: string;
  bytes: number;
  /** In hexadecimal; its ETag. */
  sha256: string;
}

/** What a reader asked for: nothing new, a range, or all of it. */
export type Asked = { status: 304 } | { status: 206; range: ByteRange } | { status: 200 };

/**
 * Finds what part of a file is wanted. Several ranges are answered as all of it. Throws 416 if the
 * file ends before the range begins.
 */
export function askedOf(http: Context, { bytes, sha256 }: OfferedFile): Asked {
  const etag = tagOf(sha256);
  if (namesTag(http.get('if-none-match'), etag)) return { status: 304 };
  const wanted = rangeOf(http.get('range'), bytes);
  const of_this = http.get('if-range') === '' || http.get('if-range') === etag;
  if (wanted === undefined || !of_this) return { status: 200 };
  if (wanted.start > wanted.end) {
    http.set('content-range', `bytes */${bytes}`);
    throw new AppError('range_not_satisfiable', `This file has ${bytes} bytes.`);
  }
  return { status: 206, range: wanted };
}

/**
 * Sets the status and headers of a file's answer, once its bytes are at hand: an error must not
 * bear the name and the tag of the file.
 */
export function describeFile(http: Context, file: OfferedFile, asked: Asked): void {
  http.status = asked.status;
  http.set('etag', tagOf(file.sha256));
  http.set('accept-ranges', 'bytes');
  http.set('cache-control', 'private, no-transform');
  http.attachment(file.name);
  if (asked.status === 304) return;
  http.type = file.content_type;
  http.length = file.bytes;
  if (asked.status !== 206) return;
  const { start, end } = asked.range;
  http.set('content-range', `bytes ${start}-${end}/${file.bytes}`);
  http.length = end - start + 1;
}

function tagOf(sha256: string): string {
  return `"${sha256}"`;
}

function namesTag(header: string, etag: string): boolean {
  const tags = header.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.includes(etag) || header.trim() === '*';
}

/**
 * The one range of bytes that a header asks for; undefined if it asks for all, for several or in
 * another unit. Its start lies behind its end if the file has none of it.
 */
function rangeOf(header: string, bytes: number): ByteRange | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(header.trim()) ?? [];
  if (first === '' && last === '') return undefined;
  if (first === '')
    return { start: last === '0' ? bytes : Math.max(0, bytes - Number(last)), end: bytes - 1 };
  const start = Number(first);
  const end = last === '' ? bytes - 1 : Math.min(Number(last), bytes - 1);
  // The end before the start is no range at all.
  if (last !== '' && Number(last) < start) return undefined;
  return { start, end };
}
