import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { AppError } from '../../domain/errors';

const DECODED_MAX_BYTES = 1_048_576;
const unreachable = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const timed_out = /^UND_ERR_(HEADERS|BODY|CONNECT)_TIMEOUT$/;
// These statuses speak of the gateway's own account with the provider or MCP server, not of the
// client's.
const about_gateway = new Set([401, 402, 407]);

/**
 * True if a status says that the target itself is in trouble, or this gateway with it: others may
 * do better.
 */
export function isOfTarget(status: number): boolean {
  return status >= 500 || status < 400 || about_gateway.has(status);
}

const decoders: Record<string, (bytes: Buffer, options: { maxOutputLength: number }) => Buffer> = {
  gzip: gunzipSync,
  br: brotliDecompressSync,
  deflate: inflateSync,
};

/** The refusal for a client whose upstream gave no whole answer. */
export function upstreamError(error: (Error & { code?: string }) | undefined): AppError {
  if (error?.name === 'AppError') return error as AppError;
  if (timed_out.test(error?.code ?? '')) {
    return new AppError('upstream_timeout', 'The provider did not answer in time.');
  }
  if (unreachable.has(error?.code ?? '')) {
    return new AppError('upstream_failed', 'The provider could not be reached.');
  }
  return new AppError('upstream_failed', 'The provider broke off before its answer was complete.');
}

/**
 * The body of an upstream's refusal if it is JSON with an error of the family's shape; else throws
 * our own with its status. Redirects are not followed, and a refused provider key is not the
 * client's business.
 */
export function refusalOf(
  status: number,
  headers: Record<string, string | string[] | undefined>,
  bytes: Buffer,
): Buffer {
  if (status < 400) {
    throw new AppError(
      'upstream_failed',
      'The provider redirects elsewhere, which is not followed.',
    );
  }
  if (about_gateway.has(status)) {
    throw new AppError('upstream_failed', "The provider refused this gateway's own account.");
  }
  const body = decoded(bytes, headers['content-encoding']);
  if (body !== undefined && isError(body)) return body;
  throw new AppError('upstream_failed', `The provider answered ${status} without saying why.`, {
    // 500 is a fault of this gateway's own.
    status: status === 500 ? 502 : status,
    ...retryOf(headers['retry-after']),
  });
}

function decoded(bytes: Buffer, encoding: string | string[] | undefined): Buffer | undefined {
  const decode = decoders[String(encoding)];
  if (decode === undefined) return bytes;
  try {
    return decode(bytes, { maxOutputLength: DECODED_MAX_BYTES });
  } catch {
    return undefined;
  }
}

function isError(body: Buffer): boolean {
  try {
    const value = JSON.parse(body.toString('utf8')) as { error?: unknown } | null;
    return typeof value === 'object' && value !== null && value.error != null;
  } catch {
    return false;
  }
}

function retryOf(value: string | string[] | undefined): { retry_after?: number } {
  const seconds = Number(value);
  return Number.isFinite(seconds) && seconds > 0 ? { retry_after: seconds } : {};
}

/** Why a client gets nothing of what an MCP server sent; undefined if it may. */
export function serverTrouble(
  status: number,
  headers: Record<string, string | string[] | undefined>,
): string | undefined {
  if (about_gateway.has(status)) return "The server refused this gateway's own account.";
  if (status >= 300 && status < 400)
    return 'The server redirects elsewhere, which is not followed.';
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    return 'The server compressed its answer, which it was not asked for.';
  }
  const is_page = /^text\/html/i.test(String(headers['content-type'] ?? ''));
  return is_page ? 'The server answered with a web page.' : undefined;
}
