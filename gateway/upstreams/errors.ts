import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { AppError } from '../../domain/errors';
import { cut } from '../../domain/texts';
import { isObject, objectIn, stringOf } from '../wire/values';
import type { Failure } from './failures';
import { type LimitTold, limitTold, retryAfter } from './retry';

const DECODED_MAX_BYTES = 1_048_576;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const unreachable = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const timed_out = /^UND_ERR_(HEADERS|BODY|CONNECT)_TIMEOUT$/;
// These statuses speak of the gateway's own account with an MCP server, not of the client's.
const about_gateway = new Set([401, 402, 407]);

type Headers = Record<string, string | string[] | undefined>;

const decoders = new Map([
  ['gzip', gunzipSync],
  ['x-gzip', gunzipSync],
  ['br', brotliDecompressSync],
  ['deflate', inflateSync],
]);

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
 * What the body of an error status holds, without its compression; undefined for what is no JSON or
 * cannot be read.
 */
export function refusedBody(
  bytes: Buffer,
  encoding: string | string[] | undefined,
): { bytes: Buffer; json: unknown } | undefined {
  const decode = decoders.get(String(encoding).trim().toLowerCase());
  try {
    const said = decode ? decode(bytes, { maxOutputLength: DECODED_MAX_BYTES }) : bytes;
    // A byte order mark before it says nothing.
    const plain = said.indexOf(BYTE_ORDER_MARK) === 0 ? said.subarray(3) : said;
    return { bytes: plain, json: JSON.parse(plain.toString('utf8')) as unknown };
  } catch {
    return undefined;
  }
}

/**
 * The body that tells a client of a failure: the provider's own if it is an error object of the
 * wire, else one made of its words. Throws our own refusal if there are no words, or none for the
 * client: redirects are not followed, and this gateway's account is not the client's business.
 */
export function failureBody(
  { blame, status, message, is_retold, code, type, param }: Failure,
  { body, status: answered, headers }: { body: Buffer; status: number; headers: Headers },
): Buffer {
  if (answered >= 300 && answered < 400) {
    throw new AppError(
      'upstream_failed',
      'The provider redirects elsewhere, which is not followed.',
    );
  }
  if (blame === 'account') {
    throw accountRefused();
  }
  if (is_retold !== true && isErrorObject(body)) return body;
  if (message === '') {
    const said = answered < 300 ? 'sent an error' : `answered ${answered}`;
    const retry_after = retryAfter(headers, undefined);
    throw new AppError('upstream_failed', `The provider ${said} without saying why.`, {
      // 500 would say that this gateway is at fault.
      status: status === 500 ? 502 : status,
      ...(retry_after === undefined ? {} : { retry_after }),
    });
  }
  const fallback = status >= 500 ? 'api_error' : 'invalid_request_error';
  const error = { message, type: type ?? fallback, param, code };
  return Buffer.from(JSON.stringify({ type: 'error', error }));
}

/** The refusal for a client of a gateway whose own account a provider refuses. */
export function accountRefused(): AppError {
  return new AppError('upstream_failed', "The provider refused this gateway's own account.", {
    // Its clients cannot change that by asking again.
    is_final: true,
  });
}

/**
 * The refusal for a client whose organization's own key its provider refuses: whose it is, and what
 * was said. Too many requests may pass later; nothing else does until somebody sees to the key.
 */
export function ownKeyRefused(
  provider: string,
  { status, message }: Pick<Failure, 'status' | 'message'>,
  limit: LimitTold = limitTold({}),
): AppError {
  const said = message === '' ? `answered ${status}` : `said: ${cut(message, SAID_CHARACTERS)}`;
  const is_passing = status === 429;
  return new AppError(
    'provider_key_refused',
    `The provider "${provider}" refused your organization's own key; it ${said}`,
    is_passing ? { status, ...limit } : { is_final: true },
  );
}

const SAID_CHARACTERS = 300;

/** An error as both wires have it, with words in it. */
function isErrorObject(body: Buffer): boolean {
  const error = objectIn(body.toString('utf8'))?.error;
  return isObject(error) && stringOf(error.message) !== '';
}

/** Why a client gets nothing of what an MCP server sent; undefined if it may. */
export function serverTrouble(status: number, headers: Headers): string | undefined {
  if (about_gateway.has(status)) return "The server refused this gateway's own account.";
  if (status >= 300 && status < 400)
    return 'The server redirects elsewhere, which is not followed.';
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    return 'The server compressed its answer, which it was not asked for.';
  }
  const is_page = /^text\/html/i.test(String(headers['content-type'] ?? ''));
  return is_page ? 'The server answered with a web page.' : undefined;
}
