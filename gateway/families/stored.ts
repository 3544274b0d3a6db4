import type { NamedId } from '../../domain/ledger/calls';
import { type Container, said, walk } from '../wire/scan';
import { type Body, isObject, listOf, stringOf } from '../wire/values';

/** A stored thing that a request names, and the member that names it. */
export interface NamedMember extends NamedId {
  member: string;
}

// Members whose text, or each text of whose list, is an id.
const kinds = new Map([
  ['previous_response_id', 'response'],
  ['previous_message_id', 'message'],
  ['conversation', 'conversation'],
  ['conversation_id', 'conversation'],
  ['thread_id', 'thread'],
  ['container', 'container'],
  ['container_id', 'container'],
  ['file_id', 'file'],
  ['file_ids', 'file'],
  ['vector_store_id', 'vector_store'],
  ['vector_store_ids', 'vector_store'],
]);
// Members that hold an object with the id.
const holders = new Map([
  ['conversation', 'conversation'],
  ['thread', 'thread'],
  ['container', 'container'],
  ['audio', 'audio'],
]);
// Members whose own members their author names, or a model has written.
const free = new Set([
  'parameters',
  'input_schema',
  'output_schema',
  'schema',
  'properties',
  'metadata',
  'input_examples',
]);
// Items that stand for what the provider keeps under their id, unless they hold it in this member.
const told_by_id = new Map([
  ['item_reference', ''],
  ['reasoning', 'encrypted_content'],
  ['image_generation_call', 'result'],
  ['file_search_call', ''],
]);
// The quotes of an empty text.
const EMPTY_CHARACTERS = 2;
// Most requests have none of these; an escape may hide a name.
const hints = ['_id', '"id"', '"container"', '"conversation"', '"thread"', '"audio"', '\\u'];
const names = [...kinds.keys(), ...holders.keys()].join('|');
const hinted = new RegExp(`"(?:${names})"|\\\\u`);

/** What is known of a list or an object of a request. */
interface Part {
  is_free: boolean;
  /** It is an item of the input of a response. */
  is_item: boolean;
  ids: string[];
  types: string[];
  /** The members of an item that hold a text. */
  texts: string[];
  /** The names of an item's members; a name that stands twice leaves open which value counts. */
  names: Set<string>;
  has_twice: boolean;
}

/**
 * The stored things that a request names. They are read from the text itself, as a provider may
 * take the first of two members of one name. Prompts are left out: no call makes one, the owner of
 * the provider's account does.
 */
export function namedIds(bytes: Buffer): NamedMember[] {
  if (!hints.some((hint) => bytes.includes(hint))) return [];
  const text = bytes.toString('utf8');
  const may_have_items = text.includes('"input"') && text.includes('"id"');
  if (!may_have_items && !hinted.test(text)) return [];
  const found = new Map<string, NamedMember>();
  const add = (kind: string, id: string, member: string): void => {
    if (id !== '') found.set(`${kind} ${id}`, { kind, id, member });
  };
  walk<Part>(text, {
    open: (outer, is_list) => partOf(outer, is_list),
    name({ role, member }) {
      if (!role.is_item) return;
      role.has_twice ||= role.names.has(member);
      role.names.add(member);
    },
    string(holder, start, end) {
      const { role, is_list, member, name } = holder;
      if (role.is_free) return;
      if (role.is_item && end - start > EMPTY_CHARACTERS) role.texts.push(member);
      const kind = kinds.get(is_list ? name : member);
      if (kind !== undefined) add(kind, said(text, start, end), is_list ? name : member);
      else if (member === 'id') role.ids.push(said(text, start, end));
      else if (member === 'type') role.types.push(said(text, start, end));
    },
    close({ role, is_list, name }) {
      const kind = is_list || role.is_free ? undefined : (holders.get(name) ?? itemKind(role));
      for (const id of kind === undefined ? [] : role.ids) add(kind as string, id, name);
    },
  });
  return [...found.values()];
}

