import { mayUse } from '../../domain/people/identity';
import type { Identified } from '../call/call';
import { applyEdits, type Edit } from '../wire/edits';
import { itemsOf, membersOf, type Span } from '../wire/scan';
import type { Frame } from '../wire/sse';
import { objectIn, stringOf } from '../wire/values';
import { messagesIn } from './answers';
import { type AnswerGuard, reframed, withoutData } from './guard';
import type { Messages } from './messages';

const LIST = 'tools/list';

/**
 * Says which tools a list leaves out: those that the key or the firewall does not let its caller
 * call. Undefined if no list can come, or nothing is kept from the caller.
 */
export function listHider(
  { ctx, identity, snapshot }: Identified,
  server: string,
  { all }: Messages,
): ((tool: string) => boolean) | undefined {
  // A stream may repeat what was answered before it broke off.
  if (ctx.method !== 'GET' && !all.some(({ method }) => method === LIST)) return undefined;
  const { chain, firewall } = snapshot.policies;
  const guard = chain.includes('agent-firewall') ? firewall : undefined;
  const { allowed_models } = identity;
  if (allowed_models === null && guard === undefined) return undefined;
  return (tool) =>
    !mayUse(allowed_models, `${server}/${tool}`) || guard?.forbids(tool) !== undefined;
}

/** The guard of answers that leaves tools out of lists, ahead of another guard if there is one. */
export function withHiddenTools(
  hides: ((tool: string) => boolean) | undefined,
  inner: AnswerGuard | undefined,
): AnswerGuard | undefined {
  if (hides === undefined) return inner;
  const shorter = (frame: Frame): Frame => {
    const { data, bytes } = frame;
    if (data === undefined) return { ...frame, bytes: withoutData(frame) };
    const text = withoutTools(data, hides);
    return text === data ? frame : { ...frame, data: text, bytes: reframed(bytes, text) };
  };
  return {
    async frames(frames) {
      const shown = frames.map(shorter);
      return inner?.frames(shown) ?? Buffer.concat(shown.map(({ bytes }) => bytes));
    },
    async whole(text) {
      const shown = withoutTools(text, hides);
      return inner?.whole(shown) ?? shown;
    },
  };
}

/** The text of answers without some of the tools that they list; all else stays as it is. */
function withoutTools(text: string, hides: (tool: string) => boolean): string {
  if (messagesIn(text).length === 0) return text;
  const from = text.search(/[[{]/);
  const messages = text[from] === '[' ? [...itemsOf(text, from)].map(({ start }) => start) : [from];
  const edits = messages.flatMap((start) => listEdit(text, start, hides) ?? []);
  return applyEdits(text, edits);
}

function listEdit(
  text: string,
  message: number,
  hides: (tool: string) => boolean,
): Edit | undefined {
  const result = memberOf(text, message, 'result', '{');
  const tools = result && memberOf(text, result.start, 'tools', '[');
  if (tools === undefined) return undefined;
  const listed = [...itemsOf(text, tools.start)].map(({ start, end }) => text.slice(start, end));
  const shown = listed.filter((tool) => !hides(stringOf(objectIn(tool)?.name)));
  if (shown.length === listed.length) return undefined;
  return { ...tools, text: `[${shown.join(',')}]` };
}

/** Where a member of the object that begins at a place stands, if it begins with this sign. */
function memberOf(text: string, open: number, name: string, sign: string): Span | undefined {
  if (text[open] !== '{') return undefined;
  const member = new Map(membersOf(text, open)).get(name);
  if (member === undefined || text[member.start] !== sign) return undefined;
  return { start: member.start, end: member.end };
}
