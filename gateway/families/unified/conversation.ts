import { createHash } from 'node:crypto';
import { Exact } from '../../wire/exact';
import { parseText } from '../../wire/parse';
import { type Body, isObject, listOf, stringOf } from '../../wire/values';
import { wrong } from '../input';
import { documentOf, pictureOf } from './sources';
import { shown, unavailable } from './words';

type Pictures = ReadonlySet<string> | undefined;

interface Turn {
  role: 'user' | 'assistant';
  content: Body[];
}

/**
 * Its system texts apart; messages of one role behind one another are one, as results of tools must
 * be. A cache that the whole request asks for holds up to the last block: said there, every seller
 * of these models takes it. `pictures` are the types of pictures that the wire takes.
 */
export function conversation(
  given: unknown,
  { cache_control, pictures }: { cache_control?: unknown; pictures?: ReadonlySet<string> } = {},
): { system: Body[]; messages: Turn[] } {
  if (!Array.isArray(given)) throw wrong('messages', '"messages" must be a list of messages.');
  const system: Body[] = [];
  const messages: Turn[] = [];
  for (const [at, message] of given.entries()) {
    const param = `messages[${at}]`;
    if (!isObject(message)) throw wrong(param, 'Each message must be an object.');
    if (message.role === 'system' || message.role === 'developer') {
      const said = cachedTo(contentOf(message.content, param, pictures), message.cache_control);
      if (said.some(({ type }) => type !== 'text'))
        throw unavailable(`${param}.content`, 'A picture or file in a system message');
      system.push(...said);
      continue;
    }
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = cachedTo(blocksOf(message, param, pictures), message.cache_control);
    const last = messages.at(-1);
    if (last?.role === role) last.content.push(...content);
    else if (content.length > 0) messages.push({ role, content });
  }
  if (messages.length === 0) throw wrong('messages', '"messages" needs one that says something.');
  trimEnd(messages);
  cachedTo(messages.at(-1)?.content ?? [], cache_control);
  return { system, messages };
}

/** The blocks, of which the last one says that a cache holds up to it, unless it says so itself. */
function cachedTo(blocks: Body[], cache_control: unknown): Body[] {
  const last = blocks.at(-1);
  if (last !== undefined && cache_control != null) last.cache_control ??= cache_control;
  return blocks;
}

// That wire refuses an answer begun for it that ends in white space.
function trimEnd(messages: Turn[]): void {
  const last = messages.at(-1);
  const block = last?.role === 'assistant' ? last.content.at(-1) : undefined;
  if (block?.type === 'text') block.text = stringOf(block.text).trimEnd();
}

function blocksOf(message: Body, param: string, pictures: Pictures): Body[] {
  if (message.role === 'tool') {
    const tool_use_id = callId(message.tool_call_id, `${param}.tool_call_id`);
    const content = contentOf(message.content, param, pictures);
    return [{ type: 'tool_result', tool_use_id, content }];
  }
  if (message.role === 'user') return contentOf(message.content, param, pictures);
  if (message.role !== 'assistant')
    throw unavailable(`${param}.role`, `The role "${shown(message.role)}"`);
  // What these say stands nowhere else, so the conversation would be another one without them.
  for (const name of ['audio', 'function_call'])
    if (message[name] != null) throw unavailable(`${param}.${name}`, `"${name}"`);
  if (message.images != null && !(Array.isArray(message.images) && message.images.length === 0))
    throw unavailable(`${param}.images`, '"images" of an answer');
  const refusal = stringOf(message.refusal);
  const said = contentOf(message.content ?? (refusal || undefined), param, pictures);
  if (message.tool_calls != null && !Array.isArray(message.tool_calls))
    throw wrong(`${param}.tool_calls`, '"tool_calls" must be a list.');
  return [...said, ...listOf(message.tool_calls).map((call) => toolUse(call, param))];
}

/** Texts and parts as content blocks; a text of blanks alone is none, as that wire refuses it. */
function contentOf(content: unknown, param: string, pictures: Pictures): Body[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return textBlocks(content);
  if (!Array.isArray(content) || !content.every(isObject))
    throw wrong(`${param}.content`, '"content" must be a text or a list of parts.');
  return content.flatMap((part, at) => partOf(part, `${param}.content[${at}]`, pictures));
}

function textBlocks(text: string, more: Body = {}): Body[] {
  return text.trim() === '' ? [] : [{ type: 'text', text, ...more }];
}

function partOf(part: Body, param: string, pictures: Pictures): Body[] {
  const cache_control = part.cache_control == null ? {} : { cache_control: part.cache_control };
  if (part.type === 'text') return textBlocks(stringOf(part.text), cache_control);
  if (part.type === 'refusal') return textBlocks(stringOf(part.refusal), cache_control);
  if (part.type === 'image_url') {
    const url = isObject(part.image_url) ? part.image_url.url : part.image_url;
    return [{ ...pictureOf(stringOf(url), param, pictures), ...cache_control }];
  }
  if (part.type === 'file' && isObject(part.file) && typeof part.file.file_data === 'string')
    return [{ ...documentOf(part.file.file_data, param), ...cache_control }];
  throw unavailable(param, `A part of type "${shown(part.type)}" in this form`);
}

function toolUse({ id, function: called }: Body, param: string): Body {
  if (!isObject(called)) throw unavailable(`${param}.tool_calls`, 'A call of another kind of tool');
  const input = argumentsOf(called.arguments, param);
  return { type: 'tool_use', id: callId(id, `${param}.tool_calls`), name: called.name, input };
}

const plain_id = /^(?!svc-id-)[A-Za-z0-9_-]+$/;

// Of an id at Bedrock (ToolUseBlock: 1 to 64 characters).
const ID_CHARACTERS_MAX = 64;

/**
 * The id of a call in the letters that this wire takes, and as many of them. Providers of the other
 * one use more. The same id is the same wherever it stands, and two different ones stay different.
 */
export function callId(given: unknown, param: string): string {
  if (typeof given !== 'string') throw wrong(param, 'A call of a tool and its result need an id.');
  const id = plain_id.test(given)
    ? given
    : `svc-id-${Buffer.from(given, 'utf16le').toString('base64url')}`;
  if (id.length <= ID_CHARACTERS_MAX) return id;
  return `svc-id-${createHash('sha256').update(given, 'utf16le').digest('base64url')}`;
}

/** The arguments in their own text, in which numbers of any size keep their digits. */
function argumentsOf(given: unknown, param: string): Exact {
  const text = stringOf(given);
  if (given === undefined || given === null || (given === text && text.trim() === ''))
    return new Exact('{}');
  try {
    if (isObject(parseText(text))) return new Exact(text);
  } catch {
    // Too deep, of too many pieces, or no JSON: said below, as for other values.
  }
  throw wrong(
    `${param}.tool_calls`,
    'The arguments of a tool call must be an object in JSON, within the bounds of a body.',
  );
}
