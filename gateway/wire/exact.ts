import { randomUUID } from 'node:crypto';
import { applyEdits, type Edit } from './edits';
import { walk } from './scan';
import { type Body, isObject } from './values';

/** A JSON value that goes on in the text that it came in. */
export class Exact {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** True for an object that is no `Exact`. */
export function isPlainObject(value: unknown): value is Body {
  return isObject(value) && !(value instanceof Exact);
}

// Longer numbers than a double holds for certain, or larger ones.
const long_number = /(?:\d\.?){16}|[eE][+-]?\d{3}/;
// Stands before such a number while it is parsed as a text. Nobody outside can know it, so no text
// of a client passes for a number.
const mark = `${randomUUID()}:`;

/** Parses JSON; numbers that would change are `Exact`. */
export function parseExact(text: string): unknown {
  if (!long_number.test(text)) return JSON.parse(text);
  const edits: Edit[] = [];
  walk(text, {
    open: () => undefined,
    between(_, start, end) {
      const number = /[-\d][^\s]*/.exec(text.slice(start, end));
      if (number === null || !long_number.test(number[0])) return;
      const from = start + number.index;
      edits.push({ start: from, end: from + number[0].length, text: `"${mark}${number[0]}"` });
    },
  });
  return JSON.parse(applyEdits(text, edits), (_, value) => {
    const is_number = typeof value === 'string' && value.startsWith(mark);
    return is_number ? new Exact(value.slice(mark.length)) : value;
  });
}

/** A value as JSON, each `Exact` part in its own text. */
export function printExact(value: unknown): string {
  if (value instanceof Exact) return value.text;
  if (Array.isArray(value)) return `[${value.map(printExact).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([name, member]) => `${JSON.stringify(name)}:${printExact(member)}`);
  return `{${members.join(',')}}`;
}
