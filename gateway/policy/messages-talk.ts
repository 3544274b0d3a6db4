import { type Body, isObject, listOf, stringOf } from '../wire/values';
import type { Called, Said, Talk } from './talk';

// Pieces of a block, by the member of the event that holds them; those of one kind are read as one
// text over all blocks of an answer.
const pieces = ['text', 'thinking'];

/** How policies read Messages. */
export const messagesTalk: Talk = {
  unread: new Set(),
  said({ type, index, delta, content_block }) {
    if (type === 'content_block_start' && isObject(content_block)) return saidIn(content_block);
    if (type !== 'content_block_delta' || !isObject(delta)) return [];
    const given = stringOf(delta.partial_json);
    if (given === '') return saidIn(delta);
    const member = 'partial_json';
    return [{ strand: `${index}.arguments`, text: given, holder: delta, member }];
  },
  ended({ type, index }) {
    if (type === 'content_block_stop') return [...pieces, `${index}.`];
    return type === 'message_stop' ? [''] : [];
  },
  called({ content_block, message }) {
    if (isObject(content_block)) return callOf(content_block);
    return isObject(message) ? listOf(message.content).flatMap(callOf) : [];
  },
  callsOf: ({ content }) =>
    listOf(content)
      .flatMap(callOf)
      .map(({ name }) => name),
};

function saidIn(holder: Body): Said[] {
  return pieces.flatMap((member) => {
    const text = stringOf(holder[member]);
    return text === '' ? [] : [{ strand: member, text, holder, member }];
  });
}

/** The tool that a block calls, be it the client's or one that the provider runs. */
function callOf({ name }: Body): Called[] {
  return typeof name === 'string' ? [{ call: '', name, is_whole: true }] : [];
}
