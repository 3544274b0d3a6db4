import { parseExact, printExact } from './exact';
import { type Body, isObject } from './values';

// What stands in these is called as the client likes.
const named_freely = new Set([
  'parameters',
  'schema',
  'input_schema',
  'properties',
  'metadata',
  'variables',
]);

/**
 * A JSON text without the members of these names, wherever they stand but in what a client names
 * freely: schemas, metadata, the input of a tool. Numbers keep their own text. `found` are the
 * names that were there; without any the text is the given one.
 */
export function withoutNamed(
  text: string,
  names: readonly string[],
): { text: string; found: string[] } {
  // A name may be written with escapes.
  const may_have = text.includes('\\u') || names.some((name) => text.includes(`"${name}"`));
  if (!may_have) return { text, found: [] };
  const whole = parseExact(text);
  const found = new Set<string>();
  cutNamed(whole, names, found);
  return { text: found.size === 0 ? text : printExact(whole), found: [...found] };
}

function cutNamed(value: unknown, names: readonly string[], found: Set<string>): void {
  if (Array.isArray(value)) {
    for (const one of value) cutNamed(one, names, found);
    return;
  }
  if (!isObject(value)) return;
  for (const [name, member] of Object.entries(value as Body)) {
    if (names.includes(name)) {
      delete (value as Body)[name];
      found.add(name);
    } else if (!isFree(name, member)) cutNamed(member, names, found);
  }
}

/** Responses call their list of items as Messages call what they give a tool. */
function isFree(name: string, value: unknown): boolean {
  return named_freely.has(name) || (name === 'input' && !Array.isArray(value));
}
