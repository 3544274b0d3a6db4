import { printExact } from '../../wire/exact';
import { type Body, listOf, stringOf } from '../../wire/values';
import { conversation } from './conversation';
import {
  checkParallel,
  checkTypes,
  choiceOf,
  exactly,
  formatOf,
  type Given,
  stopsOf,
  toolOf,
} from './members';
import { efforts, refuseOthers, shown, unavailable } from './words';

/**
 * A chat completion's request in the words of Bedrock's Converse. What that has no word for is left
 * out if it changes no answer, and refused if it does. Points of a cache go to models that have
 * one.
 */
export function toConverse(given: Given, model: string): Body {
  const { body } = given;
  checkTypes(body);
  refuseOthers(body);
  checkParallel(body);
  const { system, messages } = conversation(body.messages, { cache_control: body.cache_control });
  let documents = 0;
  const nameDocument = () => {
    documents += 1;
    return `document-${documents}`;
  };
  const caches = cachesOf(model);
  // A block with the point behind it up to which a cache is to hold.
  const blocksOf = (block: Body) => {
    const points = caches.blocks ? pointOf(cachingOf(block)) : [];
    return [blockOf(block, nameDocument), ...points];
  };
  const request: Body = {
    messages: messages.map(({ role, content }) => ({
      role,
      content: content.flatMap(blocksOf),
    })),
  };
  if (system.length > 0) request.system = system.flatMap(blocksOf);
  const config = inferenceConfig(body);
  if (Object.keys(config).length > 0) request.inferenceConfig = config;
  const has_calls = messages.some(({ content }) => content.some(isOfTool));
  const toolConfig = tools(given, { has_calls, has_points: caches.tools });
  if (toolConfig !== undefined) request.toolConfig = toolConfig;
  const outputConfig = output(given);
  if (Object.keys(outputConfig).length > 0) request.outputConfig = outputConfig;
  const serviceTier = tier(body.service_tier);
  return serviceTier === undefined ? request : { ...request, serviceTier };
}

const isOfTool = ({ type }: Body) => type === 'tool_use' || type === 'tool_result';

// Claude before its caches came (docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html).
const uncached_claude = /claude-(?:v2|instant|3-(?:opus|sonnet|haiku)|3-5-sonnet-20240620)(?![\w])/;
// ARNs that say nothing of the model behind them; who asks for a cache there knows it.
const hidden = /^arn:(?!.*[:/](?:foundation-model|inference-profile)\/)/;

/**
 * Where a model takes the points of a cache. One that has no cache answers 403 to them, and the
 * answer is the same without; Nova takes none among its tools.
 */
function cachesOf(model: string): { blocks: boolean; tools: boolean } {
  if (/\bnova\b/.test(model)) return { blocks: true, tools: false };
  const has_cache = /claude/.test(model) ? !uncached_claude.test(model) : hidden.test(model);
  return { blocks: has_cache, tools: has_cache };
}

/** A result of a tool has no points within it: the last one that it names stands behind it. */
function cachingOf({ type, cache_control, content }: Body): unknown {
  if (cache_control != null || type !== 'tool_result') return cache_control;
  return listOf(content).findLast((part) => part.cache_control != null)?.cache_control;
}

function pointOf(cache_control: unknown): Body[] {
  if (cache_control == null) return [];
  const { ttl } = cache_control as Body;
  return [{ cachePoint: { type: 'default', ...(ttl == null ? {} : { ttl }) } }];
}

function blockOf(block: Body, nameDocument: () => string): Body {
  if (block.type === 'text') return { text: block.text };
  if (block.type === 'tool_use') {
    const { id: toolUseId, name, input } = block;
    return { toolUse: { toolUseId, name, input } };
  }
  if (block.type === 'tool_result') {
    const content = listOf(block.content).map((one) => blockOf(one, nameDocument));
    // A result of nothing is an object without members, as it must be something.
    const said = content.length > 0 ? content : [{ json: {} }];
    return { toolResult: { toolUseId: block.tool_use_id, content: said } };
  }
  const { type, media_type, data } = block.source as Body;
  if (type === 'url') throw unavailable('messages', 'A picture or file at an address');
  if (block.type === 'image') {
    const format = stringOf(media_type).replace('image/', '');
    return { image: { format, source: { bytes: data } } };
  }
  const is_text = type === 'text';
  const bytes = is_text ? Buffer.from(stringOf(data)).toString('base64') : data;
  // The name is read by the model, so it says nothing.
  const name = nameDocument();
  return { document: { format: is_text ? 'txt' : 'pdf', name, source: { bytes } } };
}

/** The one wire takes temperatures up to 2, the other up to 1. */
function inferenceConfig(body: Body): Body {
  const { temperature, top_p, stop } = body;
  const named: Body = {
    maxTokens: body.max_completion_tokens ?? body.max_tokens,
    temperature: temperature == null ? undefined : Math.min(temperature as number, 1),
    topP: top_p,
    stopSequences: stop == null ? undefined : stopsOf(stop),
  };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value != null));
}

function tools(
  given: Given,
  { has_calls, has_points }: { has_calls: boolean; has_points: boolean },
): Body | undefined {
  const all = listOf(exactly(given, 'tools')).map(toolOf);
  const choice = choiceOf(given.body.tool_choice);
  if (all.length === 0) return undefined;
  if (choice === 'none') {
    // Without tools none is called; a conversation that has called some must name them.
    if (has_calls) throw unavailable('tool_choice', '"tool_choice": "none" behind calls of tools');
    return undefined;
  }
  const toolChoice = choice === undefined ? undefined : chosen(choice);
  return {
    tools: all.flatMap(({ name, description, strict, schema, cache_control }) => [
      {
        toolSpec: {
          name,
          ...(description == null ? {} : { description }),
          inputSchema: { json: schema },
          ...(strict == null ? {} : { strict }),
        },
      },
      ...(has_points ? pointOf(cache_control) : []),
    ]),
    ...(toolChoice && { toolChoice }),
  };
}

function chosen(choice: Exclude<ReturnType<typeof choiceOf>, undefined | 'none'>): Body {
  if (typeof choice === 'object') return { tool: { name: choice.name } };
  return choice === 'required' ? { any: {} } : { auto: {} };
}

/** The form of the answer, and how much thought goes into it. */
function output(given: Given): Body {
  const { reasoning_effort: effort } = given.body;
  const format = formatOf(exactly(given, 'response_format'));
  if (format?.type === 'json_object')
    throw unavailable('response_format', '"response_format" of type "json_object"');
  if (effort != null && !efforts.has(effort))
    throw unavailable('reasoning_effort', `The effort "${shown(effort)}"`);
  return {
    ...(format && { textFormat: textFormat(format.schema, format.name) }),
    ...(effort == null ? {} : { effort }),
  };
}

/** That wire takes the schema as a text. */
function textFormat(schema: Body, name: unknown): Body {
  const jsonSchema = { schema: printExact(schema), ...(name == null ? {} : { name }) };
  return { type: 'json_schema', structure: { jsonSchema } };
}

const tiers = new Set<unknown>(['default', 'flex', 'priority']);

function tier(given: unknown): Body | undefined {
  if (given == null || given === 'auto') return undefined;
  if (!tiers.has(given)) throw unavailable('service_tier', `The service tier "${shown(given)}"`);
  return { type: given };
}
