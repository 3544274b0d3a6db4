import { AppError } from '../../domain/errors';
import { type Body, isObject, stringOf } from '../wire/values';

/** The input that goes upstream: texts to be counted, and tokens known without counting. */
export interface Input {
  texts: string[];
  tokens: number;
  /**
   * Pieces that the provider reads and the gateway does not: an earlier answer, a stored file. Each
   * adds a surcharge.
   */
  unseen: number;
  /** The provider adds input of its own beside that: it fetches a picture, or searches. */
  has_foreign: boolean;
  /** The pictures, of which models make very different numbers of tokens. */
  pictures: number;
  /** Those of the tokens that are of sound, which has a price of its own. */
  sound_tokens: number;
}

/** The members of parts, by the parts' types, that are counted in another way than as text. */
export type Parts = ReadonlyMap<unknown, Readonly<Record<string, Count>>>;
type Count = (input: Input, value: unknown, part: Body) => void;

// The providers' documented overheads: of a message with its role, and of a name.
const MESSAGE_TOKENS = 4;
const NAME_TOKENS = 1;
const LABEL_CHARACTERS_MAX = 64;
const labels = new Set(['role', 'type', 'tool_call_id', 'call_id', 'tool_use_id', 'id', 'status']);
// Base64 characters a token of attached files takes; settling corrects it.
const FILE_CHARACTERS_PER_TOKEN = 4;

/** How the parts of a content are counted, by their type and then by their members. */
export function countedParts(members: Record<string, Record<string, Count>>): Parts {
  return new Map(Object.entries(members));
}

/** Nothing counted yet but these tokens. */
export function newInput(tokens = 0): Input {
  return { texts: [], tokens, unseen: 0, has_foreign: false, pictures: 0, sound_tokens: 0 };
}

/** The messages, or items, of a conversation. */
export function addMessages(input: Input, messages: unknown, name: string, parts: Parts): void {
  if (!Array.isArray(messages)) throw wrong(name, `"${name}" must be a list of messages.`);
  for (const [at, message] of messages.entries()) {
    if (!isObject(message)) throw wrong(`${name}[${at}]`, 'Each message must be an object.');
    input.tokens += MESSAGE_TOKENS;
    if (message.name !== undefined) input.tokens += NAME_TOKENS;
    addMembers(input, message, parts);
  }
}

/** A content: a text, or a list of parts. */
export function addContent(input: Input, content: unknown, parts: Parts): void {
  for (const part of Array.isArray(content) ? content : [content]) {
    if (isObject(part)) addMembers(input, part, parts);
    else addText(input, part);
  }
}

/** Adds a text, or as JSON anything else that stands in its place. */
export function addText(input: Input, value: unknown): void {
  if (value === undefined || value === null) return;
  input.texts.push(typeof value === 'string' ? value : JSON.stringify(value));
}

/** A picture: its content if the body holds it, else one that the provider fetches. */
export function addPicture(input: Input, data: unknown): void {
  input.pictures += 1;
  if (typeof data !== 'string' || isAddress(data)) input.has_foreign = true;
}

function isAddress(data: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(data.slice(0, 64).trimStart());
}

/** An attached file: its content if the body holds it, else a piece that only the provider sees. */
export function addFile(input: Input, data: unknown): void {
  if (typeof data === 'string' && isAddress(data)) input.has_foreign = true;
  if (typeof data === 'string') input.tokens += Math.ceil(data.length / FILE_CHARACTERS_PER_TOKEN);
  else input.unseen += 1;
}

/**
 * Counts what a family reads of a body, and as text whatever else stands in it under names that are
 * not `known`: servers read documents, templates and other members that no wire describes.
 */
export function withOthers(
  read: (body: Body) => Input,
  known: readonly string[],
): (body: Body) => Input {
  const names = new Set(known);
  return (body) => {
    const input = read(body);
    for (const [name, value] of Object.entries(body)) {
      const may_be_read = typeof value === 'string' || typeof value === 'object';
      if (may_be_read && !names.has(name)) addText(input, value);
    }
    return input;
  };
}

/** The refusal (422) of a member of the body. */
export function wrong(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}

// Whatever a provider may read is counted, known to us or not: too much is given back by the
// settlement, too little may be more than the wallet has.
function addMembers(input: Input, object: Body, parts: Parts): void {
  const known = parts.get(object.type);
  for (const [name, value] of Object.entries(object)) {
    if (known !== undefined && Object.hasOwn(known, name)) known[name]?.(input, value, object);
    else if (name === 'content' || name === 'output') addContent(input, value, parts);
    else if (isFetched(object, name)) addFetched(input);
    else if (!isLabel(name, value)) addText(input, value);
  }
}

/**
 * Moving pictures, sound and whatever else stands behind an address, which only the provider reads:
 * `{type: 'video_url', video_url: {url}}`, or an address in a member that ends so. The `url` of a
 * search result says where it is from, and is not read.
 */
function isFetched(object: Body, name: string): boolean {
  const value = object[name];
  if (isObject(value)) return name === object.type && isAddress(stringOf(value.url ?? value.uri));
  return /_ur[il]$/i.test(name) && isAddress(stringOf(value));
}

function addFetched(input: Input): void {
  input.has_foreign = true;
  input.unseen += 1;
}

/** The members whose tokens are those of the message itself. */
function isLabel(name: string, value: unknown): boolean {
  if (name === 'cache_control') return true;
  if (!labels.has(name)) return false;
  return typeof value === 'string' && value.length <= LABEL_CHARACTERS_MAX;
}