const no_names = new Set<string>();

function partOf(outer: Container<Part> | undefined, is_list: boolean): Part {
  const member = outer?.is_list ? outer.name : (outer?.member ?? '');
  // Deeper down, an input is what a model wrote for a tool.
  const is_input = member === 'input' && outer?.outer !== undefined && !outer.is_list;
  const is_free = outer?.role.is_free === true || free.has(member) || is_input;
  const holder = outer?.is_list ? outer.outer : undefined;
  const is_item = !is_list && member === 'input' && holder !== undefined && !holder.outer;
  const names = is_item ? new Set<string>() : no_names;
  return { is_free, is_item, ids: [], types: [], texts: [], names, has_twice: false };
}

/** The kind of an item that stands for one of an earlier answer; undefined if it is whole. */
function itemKind({ is_item, types, texts, has_twice }: Part): string | undefined {
  if (!is_item) return undefined;
  if (has_twice) return 'item';
  if (types.length === 0) return texts.includes('role') ? undefined : 'item';
  const stands = types.some((type) => {
    const content = told_by_id.get(type);
    return content !== undefined && !texts.includes(content);
  });
  return stands ? 'item' : undefined;
}

/** Is told of each thing that a provider keeps of an answer. */
type Note = (kind: string, id: string) => void;

/** Reads an answer, or an event of one, for what its provider keeps of it. */
export type Keeping = (said: Body, request: Body, note: Note) => void;

/** What a provider keeps of a response: the response itself and its items, unless it is not to. */
export const responseKeeping: Keeping = (told, request, note) => {
  const { response, item } = told;
  if (isObject(item)) noteItem(item, request, note);
  const answer = isObject(response) ? response : told;
  // Only a whole answer, or as much of it as there is yet, has a list of its output.
  if (!Array.isArray(answer.output)) return;
  if (request.store !== false) noteText('response', answer.id, note);
  if (isObject(answer.conversation)) noteText('conversation', answer.conversation.id, note);
  for (const one of listOf(answer.output)) noteItem(one, request, note);
};

function noteItem(item: Body, { store }: Body, note: Note): void {
  const { id, type, container_id, content } = item;
  // Clients send back what tools of the provider have done, kept or not.
  if (store !== false || told_by_id.has(stringOf(type))) noteText('item', id, note);
  noteText('container', container_id, note);
  for (const { annotations } of listOf(content)) {
    for (const { container_id: container, file_id } of listOf(annotations)) {
      noteText('container', container, note);
      noteText('file', file_id, note);
    }
  }
}

/** What a provider keeps of a message: itself, its container, and files that its tools wrote. */
export const messageKeeping: Keeping = (told, _, note) => {
  const { message, delta, content_block } = told;
  const answer = isObject(message) ? message : told;
  if (answer.type === 'message') noteText('message', answer.id, note);
  for (const holder of [answer, delta]) {
    if (isObject(holder) && isObject(holder.container)) {
      noteText('container', holder.container.id, note);
    }
  }
  const blocks = isObject(content_block) ? [content_block] : listOf(answer.content);
  for (const { type, content } of blocks) {
    if (!/code_execution_tool_result$/.test(stringOf(type)) || !isObject(content)) continue;
    for (const { file_id } of listOf(content.content)) noteText('file', file_id, note);
  }
};

/** What a provider keeps of a chat completion: what it has spoken, if it was asked to. */
export const chatKeeping: Keeping = ({ choices }, request, note) => {
  if (request.audio == null) return;
  for (const { delta, message } of listOf(choices)) {
    for (const part of [delta, message]) {
      if (isObject(part) && isObject(part.audio)) noteText('audio', part.audio.id, note);
    }
  }
};

function noteText(kind: string, id: unknown, note: Note): void {
  if (typeof id === 'string' && id !== '') note(kind, id);
}
