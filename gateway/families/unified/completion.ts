import { AppError } from '../../../domain/errors';
import type { Usage } from '../../../domain/ledger/calls';
import { isPlainObject, parseExact } from '../../wire/exact';
import { type Body, isObject } from '../../wire/values';
import type { Measured, Told } from '../reader';
import type { Translator } from '../translation';

// What every translation makes of another wire's answer: a chat completion, whole or in chunks.

const nothing = Buffer.alloc(0);
// A longer answer cannot be translated, as it is translated as a whole.
const WHOLE_MAX_BYTES = 32 * 1_048_576;

/** Seconds since 1970, the time at which a completion was made. */
export function now(): number {
  return Math.floor(Date.now() / 1_000);
}

/**
 * Translates an answer that has come whole; `translate` gets its bytes. One that it fails at, such
 * as one that is nested too deeply, passes as it came: what it was worth is unknown.
 */
export function translateWhole(
  translate: (bytes: Buffer) => Buffer,
  tell: (measured: Measured) => void,
): Translator {
  const chunks: Buffer[] = [];
  let length = 0;
  let has_failed = false;
  return {
    push(chunk) {
      length += chunk.length;
      if (length > WHOLE_MAX_BYTES) throw tooLong(WHOLE_MAX_BYTES);
      chunks.push(chunk);
      return nothing;
    },
    end() {
      const bytes = Buffer.concat(chunks);
      try {
        return translate(bytes);
      } catch {
        has_failed = true;
        return bytes;
      }
    },
    hasFailed: () => has_failed,
    tell,
  };
}

/** The error for an answer, or an event of one, with more bytes than can be translated. */
export function tooLong(max_bytes: number): AppError {
  const limit = max_bytes / 1_048_576;
  return new AppError('upstream_failed', `The provider's answer is longer than ${limit} MiB.`);
}

/** The object that a JSON text holds, whose numbers keep their digits; undefined for any other. */
export function readObject(text: string): Body | undefined {
  try {
    const value = parseExact(text.startsWith('\ufeff') ? text.slice(1) : text);
    return isPlainObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Events of these texts, as a chat's stream has them. */
export function dataFrames(texts: readonly string[]): Buffer {
  if (texts.length === 0) return nothing;
  return Buffer.from(texts.map((text) => `data: ${text}\n\n`).join(''));
}

/** Gives the usage of another wire to what was measured of its translation. */
export function tellUsage(measured: Measured, usage: Told | undefined, is_partial: boolean): void {
  if (usage === undefined) return;
  measured.usage = usage;
  measured.is_usage_partial = is_partial;
}

/** Usage in the words of a chat completion. */
export function toUsage(usage: Usage): Body {
  const { prompt_tokens, completion_tokens, cached_tokens } = usage;
  const written = usage.cache_write_tokens + (usage.cache_write_1h_tokens ?? 0);
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: {
      cached_tokens,
      cache_write_tokens: written,
      // That wire has no such figure; these tokens have a price of their own, so readers of the
      // usage need it.
      ...(usage.cache_write_1h_tokens && { cache_write_1h_tokens: usage.cache_write_1h_tokens }),
      ...sharesOf(usage, 'input'),
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoning_tokens,
      ...sharesOf(usage, 'output'),
    },
  };
}

/** The shares of sound, pictures and video, if there are any. */
function sharesOf(usage: Usage, side: 'input' | 'output'): Body {
  const shares: Body = {};
  for (const kind of ['audio', 'image', 'video'] as const) {
    const count = usage[`${kind}_${side}_tokens`];
    if (count) shares[`${kind}_tokens`] = count;
  }
  return shares;
}

/** An error that a stream names, `{type, message}`, as OpenAI's wire says it. */
export function errorOf(error: unknown): Body {
  const { type = 'api_error', message = '' } = isObject(error) ? error : {};
  return { message, type, param: null, code: type };
}
