import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../domain/errors';

/**
 * Reads a request's bytes, which must be UTF-8, as parsers differ in what they make of others.
 * Throws 413 above the limit, by the declared length if there is one.
 */
export async function readBody(
  req: IncomingMessage,
  limit: number,
  arrival: Arrival,
): Promise<Buffer> {
  const { 'content-type': type = '' } = req.headers;
  if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(type)) {
    throw new AppError('unsupported_media_type', 'Send the body as content-type application/json.');
  }
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(type)?.[1];
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw new AppError('unsupported_media_type', 'Send the body as application/json in UTF-8.');
  }
  const raw = await readBytes(req, limit, arrival);
  if (isUtf8(raw)) return raw;
  throw new AppError('invalid_json', 'The body is not UTF-8, as JSON must be.');
}

/** Reads a request's bytes. Throws 413 above the limit, by the declared length if there is one. */
export async function readBytes(
  req: IncomingMessage,
  limit: number,
  arrival: Arrival,
): Promise<Buffer> {
  const { 'content-length': declared = '0', 'content-encoding': coding } = req.headers;
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    throw new AppError('unsupported_media_type', 'Send the body without content-encoding.');
  }
  try {
    if (Number(declared) > limit) throw tooLarge(limit);
    return await collect(req, limit, arrival);
  } catch (error) {
    // The rest is read and dropped; unread, it would stand before the connection's next request.
    req.resume();
    throw error;
  } finally {
    arrival.end();
  }
}

/** A body on its way: how many bytes of it may be here, and how long it may take. */
export interface Arrival {
  /** Counts bytes that have come; throws the refusal if there is no room for them. */
  take(bytes: number): void;
  /** The body is whole, or given up: what was counted of it is given back. */
  end(): void;
  /** The longest time without a byte, and that of the whole body. */
  idle_ms: number;
  whole_ms: number;
}

function collect(req: IncomingMessage, limit: number, arrival: Arrival): Promise<Buffer> {
  const { idle_ms, whole_ms } = arrival;
  const parts = createParts();
  const ends_at = performance.now() + whole_ms;
  let length = 0;
  return new Promise((resolve, reject) => {
    // The client has left before its body was looked at.
    if (!req.readable) return reject(endedEarly());
    const onData = (chunk: Buffer) => {
      length += chunk.length;
      try {
        if (length > limit) throw tooLarge(limit);
        if (performance.now() > ends_at) throw tooSlow();
        arrival.take(chunk.length);
      } catch (error) {
        return refuse(error);
      }
      parts.add(chunk);
      timer.refresh();
    };
    const onEnd = () => {
      leave();
      resolve(parts.whole());
    };
    const refuse = (error: unknown) => {
      leave();
      reject(error);
    };
    const onBroken = () => refuse(endedEarly());
    const timer = setTimeout(() => refuse(tooSlow()), idle_ms);
    const leave = () => {
      clearTimeout(timer);
      req.off('data', onData).off('end', onEnd).off('close', onBroken).off('error', onBroken);
      // What breaks from here on is nobody's error.
      req.on('error', ignore);
    };
    req.on('data', onData).on('end', onEnd).on('close', onBroken).on('error', onBroken);
  });
}

const ignore = () => undefined;

const PIECES_MAX = 1_024;

/** Puts chunks together: tiny ones would each take many times their bytes as objects. */
function createParts() {
  const parts: Buffer[] = [];
  let pieces: Buffer[] = [];
  return {
    add(chunk: Buffer): void {
      pieces.push(chunk);
      if (pieces.length < PIECES_MAX) return;
      parts.push(Buffer.concat(pieces));
      pieces = [];
    },
    whole: () => Buffer.concat([...parts, ...pieces]),
  };
}

function endedEarly(): AppError {
  return new AppError('invalid_request', 'The body ended early.');
}

const MB = 1_048_576;

function tooLarge(limit: number): AppError {
  const most = limit < MB ? `${limit} bytes` : `${Math.floor((limit / MB) * 10) / 10} MB`;
  return new AppError(
    'payload_too_large',
    `The request is larger than the ${most} that this gateway takes. Send less at once: a shorter conversation, smaller pictures or files, or a sound in parts.`,
  );
}

function tooSlow(): AppError {
  return new AppError('invalid_request', 'The body did not arrive in time. Send it again.', {
    status: 408,
  });
}
