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
 * Sets the headers of a file's answer and finds what part of it is wanted. Several ranges are
 * answered as all of it. Throws 416 if the file ends before the range begins.
 */
export function offerFile(http: Context, file: OfferedFile): Asked {
  const etag = `"${file.sha256}"`;
  http.set('etag', etag);
  http.set('accept-ranges', 'bytes');
  http.set('cache-control', 'private, no-transform');
  http.attachment(file.name);
  http.type = file.content_type;
  if (namesTag(http.get('if-none-match'), etag)) return { status: 304 };
  const wanted = rangeOf(http.get('range'), file.bytes);
  const of_this = http.get('if-range') === '' || http.get('if-range') === etag;
  if (wanted === undefined || !of_this) {
    http.length = file.bytes;
    return { status: 200 };
  }
  if (wanted.start > wanted.end) {
    http.set('content-range', `bytes */${file.bytes}`);
    http.remove('etag');
    throw new AppError('range_not_satisfiable', `This file has ${file.bytes} bytes.`);
  }
  http.set('content-range', `bytes ${wanted.start}-${wanted.end}/${file.bytes}`);
  http.length = wanted.end - wanted.start + 1;
  return { status: 206, range: wanted };
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
