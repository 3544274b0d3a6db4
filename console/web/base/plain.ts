const ROUTE = /\b(?:GET|POST|PUT|PATCH|DELETE) \/v1\//;
/** What follows a colon, up to the end of the sentence: a route, or a field of one. */
const POINTER =
  /: (?:[\w ]+ of )?(?:GET|POST|PUT|PATCH|DELETE) \/v1\/[^\s]*?(?: [^.]*)?\.(?=\s|$)/g;
/** A route that is named in passing, in a sentence that says more. */
const ASIDE =
  /,? (?:or by|as|at) (?:GET|POST|PUT|PATCH|DELETE) \/v1\/[^\s,;.]+(?: [^,;.]*)?(?=[,;.])/g;

/**
 * The words of the API without the routes that they point programs to: people have pages instead.
 * A sentence that is about a route alone is left out.
 */
export function plainWords(message: string): string {
  const sentences = message
    .replace(POINTER, '.')
    .replace(ASIDE, '')
    .split(/(?<=\.)\s+/);
  const plain = sentences.filter((sentence) => !ROUTE.test(sentence));
  return plain.length === 0 ? message : plain.join(' ');
}
