import { type Body, isObject, listOf, stringOf } from '../wire/values';
import { isBinary } from './literals';
import type { Called, Said, Talk } from './talk';

const unread = new Set([
  'instructions',
  'tools',
  'tool_choice',
  'metadata',
  'text',
  'prompt',
  'user',
  'safety_identifier',
  'prompt_cache_key',
]);

/**
 * How policies read Responses. Its events give a text in pieces, then whole, then again in its
 * part, item and response.
 */
export const responsesTalk: Talk = {
  unread,
  said(event): Said[] {
    const { delta, type } = event;
    if (typeof delta !== 'string' || delta === '') return [];
    // Sound has a transcript, with events of its own.
    const is_sound = type === 'response.audio.delta' && isBinary(delta);
    const strand = is_sound ? {} : { strand: strandOf(event) };
    return [{ ...strand, text: delta, holder: event, member: 'delta' }];
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
};

/** The parts of one item are read as one text. */
function strandOf({ type, output_index, summary_index }: Body): string {
  const kind = stringOf(type).replace(/\.(delta|done)$/, '');
  return `${output_index}:${kind}:${summary_index ?? ''}`;
}

/**
 * The tool that an item calls, or wants to. What the provider runs itself has no name: it was
 * checked as it was offered.
 */
function callOf({ name }: Body): Called[] {
  return typeof name === 'string' ? [whole(name)] : [];
}

function whole(name: string): Called {
  return { call: '', name, is_whole: true };
}

function nameOf({ name }: Called): string {
  return name;
}
