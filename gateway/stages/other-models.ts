import type { Funded } from '../call/call';
import type { Candidate } from '../upstreams/target';

// A provider may answer by another model than was asked: a router, or a name that it lends.

const SHOWN_CHARACTERS = 200;
// Of each target and own key, what the log has been told of: by the circuit, as each call by an own
// key has a target of its own.
const told = new WeakMap<object, Set<string>>();
const TOLD_MAX = 100;

/**
 * True for a name that is none of those of the model that was asked. Providers add dates, versions,
 * regions and makers to a name, or leave them out; a size or another number is a sibling's, at a
 * price of its own.
 */
export function isOtherModel(answered: string, names: readonly string[]): boolean {
  const plain = lettersOf(answered);
  if (plain === '') return false;
  return !names.some((name) => {
    const asked = lettersOf(name);
    return (plain.includes(asked) || asked.includes(plain)) && !areSiblings(answered, name);
  });
}

// What tells the models of one family apart.
const size =
  /^(?:nano|micro|mini|small|medium|large|lite|flash|turbo|fast|pro|max|plus|ultra|air|codex|cyber|haiku|sonnet|opus|image|audio|search|\d+b)$/;
// The version of a seller: `-v1:0`.
const edition = /(?:-v?\d+)?:\d+$/;
const date = /(?<!\d)20\d\d\W?\d\d\W?\d\d(?!\d)/g;

/** True if one of two names has a size or a short number that the other one has not. */
function areSiblings(one: string, other: string): boolean {
  const [a, b] = [wordsOf(one), wordsOf(other)];
  const [few, many] = a.length < b.length ? [a, b] : [b, a];
  const rest = [...many];
  for (const word of few) {
    const at = rest.indexOf(word);
    if (at >= 0) rest.splice(at, 1);
  }
  return rest.some((word) => size.test(word) || /^\d{1,2}$/.test(word));
}

/** The words and numbers of a name, without its date and its seller's version. */
function wordsOf(name: string): string[] {
  const plain = stepOf(name).replace(edition, '').replaceAll(date, ' ');
  return plain.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== '');
}

/** The last step of a path, in small letters. */
function stepOf(name: string): string {
  return (name.split('/').findLast((step) => step !== '') ?? '').toLowerCase();
}

/** Its letters and digits. */
function lettersOf(name: string): string {
  return stepOf(name).replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/** Notes an answer that names a model which was not asked: it is charged as the one that was. */
export function noteAnswered(call: Funded, candidate: Candidate, answered: string | undefined) {
  if (answered === undefined) return;
  const { target, model, upstream } = candidate;
  if (!isOtherModel(answered, [model, upstream, call.request.model])) return;
  const shown = answered.slice(0, SHOWN_CHARACTERS).replaceAll(/[^\x20-\x7e]/g, '?');
  call.answered_model = shown;
  const known = told.get(target.breaker) ?? new Set<string>();
  told.set(target.breaker, known);
  const name = `${model} ${shown}`;
  if (known.has(name) || known.size >= TOLD_MAX) return;
  known.add(name);
  call.gateway.log.warn(
    { target: target.id, model, answered_model: shown },
    'another model answered than was asked, and it is charged as the one that was',
  );
}
