import { isUtf8 } from 'node:buffer';
import type { Funded } from '../call/call';
import { nothing_measured } from '../families/reader';
import { isObject } from '../wire/values';
import { type Answer, type Ended, type Head, open, picked } from './answer';
import { announced, type Charge, trail } from './charge';
import type { Valve } from './valve';

// An error in the place of sound is no longer than this.
const TEXT_MAX_BYTES = 65_536;
/** In which a sound says how many of its bytes are a second. */
const HEAD_BYTES = 64;

/**
 * Bytes that are only counted. Their first ones say whether they are sound: JSON and pages are not,
 * whatever their content type.
 */
export function soundAnswer(
  call: Funded,
  valve: Valve,
  { status, headers }: Head,
  charge?: Charge,
): Answer {
  const measured = { ...nothing_measured };
  let first: Buffer[] | undefined = [];
  const passOn = (): void => {
    if (first === undefined) return;
    const length = headers['content-length'];
    // Only what has no length can have a trailer.
    const of_length =
      typeof length === 'string' && !headers['content-encoding'] && charge === undefined;
    if (!call.client_is_gone) {
      open(call, status, {
        ...picked(headers),
        ...(of_length ? { 'content-length': length } : {}),
        ...announced(call),
      });
    }
    measured.head = beginning().subarray(0, HEAD_BYTES);
    for (const chunk of first) valve.write(chunk);
    first = undefined;
    measured.has_output = true;
  };
  const beginning = () => Buffer.concat(first ?? []);
  return {
    push(chunk) {
      measured.bytes += chunk.length;
      if (first === undefined) valve.write(chunk);
      else {
        first.push(chunk);
        if (looksLikeSound(beginning())) passOn();
      }
    },
    // What bytes are worth was known before they came.
    isMeasured: () => true,
    async end(error): Promise<Ended> {
      if (first !== undefined && error === undefined) {
        const bytes = beginning();
        const said = jsonIn(bytes);
        if (said !== undefined) return { nothing: isObject(said) ? { said } : {} };
        if (!hasNoText(bytes)) return { nothing: {} };
        passOn();
      }
      if (first !== undefined && !call.client_is_gone) return { nothing: { error } };
      measured.is_usage_partial = error !== undefined;
      if (first === undefined) await trail(call, charge, measured);
      if (error === undefined) valve.end();
      else if (first === undefined) call.ctx.res.destroy();
      return { measured };
    },
  };
}

/** Any JSON value; undefined for what is none. */
function jsonIn(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8')) as unknown;
  } catch {
    return undefined;
  }
}

/** False while the bytes may still turn out to be a text. */
function looksLikeSound(bytes: Buffer): boolean {
  return bytes.length > TEXT_MAX_BYTES || hasNoText(bytes);
}

/** True for bytes that no text has: every sound has some, in its head or its samples. */
function hasNoText(bytes: Buffer): boolean {
  return bytes.some((byte) => byte < 9 || (byte > 13 && byte < 32)) || !isUtf8(whole(bytes));
}

/** Bytes without a character of UTF-8 at their end of which some are still to come. */
function whole(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] as number;
    if (byte < 0x80) return bytes;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return back < length ? bytes.subarray(0, -back) : bytes;
  }
  return bytes;
}
