import { type Body, listOf } from '../../wire/values';
import { DEFAULT_MAX_COMPLETION_TOKENS } from '../caps';
import { wrong } from '../input';
import { conversation } from './conversation';
import { checkTypes, choiceOf, exactly, formatOf, type Given, stopsOf, toolOf } from './members';
import { efforts, refuseOthers, shown, unavailable } from './words';

/**
 * A chat completion's request on Anthropic's wire. What that provider has no word for is left out
 * if it changes no answer, and refused if it does.
 */
export function toMessages(given: Given, model: string): Body {
  const { body } = given;
  checkTypes(body);
  refuseOthers(body);
  const { system, messages } = conversation(body.messages, { cache_control: body.cache_control });
  const cap = body.max_completion_tokens ?? body.max_tokens ?? DEFAULT_MAX_COMPLETION_TOKENS;
  const request: Body = { model, max_tokens: cap, messages };
  if (system.length > 0) request.system = system;
  Object.assign(request, sampling(body), tier(body.service_tier));
  if (body.stop != null) request.stop_sequences = stopsOf(body.stop);
  if (body.stream === true) request.stream = true;
  const tools = listOf(exactly(given, 'tools')).map(toTool);
  if (tools.length > 0) request.tools = tools;
  const tool_choice = toolChoice(body);
  if (tool_choice !== undefined && tools.length > 0) request.tool_choice = tool_choice;
  return Object.assign(request, output(exactly(given, 'response_format'), body.reasoning_effort));
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

function toTool(given: Body, at: number): Body {
  const { name, description, strict, schema, cache_control } = toolOf(given, at);
  return {
    name,
    ...(description == null ? {} : { description }),
    ...(strict == null ? {} : { strict }),
    input_schema: schema,
    ...(cache_control == null ? {} : { cache_control }),
  };
}

function toolChoice(body: Body): Body | undefined {
  const is_single = body.parallel_tool_calls === false;
  const one_at_a_time = is_single ? { disable_parallel_tool_use: true } : {};
  const choice = choiceOf(body.tool_choice);
  if (choice === undefined) return is_single ? { type: 'auto', ...one_at_a_time } : undefined;
  if (choice === 'none') return { type: 'none' };
  if (typeof choice === 'object') return { type: 'tool', name: choice.name, ...one_at_a_time };
  return { type: choice === 'required' ? 'any' : choice, ...one_at_a_time };
}

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
  const format = formatOf(given);
  if (format === undefined) return undefined;
  if (format.type === 'json_schema') return { type: format.type, schema: format.schema };
  throw unavailable('response_format', '"response_format" of type "json_object" without a schema');
}
