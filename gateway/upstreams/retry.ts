import { isObject, listOf, stringOf } from '../wire/values';

type Headers = Record<string, string | string[] | undefined>;

// What a wait is made of: 1h2m3.5s, 800ms, or a bare number of seconds.
const part = /(\d+(?:\.\d+)?)(ms|s|m|h)/g;
// A longer text names no wait; reading it would take the square of its length.
const WAIT_MAX_CHARACTERS = 40;
// What is longer says more of a mistake than of a wait.
const WAIT_MAX_SECONDS = 86_400;
const seconds: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600 };

/**
 * When the provider says to ask again, in whole seconds as `retry-after` takes them; undefined if
 * it does not say, or in that header itself.
 */
export function retryAfter(headers: Headers, said: unknown): number | undefined {
  if (headers['retry-after'] !== undefined || headers['retry-after-ms'] !== undefined)
    return undefined;
  const wait = waitInDetails(said) ?? waitInWindows(headers);
  return wait === undefined || wait > WAIT_MAX_SECONDS ? undefined : Math.max(1, Math.ceil(wait));
}

/** Google's `RetryInfo` among the details of an error. */
function waitInDetails(said: unknown): number | undefined {
  const whole: unknown = Array.isArray(said) ? said[0] : said;
  const error = isObject(whole) && isObject(whole.error) ? whole.error : {};
  for (const detail of listOf(error.details)) {
    const wait = secondsIn(stringOf(detail.retryDelay));
    if (wait !== undefined) return wait;
  }
  return undefined;
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
