import { parseText } from '../../wire/parse';
import { type Body, isObject, listOf, stringOf } from '../../wire/values';
import { DEFAULT_MAX_COMPLETION_TOKENS } from '../caps';
import { wrong } from '../input';

/**
 * A chat completion's request on Anthropic's wire. What that provider has no word for and what
 * changes no answer (`seed`, `logit_bias`, `user`) is left out, as its own compatible route does;
 * what would change the answer's form is refused.
 */
export function toMessages(body: Body, model: string): Body {
  checkTypes(body);
  refuseOthers(body);
  const { system, messages } = conversation(body.messages);
  const cap = body.max_completion_tokens ?? body.max_tokens ?? DEFAULT_MAX_COMPLETION_TOKENS;
  if (messages.length === 0) throw wrong('messages', '"messages" needs one that says something.');
  const request: Body = { model, max_tokens: cap, messages };
  if (system.length > 0) request.system = system;
  // The one wire takes temperatures up to 2, the other up to 1.
  if (typeof body.temperature === 'number') request.temperature = Math.min(body.temperature, 1);
  if (body.top_p != null) request.top_p = body.top_p;
  if (body.stop != null)
    request.stop_sequences = Array.isArray(body.stop) ? body.stop : [body.stop];
  if (body.stream === true) request.stream = true;
  const tools = listOf(body.tools).map(toTool);
  if (tools.length > 0) request.tools = tools;
  const tool_choice = toolChoice(body);
  if (tool_choice !== undefined && tools.length > 0) request.tool_choice = tool_choice;
  const format = answerFormat(body.response_format);
  if (format !== undefined) request.output_config = { format };
  return request;
}

// A provider of the other wire cannot refuse a member that it never sees.
const lists = ['messages', 'tools', 'modalities'];
const numbers = ['temperature', 'top_p', 'n'];

function checkTypes(body: Body): void {
  for (const name of lists) {
    if (body[name] != null && !Array.isArray(body[name]))
      throw wrong(name, `"${name}" must be a list.`);
  }
  for (const name of numbers) {
    if (body[name] != null && typeof body[name] !== 'number')
      throw wrong(name, `"${name}" must be a number.`);
  }
  const stops = Array.isArray(body.stop) ? body.stop : [body.stop ?? ''];
  if (!stops.every((one) => typeof one === 'string'))
    throw wrong('stop', '"stop" must be a text or a list of texts.');
}

const foreign = ['functions', 'audio', 'web_search_options'];

function refuseOthers(body: Body): void {
  for (const name of foreign) {
    if (body[name] != null) throw unavailable(name, `"${name}"`);
  }
  if (body.n != null && body.n !== 1) throw unavailable('n', 'More than one choice');
  const modalities = Array.isArray(body.modalities) ? body.modalities : [];
  if (modalities.some((one) => one !== 'text')) throw unavailable('modalities', 'Other than text');
}

const SHOWN_CHARACTERS = 64;

function shown(value: unknown): string {
  return stringOf(value).slice(0, SHOWN_CHARACTERS);
}

function unavailable(param: string, what: string) {
  return wrong(param, `${what} is not available from the provider of this model.`);
}

interface Turn {
  role: 'user' | 'assistant';
  content: Body[];
}

/**
 * Its system texts apart; messages of one role behind one another are one, as results of tools must
 * be.
 */
function conversation(given: unknown): { system: Body[]; messages: Turn[] } {
  const system: Body[] = [];
  const messages: Turn[] = [];
  for (const [at, message] of (given as unknown[]).entries()) {
    const param = `messages[${at}]`;
    if (!isObject(message)) throw wrong(param, 'Each message must be an object.');
    if (message.role === 'system' || message.role === 'developer') {
      system.push(...contentOf(message.content, param));
      continue;
    }
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content = blocksOf(message, param);
    const last = messages.at(-1);
    if (last?.role === role) last.content.push(...content);
    else if (content.length > 0) messages.push({ role, content });
  }
  return { system, messages };
}

function blocksOf(message: Body, param: string): Body[] {
  if (message.role === 'tool') {
    const result = { type: 'tool_result', tool_use_id: message.tool_call_id };
    return [{ ...result, content: contentOf(message.content, param) }];
  }
  if (message.role === 'user') return contentOf(message.content, param);
  if (message.role !== 'assistant')
    throw unavailable(`${param}.role`, `The role "${shown(message.role)}"`);
  const refusal = stringOf(message.refusal);
  const said = contentOf(message.content ?? (refusal || undefined), param);
  if (message.tool_calls != null && !Array.isArray(message.tool_calls))
    throw wrong(`${param}.tool_calls`, '"tool_calls" must be a list.');
  return [...said, ...listOf(message.tool_calls).map((call) => toolUse(call, param))];
}

