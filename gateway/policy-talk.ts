import { isSilent } from './policy-json';
import { type Body, isObject, listOf, stringOf } from './usage';

/** A text in an event of a stream, and where it stands there. */
export interface Said {
  /** Names the text that it goes on with; undefined for one that is whole. */
  strand: string | undefined;
  text: string;
  holder: Body;
  member: string;
}

/** The call of a tool in an event. */
export interface Called {
  /** Names the call, whose name may come in pieces. */
  call: string;
  name: string;
  /** No more of its name follows. */
  is_whole: boolean;
}

/** How policies read the requests and answers of one family. */
export interface Talk {
  /** The members of a whole answer that say something: others repeat the request. */
  roots: ReadonlySet<string>;
  said(event: Body): Said[];
  /** The strands that nothing follows on, by how their names begin. */
  ended(event: Body): string[];
  called(event: Body): Called[];
  /** The tools that a whole answer calls, and those that a request offers. */
  callsOf(answer: Body): string[];
  offeredBy(body: Body): string[];
  /** Takes out of an event what tells again what was said. */
  scrub(event: Body): void;
}

/** All strings of a value, each under the path to it; with `strand`, they go on from event to event. */
export function addSaid(found: Said[], holder: Body | unknown[], path: string | undefined): void {
  for (const [member, value] of Object.entries(holder)) {
    if (typeof value === 'string') {
      if (value === '' || isSilent(nameOf(holder, member), value)) continue;
      const strand = path === undefined ? undefined : `${path}.${member}`;
      found.push({ strand, text: value, holder: holder as Body, member });
    } else if (typeof value === 'object' && value !== null) {
      // Pieces of lists say themselves which element they belong to.
      const { index } = value as Body;
      const step = Array.isArray(holder) && typeof index === 'number' ? index : member;
      addSaid(found, value as Body, path === undefined ? undefined : `${path}.${step}`);
    }
  }
}

function nameOf(holder: Body | unknown[], member: string): string {
  return Array.isArray(holder) ? '' : member;
}

/** The names of tools as OpenAI's wire offers them; one that the provider runs has only its type. */
export function offeredTools(tools: unknown): string[] {
  return listOf(tools).flatMap((tool) => {
    const inner = isObject(tool.function)
      ? tool.function
      : isObject(tool.custom)
        ? tool.custom
        : tool;
    const name = stringOf(inner.name) || stringOf(tool.type);
    return [...(name === '' ? [] : [name]), ...offeredTools(tool.tools)];
  });
}
