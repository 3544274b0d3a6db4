const NUL = String.fromCharCode(0);
const lone_surrogate = /\p{Surrogate}/u;

/** False for what PostgreSQL's text cannot keep: one with the character U+0000, or with half of a surrogate pair. */
export function isKept(text: string): boolean {
  return !text.includes(NUL) && !lone_surrogate.test(text);
}
