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

/**
 * A text that PostgreSQL can keep: without U+0000, and with U+FFFD for half of a surrogate pair.
 */
export function keepable(text: string): string {
  return isKept(text) ? text : text.replaceAll(NUL, '').replace(lone_surrogates, REPLACEMENT);
}
