import { isPlainObject, parseExact } from '../../wire/exact';
import { type Body, isObject, listOf } from '../../wire/values';
import { DEFAULT_MAX_COMPLETION_TOKENS } from '../caps';
import { wrong } from '../input';
import type { ClientRequest } from '../request';
import { conversation } from './conversation';
import { refuseOthers, shown, unavailable } from './words';

/**
 * A chat completion's request on Anthropic's wire. What that provider has no word for is left out
 * if it changes no answer, and refused if it does.
 */
export function toMessages(given: Pick<ClientRequest, 'body' | 'outgoing'>, model: string): Body {
  const { body } = given;
  checkTypes(body);
  refuseOthers(body);
  const { system, messages } = conversation(body.messages);
  const cap = body.max_completion_tokens ?? body.max_tokens ?? DEFAULT_MAX_COMPLETION_TOKENS;
  const request: Body = { model, max_tokens: cap, messages };
  if (system.length > 0) request.system = system;
  Object.assign(request, sampling(body), tier(body.service_tier));
  if (body.stop != null) request.stop_sequences = stops(body.stop);
  if (body.stream === true) request.stream = true;
  const tools = listOf(exactly(given, 'tools')).map(toTool);
  if (tools.length > 0) request.tools = tools;
  const tool_choice = toolChoice(body);
  if (tool_choice !== undefined && tools.length > 0) request.tool_choice = tool_choice;
  return Object.assign(request, output(exactly(given, 'response_format'), body.reasoning_effort));
}

// A provider of the other wire cannot refuse a member that it never sees.
const lists = ['tools', 'modalities'];
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
}

/** A member whose numbers keep their digits, whatever their size. */
function exactly({ body, outgoing }: Pick<ClientRequest, 'body' | 'outgoing'>, name: string) {
  const member = outgoing.spans.get(name);
  if (body[name] == null || member === undefined) return body[name];
  return parseExact(outgoing.bytes.toString('utf8').slice(member.start, member.end));
}

/**
 * The provider's newer models refuse both at once. At 1 each of them says the same as its absence.
 * The one wire takes temperatures up to 2, the other up to 1.
 */
function sampling({ temperature, top_p }: Body): Body {
  if (top_p == null || top_p === 1)
    return temperature == null ? {} : { temperature: Math.min(temperature as number, 1) };
  if (temperature == null || (temperature as number) >= 1) return { top_p };
  throw wrong(
    'top_p',
    'The provider of this model takes "temperature" or "top_p", not both: leave one of them out.',
  );
}

// The other wire's own tiers: what may be served at any, and what at the standard one alone.
const tiers = new Map<unknown, Body>([
  ['auto', {}],
  ['default', { service_tier: 'standard_only' }],
]);

function tier(given: unknown): Body {
  const found = tiers.get(given ?? 'auto');
  if (found === undefined) throw unavailable('service_tier', `The service tier "${shown(given)}"`);
  return found;
}

function stops(given: unknown): string[] {
  const texts: unknown[] = Array.isArray(given) ? given : [given];
  if (texts.every((one): one is string => typeof one === 'string' && one.trim() !== ''))
    return texts;
  throw wrong(
    'stop',
    '"stop" must be a text or a list of texts, none of them empty or of nothing but white space.',
  );
}

function toTool({ type, function: given }: Body, at: number): Body {
  if (type !== 'function' || !isPlainObject(given))
    throw unavailable(`tools[${at}]`, `A tool of type "${shown(type)}"`);
  const { name, description, parameters, strict } = given;
  return {
    name,
    ...(description == null ? {} : { description }),
    ...(strict == null ? {} : { strict }),
    input_schema: inputSchema(parameters, `tools[${at}].function.parameters`),
  };
}

/** That wire demands the type of a tool's input, which can be an object only. */
function inputSchema(parameters: unknown, param: string): Body {
  const schema = parameters ?? { properties: {} };
  if (!isPlainObject(schema)) throw wrong(param, '"parameters" must be an object, a JSON Schema.');
  const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? 'object'];
  if (types.includes('object')) return { ...schema, type: 'object' };
  throw wrong(param, 'The arguments of a tool are an object: its "parameters" name another type.');
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

const efforts = new Set<unknown>(['low', 'medium', 'high', 'xhigh', 'max']);

/** The form of the answer, and how much thought goes into it. */
function output(response_format: unknown, effort: unknown): Body {
  const format = answerFormat(response_format);
  if (effort != null && effort !== 'none' && !efforts.has(effort))
    throw unavailable('reasoning_effort', `The effort "${shown(effort)}"`);
  const config = {
    ...(format && { format }),
    ...(efforts.has(effort) ? { effort } : {}),
  };
  return {
    ...(Object.keys(config).length > 0 ? { output_config: config } : {}),
    ...(effort === 'none' ? { thinking: { type: 'disabled' } } : {}),
  };
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
