import { lastComma, type Member, pastComma, type Span, type Spans } from './scan';

/** A text that takes the place of a part. */
export interface Edit extends Span {
  text: string;
}

/** Puts texts in the place of parts of a text; all other characters stay. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  if (edits.length === 0) return text;
  let result = '';
  let from = 0;
  for (const edit of edits.toSorted((a, b) => a.start - b.start)) {
    // An edit inside a part that has been replaced has nothing left to edit.
    if (edit.start < from) continue;
    result += text.slice(from, edit.start) + edit.text;
    from = edit.end;
  }
  return result + text.slice(from);
}

/**
 * Replaces the value of a member, or adds the member before all others, of an object that has some.
 */
export function memberEdit(text: string, spans: Spans, name: string, value: string): Edit {
  const member = spans.get(name);
  if (member !== undefined) return { start: member.start, end: member.end, text: value };
  const start = text.indexOf('{') + 1;
  return { start, end: start, text: `"${name}":${value},` };
}

/** An object as text, with the places of the members that matter. */
export interface Placed {
  text: string;
  spans: Spans;
}

/** Takes a member out of an object, with one comma; all other characters stay. */
export function cutMember({ text, spans }: Placed, name: string): Placed {
  const member = spans.get(name);
  if (member === undefined) return { text, spans };
  const behind = pastComma(text, member.end);
  // The last member takes the comma before it along.
  const start = behind === undefined ? (lastComma(text, member.key) ?? member.key) : member.key;
  const end = behind ?? member.end;
  const left = [...spans].filter(([other]) => other !== name);
  const moved = left.map(([other, at]): [string, Member] => [
    other,
    at.key < start ? at : shifted(at, start - end),
  ]);
  return { text: text.slice(0, start) + text.slice(end), spans: new Map(moved) };
}

function shifted({ key, start, end }: Member, by: number): Member {
  return { key: key + by, start: start + by, end: end + by };
}
