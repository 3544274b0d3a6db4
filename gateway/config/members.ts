import { z } from 'zod';
import type { Shape } from '../providers/kind';
import { isDeciding } from '../wire/members';

// What targets may do with the members of a body.

// These decide what is answered and charged.
const kept_members = /^(?:models?|stream|messages|input|prompt|n|best_?of|max_?\w*tokens)$/i;
const member = z.string().regex(/^\w{1,64}$/, 'must be the name of a member of a body');
/** A member that may be left out, or have another name. */
export const droppable = member.refine((name) => !kept_members.test(name), {
  error: 'decides what is answered and charged, so it cannot be left out',
});
/** A name that one may have: it was not looked at, and what this gateway reads must be. */
export const renamable = droppable.refine((name) => !isDeciding(name), {
  error: 'is a member that this gateway reads, so no other one can be called so',
});
// These get bodies in words of their own, of which the names of a client's members say nothing.
const translated: ReadonlySet<Shape | undefined> = new Set(['gemini', 'converse']);

interface Given {
  shape?: Shape | undefined;
  drop?: readonly string[] | undefined;
  rename?: Readonly<Record<string, string>> | undefined;
}

/** What can be said against members that are left out or renamed on a wire of its own. */
export function memberProblems({ shape, drop = [], rename = {} }: Given) {
  if (!translated.has(shape)) return [];
  const message = `says nothing to the shape ${shape}, whose bodies are written anew: leave it out.`;
  return [
    ...(drop.length > 0 ? [{ at: 'drop', message }] : []),
    ...(Object.keys(rename).length > 0 ? [{ at: 'rename', message }] : []),
  ];
}
