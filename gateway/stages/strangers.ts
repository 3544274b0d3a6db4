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
 * regions and makers to a name, or leave them out.
 */
export function isStranger(answered: string, names: readonly string[]): boolean {
  const plain = lettersOf(answered);
  if (plain === '') return false;
  return !names.map(lettersOf).some((name) => plain.includes(name) || name.includes(plain));
}

/** The letters and digits of the last step of a path. */
function lettersOf(name: string): string {
  const last = name.split('/').findLast((step) => step !== '') ?? '';
  return last.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/** Notes an answer that names a model which was not asked: it is charged as the one that was. */
export function noteAnswered(call: Funded, candidate: Candidate, answered: string | undefined) {
  if (answered === undefined) return;
  const { target, model, upstream } = candidate;
  if (!isStranger(answered, [model, upstream, call.request.model])) return;
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
