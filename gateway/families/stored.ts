import type { NamedId } from '../../domain/ledger/calls';
import { folded } from '../wire/members';
import { type Container, said, walk } from '../wire/scan';
import { type Body, isObject, listOf, stringOf } from '../wire/values';

/** A stored thing that a request names, and the member that names it. */
export interface NamedMember extends NamedId {
  member: string;
}

// Members whose text, or each text of whose list, is an id. Some providers ignore case and
// underscores, so a member in another spelling counts as well.
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
  // Google's, in `extra_body.google` on OpenAI's wire (ai.google.dev/gemini-api/docs/openai).
  ['cached_content', 'cached_content'],
]);
// Members that hold an object with the id.
const holders = new Map([
  ['conversation', 'conversation'],
  ['thread', 'thread'],
  ['container', 'container'],
  ['audio', 'audio'],
]);
// Members that may hold an address, folded. One that is not of the web is read by the identity that
// asks the provider: a bucket of Google's (Vertex AI on OpenAI's wire), a file of a server.
const address = /^(?:(?:image|video|audio|document|file)?ur[li]|image|(?:file)?data)$/;
const of_no_web = /^\s*(?!https?:|data:)[a-z][a-z0-9+.-]{0,30}:\/\//i;
/** Where in a request something stands, as far as that says who gives its members their names. */
type Place =
  | 'body'
  | 'tools'
  | 'tool'
  | 'format'
  | 'messages'
  | 'message'
  | 'blocks'
  | 'block'
  | 'items'
  | 'item'
  | 'prompt'
  | 'variables'
  | 'written'
  | 'free'
  | 'elsewhere';

// A member has its meaning only where it stands: a client may call a variable of a prompt `schema`.
const places = new Map<Place, Map<string, Place>>([
  [
    'body',
    new Map<string, Place>([
      ['metadata', 'free'],
      ['tools', 'tools'],
      ['functions', 'tools'],
      ['response_format', 'format'],
      ['text', 'format'],
      ['output_format', 'format'],
      ['output_config', 'format'],
      ['messages', 'messages'],
      ['input', 'items'],
      ['prompt', 'prompt'],
    ]),
  ],
  [
    'tool',
    new Map<string, Place>([
      ['parameters', 'free'],
      ['input_schema', 'free'],
      ['output_schema', 'free'],
      ['input_examples', 'free'],
      ['function', 'tool'],
      ['tools', 'tools'],
    ]),
  ],
  [
    'format',
    new Map<string, Place>([
      ['schema', 'free'],
      ['json_schema', 'format'],
      ['format', 'format'],
    ]),
  ],
  ['message', new Map<string, Place>([['content', 'blocks']])],
  ['block', new Map<string, Place>([['input', 'written']])],
  ['item', new Map<string, Place>([['tools', 'tools']])],
  ['prompt', new Map<string, Place>([['variables', 'variables']])],
]);
// What stands in a list that has a place.
const places_in_list = new Map<Place, Place>([
  ['tools', 'tool'],
  ['messages', 'message'],
  ['blocks', 'block'],
  ['items', 'item'],
]);
// Items that stand for what the provider keeps under their id, unless they hold it in this member.
const told_by_id = new Map([
  ['item_reference', ''],
  ['reasoning', 'encrypted_content'],
  ['image_generation_call', 'result'],
  ['file_search_call', ''],
  ['web_search_call', ''],
  ['code_interpreter_call', ''],
  ['mcp_call', ''],
  ['compaction', 'encrypted_content'],
]);
// The quotes of an empty text.
const EMPTY_CHARACTERS = 2;
// Most requests have none of these; an escape may hide a name.
const names = [...kinds.keys(), ...holders.keys()].map((name) => name.replaceAll('_', '[_-]?'));
const elsewhere = String.raw`"\s*(?!https?:|data:)[a-z][a-z0-9+.-]{0,30}:\\?/`;
const hinted = new RegExp(`"(?:${names.join('|')})"|\\\\u|${elsewhere}`, 'i');
const folded_kinds = foldedNames(kinds);
const folded_holders = foldedNames(holders);

function foldedNames(names: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...names].map(([name, kind]) => [folded(name), kind]));
}

/** What is known of a list or an object of a request. */
interface Part {
  place: Place;
  /** What is named in it, if that counts only once its type is known. */
  written: NamedMember[];
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
  const text = bytes.toString('utf8');
  const may_have_items = text.includes('"input"') && text.includes('"id"');
  if (!may_have_items && !hinted.test(text)) return [];
  const found = new Map<string, NamedMember>();
  const add = (role: Part, named: NamedMember): void => {
    if (named.id === '') return;
    if (role.place === 'written') role.written.push(named);
    else found.set(keyOf(named), named);
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
      // A text of a variable is a text, whatever the variable is called.
      if (role.place === 'free' || role.place === 'variables') return;
      if (role.is_item && end - start > EMPTY_CHARACTERS) role.texts.push(member);
      const named_by = is_list ? name : member;
      const kind = kinds.get(named_by) ?? folded_kinds.get(folded(named_by));
      if (kind !== undefined) add(role, { kind, id: said(text, start, end), member: named_by });
      else if (address.test(folded(named_by))) {
        const id = said(text, start, end);
        if (of_no_web.test(id)) add(role, { kind: 'file', id, member: named_by });
      } else if (folded(member) === 'id') role.ids.push(said(text, start, end));
      else if (member === 'type') role.types.push(said(text, start, end));
    },
    close({ role, is_list, name }) {
      const is_block = role.place === 'block' && !is_list;
      if (is_block && !isToolUse(role)) for (const one of role.written) found.set(keyOf(one), one);
      if (is_list || role.place === 'free') return;
      const kind = holders.get(name) ?? folded_holders.get(folded(name)) ?? itemKind(role);
      if (kind === undefined) return;
      for (const id of role.ids) add(role, { kind, id, member: name });
    },
  });
  return [...found.values()];
}

function keyOf({ kind, id }: NamedId): string {
  return `${kind} ${id}`;
}

const no_names = new Set<string>();

function partOf(outer: Container<Part> | undefined, is_list: boolean): Part {
  const place = placeIn(outer);
  const is_item = place === 'item' && !is_list;
  const names = is_item ? new Set<string>() : no_names;
  const written = place === 'written' && outer ? outer.role.written : [];
  return { place, written, is_item, ids: [], types: [], texts: [], names, has_twice: false };
}

function placeIn(outer: Container<Part> | undefined): Place {
  if (outer === undefined) return 'body';
  const { role, is_list, member } = outer;
  // All that stands in these is one author's.
  if (role.place === 'free' || role.place === 'written') return role.place;
  const place = is_list ? places_in_list.get(role.place) : places.get(role.place)?.get(member);
  return place ?? 'elsewhere';
}

/** True of a block that says what a model called, with members that the tool's author named. */
function isToolUse({ types }: Part): boolean {
  return types.length > 0 && types.every((type) => type.endsWith('tool_use'));
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

/**
 * What a provider keeps of a message: its container, files that its tools wrote, and itself if the
 * request lies in a thread or asks for diagnostics, as only then a later one may name it.
 */
export const messageKeeping: Keeping = (told, request, note) => {
  const { message, delta, content_block } = told;
  const answer = isObject(message) ? message : told;
  const is_kept = request.thread != null || request.diagnostics != null;
  if (is_kept && answer.type === 'message') noteText('message', answer.id, note);
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