/** Texts and parts as content blocks; an empty text is none, that wire refuses it. */
function contentOf(content: unknown, param: string): Body[] {
  if (content === undefined || content === null || content === '') return [];
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content) || !content.every(isObject))
    throw wrong(`${param}.content`, '"content" must be a text or a list of parts.');
  return listOf(content).flatMap((part, at) => partOf(part, `${param}.content[${at}]`));
}

function partOf(part: Body, param: string): Body[] {
  const cache_control = part.cache_control == null ? {} : { cache_control: part.cache_control };
  const text = stringOf(part.type === 'refusal' ? part.refusal : part.text);
  if (part.type === 'text' || part.type === 'refusal')
    return text === '' ? [] : [{ type: 'text', text, ...cache_control }];
  if (part.type === 'image_url') {
    const url = isObject(part.image_url) ? stringOf(part.image_url.url) : stringOf(part.image_url);
    return [{ type: 'image', source: sourceOf(url), ...cache_control }];
  }
  if (part.type === 'file' && isObject(part.file) && typeof part.file.file_data === 'string')
    return [{ type: 'document', source: sourceOf(part.file.file_data), ...cache_control }];
  throw unavailable(param, `A part of type "${shown(part.type)}" in this form`);
}

const data_url = /^data:([\w.+/-]+);base64,(.*)$/s;

function sourceOf(url: string): Body {
  const [, media_type, data] = data_url.exec(url) ?? [];
  return data === undefined ? { type: 'url', url } : { type: 'base64', media_type, data };
}

function toolUse({ id, function: called }: Body, param: string): Body {
  if (!isObject(called)) throw unavailable(`${param}.tool_calls`, 'A call of another kind of tool');
  return { type: 'tool_use', id, name: called.name, input: argumentsOf(called.arguments, param) };
}

function argumentsOf(given: unknown, param: string): Body {
  if (given === undefined || given === '') return {};
  try {
    const value = parseText(stringOf(given));
    if (isObject(value)) return value;
  } catch {
    // Too deep, of too many pieces, or no JSON: said below, as for other values.
  }
  throw wrong(
    `${param}.tool_calls`,
    'The arguments of a tool call must be an object in JSON, within the bounds of a body.',
  );
}

function toTool({ type, function: given }: Body, at: number): Body {
  if (type !== 'function' || !isObject(given))
    throw unavailable(`tools[${at}]`, `A tool of type "${shown(type)}"`);
  const { name, description, parameters } = given;
  const input_schema = parameters ?? { type: 'object', properties: {} };
  return { name, ...(description == null ? {} : { description }), input_schema };
}

const choices = new Map<unknown, string>([
  ['auto', 'auto'],
  ['none', 'none'],
  ['required', 'any'],
]);

function toolChoice({ tool_choice, parallel_tool_calls }: Body): Body | undefined {
  const one_at_a_time = parallel_tool_calls === false ? { disable_parallel_tool_use: true } : {};
  if (tool_choice === undefined || tool_choice === null)
    return parallel_tool_calls === false ? { type: 'auto', ...one_at_a_time } : undefined;
  if (isObject(tool_choice)) {
    const named = isObject(tool_choice.function) ? tool_choice.function.name : undefined;
    if (named === undefined) throw unavailable('tool_choice', 'This choice of tools');
    return { type: 'tool', name: named, ...one_at_a_time };
  }
  const type = choices.get(tool_choice);
  if (type === undefined)
    throw wrong('tool_choice', '"tool_choice" is auto, none, required or a tool.');
  return type === 'none' ? { type } : { type, ...one_at_a_time };
}

function answerFormat(given: unknown): Body | undefined {
  if (!isObject(given) || given.type === 'text') return undefined;
  const { type, json_schema } = given;
  if (type === 'json_schema' && isObject(json_schema) && isObject(json_schema.schema))
    return { type, schema: json_schema.schema };
  throw unavailable(
    'response_format',
    `"response_format" of type "${shown(type)}" without a schema`,
  );
}
