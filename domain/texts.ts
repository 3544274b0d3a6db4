const NUL = String.fromCharCode(0);
const lone_surrogate = /\p{Surrogate}/u;
const lone_surrogates = /\p{Surrogate}/gu;
const REPLACEMENT = '\uFFFD';

/**
 * False for a text that PostgreSQL cannot keep: one with the character U+0000, or with half of a
 * surrogate pair.
 */
export function isKept(text: string): boolean {
  return !text.includes(NUL) && !lone_surrogate.test(text);
}

const clusters = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/**
 * The beginning of a text, of at most so many units of UTF-16: never a part of what a person sees
 * as one character, such as a family of joined emoji, a flag, or a letter with its accents.
 */
export function cut(text: string, units_max: number): string {
  if (text.length <= units_max) return text;
  let end = 0;
  for (const { index, segment } of clusters.segment(text.slice(0, 2 * units_max))) {
    if (index + segment.length > units_max) break;
    end = index + segment.length;
  }
  // One character alone may be longer than that.
  return end > 0 ? text.slice(0, end) : text.slice(0, units_max).replace(lone_surrogates, '');
}

/**
 * A text that PostgreSQL can keep: without U+0000, and with U+FFFD for half of a surrogate pair.
 */
export function keepable(text: string): string {
  return isKept(text) ? text : text.replaceAll(NUL, '').replace(lone_surrogates, REPLACEMENT);
}

const address = /^(?![.])(?!.*[.]{2})[\w'+.-]*[\w+-]@([A-Za-z\d][A-Za-z\d-]*[.])+[A-Za-z]{2,}$/;

/** True for an e-mail address, as the routes that take one know it. */
export function isEmail(text: string): boolean {
  return address.test(text);
}

const loopback = /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/;

/** True for a host, as a URL names it, that is this machine: plain http is safe there. */
export function isLoopback(hostname: string): boolean {
  return loopback.test(hostname);
}

/** A span of time with its article: `an hour`, `a day`. */
export function withArticle(unit: string): string {
  return unit === 'hour' ? 'an hour' : `a ${unit}`;
}
