import { z } from 'zod';
import { harmless } from '../providers/harmless';
import type { Shape } from '../providers/kind';
import { isDeciding } from '../wire/members';

// What targets may do with the members of a body.

// These decide what is answered and charged.
const kept_members =
  /^(?:models?|stream|messages|input|prompt|n|best_?of|max_?\w*tokens|max_?tool_?calls)$/i;
const isKept = (name: string) => kept_members.test(name);
// What has a price of its own, unless it is charged as whoever served it heard of it.
const isCharged = (name: string) => isDeciding(name) && !Object.hasOwn(harmless, name);
const member = z.string().regex(/^\w{1,64}$/, 'must be the name of a member of a body');
/** A member that may have another name. */
export const calledOtherwise = member.refine((name) => !isKept(name), {
  error: 'decides what is answered and charged, so it cannot be left out',
});
/** A member that may be left out: what is charged is what its provider has heard of. */
export const droppable = calledOtherwise.refine((name) => isKept(name) || !isCharged(name), {
  error:
    'is charged as it was asked for, so it cannot be left out: take it out of this list, and a request with it is refused unless the price says what it costs',
});
/** A name that one may have: it was not looked at, and what this gateway reads must be. */
export const renamable = calledOtherwise.refine((name) => !isDeciding(name), {
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
