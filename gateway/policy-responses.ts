import { addSaid, type Called, offeredTools, type Said, type Talk } from './policy-talk';
import { type Body, isObject, listOf, stringOf } from './usage';

const roots = new Set(['output', 'output_text']);
// Sound in Base64; its transcript has events of its own.
const unread = new Set(['response.audio.delta']);

/** How policies read Responses. Its events tell a text in pieces, then whole, then again in its part, item and response. */
export const responsesTalk: Talk = {
  roots,
  said(event) {
    const found: Said[] = [];
    if (typeof event.delta === 'string') {
      if (event.delta !== '' && !unread.has(stringOf(event.type))) {
        found.push({ strand: strandOf(event), text: event.delta, holder: event, member: 'delta' });
      }
    } else if (!isObject(event.response)) addSaid(found, event, undefined);
    else {
      for (const root of roots) {
        const told = event.response[root];
        if (typeof told === 'string') {
          found.push({ strand: undefined, text: told, holder: event.response, member: root });
        } else if (Array.isArray(told)) addSaid(found, told, undefined);
      }
    }
    return found;
  },
  ended(event) {
    const type = stringOf(event.type);
    // The end of an item is the end of all its texts.
    if (type === 'response.output_item.done') return [`${event.output_index}:`];
    return type.endsWith('.done') ? [strandOf(event)] : [];
  },
  called(event) {
    if (isObject(event.item)) return callOf(event.item);
    if (isObject(event.response)) return listOf(event.response.output).flatMap(callOf);
    return typeof event.name === 'string' ? [whole(event.name)] : [];
  },
  callsOf: ({ output }) => listOf(output).flatMap(callOf).map(nameOf),
  offeredBy: ({ tools }) => offeredTools(tools),
  scrub(event) {
    for (const part of [event, event.part, ...itemsOf(event).flatMap(contentOf)]) {
      if (isObject(part) && 'logprobs' in part) part.logprobs = [];
    }
  },
};

function strandOf({ type, output_index, content_index, summary_index }: Body): string {
  const kind = stringOf(type).replace(/\.(delta|done)$/, '');
  return `${output_index}:${kind}:${content_index ?? summary_index ?? ''}`;
}

function itemsOf({ item, response }: Body): Body[] {
  if (isObject(item)) return [item];
  return isObject(response) ? listOf(response.output) : [];
}

function contentOf({ content }: Body): Body[] {
  return listOf(content);
}

/** The tool that an item calls. What the provider runs itself has no name: it was checked as it was offered. */
function callOf({ type, name }: Body): Called[] {
  return stringOf(type).endsWith('_call') && typeof name === 'string' ? [whole(name)] : [];
}

function whole(name: string): Called {
  return { call: '', name, is_whole: true };
}

function nameOf({ name }: Called): string {
  return name;
}
