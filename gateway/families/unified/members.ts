import { isPlainObject, parseExact } from '../../wire/exact';
import { type Body, isObject, listOf } from '../../wire/values';
import { wrong } from '../input';
import type { ClientRequest } from '../request';
import { shown, unavailable } from './words';

// Members of a chat as every translation reads them.

export type Given = Pick<ClientRequest, 'body' | 'outgoing'>;

// A provider of another wire cannot refuse a member that it never sees.
const lists = ['tools', 'modalities'];
const numbers = ['temperature', 'top_p', 'n'];

/** Refuses members of another type than their wire has. */
export function checkTypes(body: Body): void {
  for (const name of lists) {
    if (body[name] != null && !Array.isArray(body[name]))
      throw wrong(name, `"${name}" must be a list.`);
  }
  for (const name of numbers) {
    if (body[name] != null && typeof body[name] !== 'number')
      throw wrong(name, `"${name}" must be a number.`);
  }
}

/** A member whose numbers keep their digits, whatever their size. */
export function exactly({ body, outgoing }: Given, name: string): unknown {
  const member = outgoing.spans.get(name);
  if (body[name] == null || member === undefined) return body[name];
  return parseExact(outgoing.bytes.toString('utf8').slice(member.start, member.end));
}

/** The texts at which an answer stops; most wires take none of white space alone. */
export function stopsOf(given: unknown, { takes_blanks = false } = {}): string[] {
  const texts: unknown[] = Array.isArray(given) ? given : [given];
  const isTaken = (one: unknown): one is string =>
    typeof one === 'string' && (takes_blanks ? one : one.trim()) !== '';
  if (texts.every(isTaken)) return texts;
  const of_blanks = takes_blanks ? '' : ' or of nothing but white space';
  throw wrong('stop', `"stop" must be a text or a list of texts, none of them empty${of_blanks}.`);
}

/** A function that the model may call. */
interface Tool {
  name: unknown;
  description: unknown;
  strict: unknown;
  /** The schema of its arguments, which are an object. */
  schema: Body;
  /** That a cache is to hold the tools up to this one. */
  cache_control: unknown;
}

/** A tool of the list by its place; the functions of all wires are alike. */
export function toolOf(tool: Body, at: number): Tool {
  const { type, function: given } = tool;
  if (type !== 'function' || !isPlainObject(given))
    throw unavailable(`tools[${at}]`, `A tool of type "${shown(type)}"`);
  const { name, description, parameters, strict } = given;
  const schema = inputSchema(parameters, `tools[${at}].function.parameters`);
  // Clients write it at either place.
  const cache_control = tool.cache_control ?? given.cache_control;
  return { name, description, strict, schema, cache_control };
}

/** Other wires demand the type of a tool's input, which can be an object only. */
function inputSchema(parameters: unknown, param: string): Body {
  const schema = parameters ?? { properties: {} };
  if (!isPlainObject(schema)) throw wrong(param, '"parameters" must be an object, a JSON Schema.');
  const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? 'object'];
  if (types.includes('object')) return { ...schema, type: 'object' };
  throw wrong(param, 'The arguments of a tool are an object: its "parameters" name another type.');
}

/** Which tools are to be called; undefined if the request says nothing. */
export function choiceOf(
  given: unknown,
): 'auto' | 'none' | 'required' | { name: unknown } | undefined {
  if (given === undefined || given === null) return undefined;
  if (given === 'auto' || given === 'none' || given === 'required') return given;
  if (!isObject(given))
    throw wrong('tool_choice', '"tool_choice" is auto, none, required or a tool.');
  const name = isObject(given.function) ? given.function.name : undefined;
  if (name === undefined) throw unavailable('tool_choice', 'This choice of tools');
  return { name };
}

/** The form that the answer is to have; undefined for a text of any form. */
type Format = { type: 'json_object' } | { type: 'json_schema'; schema: Body; name: unknown };

export function formatOf(given: unknown): Format | undefined {
  if (!isObject(given) || given.type === 'text') return undefined;
  const { type, json_schema } = given;
  if (type === 'json_object') return { type };
  if (type === 'json_schema' && isObject(json_schema) && isObject(json_schema.schema))
    return { type, schema: json_schema.schema, name: json_schema.name };
  throw unavailable(
    'response_format',
    `"response_format" of type "${shown(type)}" without a schema`,
  );
}

/** Refuses one call at a time, where a wire has no word for it; without tools none is called. */
export function checkParallel({ parallel_tool_calls, tools }: Body): void {
  if (parallel_tool_calls !== false || listOf(tools).length === 0) return;
  throw unavailable('parallel_tool_calls', '"parallel_tool_calls": false');
}
