import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import rawBody from 'raw-body';
import { AppError } from '../../domain/errors';

/**
 * Reads a request's bytes, which must be UTF-8, as parsers differ in what they make of others.
 * Throws 413 above the limit, by the declared length if there is one.
 */
export async function readBody(req: IncomingMessage, limit: number): Promise<Buffer> {
  const { 'content-type': type = '' } = req.headers;
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(type)) {
    throw new AppError('unsupported_media_type', 'Send the body as content-type application/json.');
  }
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(type)?.[1];
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw new AppError('unsupported_media_type', 'Send the body as application/json in UTF-8.');
  }
  const raw = await readBytes(req, limit);
  if (isUtf8(raw)) return raw;
  throw new AppError('invalid_json', 'The body is not UTF-8, as JSON must be.');
}

/** Reads a request's bytes. Throws 413 above the limit, by the declared length if there is one. */
export async function readBytes(req: IncomingMessage, limit: number): Promise<Buffer> {
  const { 'content-length': declared, 'content-encoding': coding } = req.headers;
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    throw new AppError('unsupported_media_type', 'Send the body without content-encoding.');
  }
  try {
    return await rawBody(req, { limit, ...(declared ? { length: Number(declared) } : {}) });
  } catch (error) {
    // The rest is read and dropped; unread, it would stand before the connection's next request.
    req.resume();
    throw unreadable(error, limit);
  }
}

function unreadable(error: unknown, limit: number): unknown {
  const { type } = error as { type?: string };
  if (type === 'entity.too.large') {
    return new AppError('payload_too_large', `A body may have at most ${limit} bytes.`);
  }
  if (type === 'request.aborted' || type === 'request.size.invalid') {
    return new AppError('invalid_request', 'The body ended early.');
  }
  return error;
}
