import type { Body } from '../wire/values';
import { isPlainName, isSilent } from './literals';

/** A text in an event of a stream, and where it stands there. */
export interface Said {
  /** Names the text that it goes on with; one that is whole has none. */
  strand?: string;
  text: string;
  holder: Body;
  member: string;
}

/** The call of a tool in an event. */
export interface Called {
  /** Names the call, whose name may come in pieces. */
  call: string;
  /** Its id, in the event that begins it; another one begins another call. */
  id?: string;
  name: string;
  /** No more of its name follows. */
  is_whole: boolean;
}

/** How policies read the requests and answers of one family. */
export interface Talk {
  /** Its answers say nothing: they are numbers or sound. */
  is_silent?: boolean;
  /** True if a request says something in tokens, which nobody here can read. */
  hides?(request: Body): boolean;
  /** The members of a whole answer that repeat the request. */
  unread: ReadonlySet<string>;
  /** The texts that go on from event to event. */
  said(event: Body): Said[];
  /** The strands that nothing follows on, by how their names begin. */
  ended(event: Body): string[];
  called(event: Body): Called[];
  /** The tools that a whole answer calls. */
  callsOf(answer: Body): string[];
}

/** How policies read a family whose answers say nothing. */
export const silentTalk: Talk = {
  is_silent: true,
  unread: new Set(),
  said: () => [],
  ended: () => [],
  called: () => [],
  callsOf: () => [],
};

/** The number of an element of a list that comes in pieces, however it is written. */
export function indexOf({ index }: Body, otherwise: number | string): number | string {
  if (typeof index === 'number') return index;
  return typeof index === 'string' && /^\d{1,6}$/.test(index) ? Number(index) : otherwise;
}

/** All strings of a value, each under the path to it, by which they go on from event to event. */
export function addSaid(found: Said[], holder: Body | unknown[], path: string): void {
  for (const [member, value] of Object.entries(holder)) {
    if (typeof value === 'string') {
      if (value === '' || isSilent(nameOf(holder, member), value)) continue;
      found.push({ strand: `${path}.${member}`, text: value, holder: holder as Body, member });
    } else if (member !== 'logprobs' && typeof value === 'object' && value !== null) {
      // Pieces of lists say themselves which element they belong to.
      const step = Array.isArray(holder) ? indexOf(value as Body, member) : member;
      addSaid(found, value as Body, `${path}.${step}`);
    }
  }
}

function nameOf(holder: Body | unknown[], member: string): string {
  return Array.isArray(holder) ? '' : member;
}

/** All other texts of an event. */
interface Rest {
  /** Whole texts; those of one list are read as one. */
  texts: Said[][];
  /** Names of members that are none of the wire's. */
  names: string[];
  /** The odds of tokens, which said again what is said, were taken out. */
  is_changed: boolean;
}

const none: Said[] = [];

/**
 * All of an event that does not go on from other events. `unread` are the members of its response
 * that repeat the request.
 */
export function restOf(event: Body, said: readonly Said[], unread: ReadonlySet<string>): Rest {
  const taken = takenBy(said);
  const rest: Rest = { texts: [], names: [], is_changed: false };
  const { response } = event;
  const walk = (
    holder: Body,
    is_list: boolean,
    parts: Said[] | undefined,
    is_tools: boolean,
  ): void => {
    const done = taken?.get(holder);
    // The texts of the objects of one list.
    const siblings: Said[] = is_list ? [] : none;
    for (const member of Object.keys(holder)) {
      const value = holder[member];
      if (!is_list && !isPlainName(member)) rest.names.push(member);
      if (holder === response && unread.has(member)) continue;
      if (typeof value === 'string') {
        if (value === '' || done?.has(member) || isSilent(is_list ? '' : member, value)) continue;
        const text = { text: value, holder, member };
        if (member === 'text' && parts !== undefined) parts.push(text);
        else rest.texts.push([text]);
      } else if (typeof value !== 'object' || value === null) continue;
      else if (member === 'logprobs' && !is_list && !is_tools) emptyOdds(holder, value, rest);
      else {
        const lists = Array.isArray(value);
        // What a tool is given is its own.
        const gives = is_tools || (member === 'input' && !is_list && !lists);
        walk(value as Body, lists, is_list ? siblings : undefined, gives);
      }
    }
    if (siblings.length > 0) rest.texts.push(siblings);
  };
  walk(event, false, undefined, false);
  return rest;
}

function takenBy(said: readonly Said[]): Map<Body, Set<string>> | undefined {
  if (said.length === 0) return undefined;
  const taken = new Map<Body, Set<string>>();
  for (const { holder, member } of said) {
    const members = taken.get(holder);
    if (members === undefined) taken.set(holder, new Set([member]));
    else members.add(member);
  }
  return taken;
}

function emptyOdds(holder: Body, odds: object, rest: Rest): void {
  if (Array.isArray(odds) && odds.length === 0) return;
  holder.logprobs = Array.isArray(odds) ? [] : null;
  rest.is_changed = true;
}
