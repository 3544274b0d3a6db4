import { AppError, type ErrorDetails, errorHeaders } from '../../domain/errors';
import { isObject, listOf, stringOf } from '../wire/values';

type Headers = Record<string, string | string[] | undefined>;

// What a wait is made of: 1h2m3.5s, 800ms, or a bare number of seconds.
const part = /(\d+(?:\.\d+)?)(ms|s|m|h)/g;
// A longer text names no wait; reading it would take the square of its length.
const WAIT_MAX_CHARACTERS = 40;
// Google's words for it, as they stand in a text (continuedev/continue#10085).
const told_wait = /\bPlease retry in ([\d.hms]{1,40}?)\.?(?:\s|$)/;
// What is longer says more of a mistake than of a wait.
const WAIT_MAX_SECONDS = 86_400;
const seconds: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600 };

/** What each 429 says of the limit that is reached (specification: Errors, rule 1). */
export type LimitTold = Required<Pick<ErrorDetails, 'retry_after' | 'rate_limit'>>;

/**
 * The limit of a provider's 429, as far as its headers and its body tell it: the wait is one second
 * if they tell none, and the limit is 0.
 */
export function limitTold(headers: Headers, said?: unknown, now_ms = Date.now()): LimitTold {
  const retry_after = retryAfter(headers, said, now_ms) ?? 1;
  const resets_at = new Date(now_ms + retry_after * 1_000);
  return { retry_after, rate_limit: { limit: usedUp(headers), resets_at } };
}

/** The headers of a provider's 429, as every 429 has them. */
export function limitHeaders(headers: Headers, said?: unknown): Record<string, string> {
  const details = { status: 429, ...limitTold(headers, said) };
  return errorHeaders(new AppError('upstream_failed', 'Too many requests.', details));
}

/**
 * When the provider says to ask again, in whole seconds from 1 on as `retry-after` takes them;
 * undefined if it does not say.
 */
export function retryAfter(
  headers: Headers,
  said: unknown,
  now_ms = Date.now(),
): number | undefined {
  const wait = waitIn(said) ?? waitInWindows(headers);
  const is_wait = wait !== undefined && wait <= WAIT_MAX_SECONDS;
  return headerWait(headers, now_ms) ?? (is_wait ? wholeSeconds(wait) : undefined);
}

/** The same, as far as it stands in the headers that are made for it. */
export function headerWait(headers: Headers, now_ms = Date.now()): number | undefined {
  const text = String(headers['retry-after'] ?? '').trim();
  const wait = numberIn(text) ?? secondsUntil(text, now_ms) ?? milliseconds(headers);
  return wait === undefined ? undefined : wholeSeconds(Math.min(wait, WAIT_MAX_SECONDS));
}

function wholeSeconds(wait: number): number {
  return Math.max(1, Math.ceil(wait));
}

function milliseconds(headers: Headers): number | undefined {
  const count = numberIn(String(headers['retry-after-ms'] ?? '').trim());
  return count === undefined ? undefined : count / 1_000;
}

function numberIn(text: string): number | undefined {
  return /^\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : undefined;
}

/** The seconds up to a date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`. */
function secondsUntil(text: string, now_ms: number): number | undefined {
  if (text.length > WAIT_MAX_CHARACTERS || !/^[a-z]{3,9},? .*\d$|GMT$/i.test(text))
    return undefined;
  const at_ms = Date.parse(/GMT$/i.test(text) ? text : `${text} GMT`);
  return Number.isNaN(at_ms) ? undefined : (at_ms - now_ms) / 1_000;
}

/** How many the window that is used up has, as OpenAI and Groq tell it; 0 if nobody tells. */
function usedUp(headers: Headers): number {
  for (const kind of ['requests', 'tokens']) {
    const limit = String(headers[`x-ratelimit-limit-${kind}`] ?? '');
    if (headers[`x-ratelimit-remaining-${kind}`] === '0' && /^\d{1,15}$/.test(limit))
      return Number(limit);
  }
  return 0;
}

/**
 * How many seconds an error says to wait: by Google's `RetryInfo` among its details, or in its text
 * where they are missing.
 */
export function waitIn(said: unknown): number | undefined {
  const whole: unknown = Array.isArray(said) ? said[0] : said;
  const error = isObject(whole) && isObject(whole.error) ? whole.error : {};
  for (const detail of listOf(error.details)) {
    const wait = secondsIn(stringOf(detail.retryDelay));
    if (wait !== undefined) return wait;
  }
  return secondsIn(told_wait.exec(stringOf(error.message))?.[1] ?? '');
}

/** The end of the windows that are used up, as OpenAI and Groq tell them. */
function waitInWindows(headers: Headers): number | undefined {
  const waits = ['requests', 'tokens'].flatMap((kind) =>
    headers[`x-ratelimit-remaining-${kind}`] === '0'
      ? (secondsIn(String(headers[`x-ratelimit-reset-${kind}`] ?? '')) ?? [])
      : [],
  );
  return waits.length === 0 ? undefined : Math.max(...waits);
}

function secondsIn(text: string): number | undefined {
  if (text.length > WAIT_MAX_CHARACTERS) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(text)) return Number(text);
  const parts = [...text.matchAll(part)];
  if (parts.length === 0 || parts.map(([whole]) => whole).join('') !== text) return undefined;
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (seconds[unit] ?? 0), 0);
}
