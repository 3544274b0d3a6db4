import { type Body, isObject, listOf } from '../wire/values';
import {
  type Asked,
  addTools,
  type CacheLife,
  chatTools,
  checked,
  type Demand,
  free,
  messageTools,
  modalities,
  nothing_asked,
  only,
  type Rule,
  region,
  responseTools,
  searchOfAnswer,
  serviceTier,
  unpriced,
} from './demand';
import { wrong } from './input';

const BACKGROUND = 'This gateway does not take "background": ask for a stream instead.';
const DEFERRED = 'This gateway does not take "deferred": ask for a stream instead.';
const SPEED = 'There is no price here for another "speed" than "standard".';
const OTHER_MODEL = 'This gateway takes one model a request: name it in "model".';
const PLUGINS = 'There is no price here for what this runs beside the model.';

/** The members of a wire's requests. */
type Members = Readonly<Record<string, Rule>>;

// Members that decide nothing about money but through the tokens that they cost.
function allFree(...names: string[]): Members {
  return Object.fromEntries(names.map((name) => [name, free]));
}

/** Members of chat, those of compatible providers and of aggregators included. */
export const chatMembers: Members = {
  ...allFree('messages', 'model', 'audio', 'frequency_penalty', 'function_call', 'functions'),
  ...allFree('logit_bias', 'logprobs', 'max_completion_tokens', 'max_tokens', 'metadata'),
  ...allFree('moderation', 'n', 'parallel_tool_calls', 'prediction', 'presence_penalty'),
  ...allFree('prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention'),
  ...allFree('reasoning_effort', 'response_format', 'safety_identifier', 'seed', 'stop', 'store'),
  ...allFree('stream', 'stream_options', 'temperature', 'tool_choice', 'top_logprobs', 'top_p'),
  ...allFree('user', 'verbosity'),
  modalities,
  service_tier: serviceTier,
  tools: (value, demand, param, body) => addTools(value, chatTools, demand, param, body),
  web_search_options: searchOfAnswer,
  background: only(false, BACKGROUND),
  deferred: only(false, DEFERRED),
  speed: only('standard', SPEED),
  enable_search: only(false, PLUGINS),
  search_parameters: (value, _, param) => {
    if (!isObject(value) || value.mode !== 'off') throw wrong(param, PLUGINS);
  },
  plugins: (value, _, param) => {
    if (!Array.isArray(value) || value.length > 0) throw wrong(param, PLUGINS);
  },
  models: unpriced(OTHER_MODEL),
  fallbacks: unpriced(OTHER_MODEL),
};

// By which other providers let a request search, and run what is billed apart.
const searching: Members = {
  web_search_options: unpriced(PLUGINS),
  enable_search: chatMembers.enable_search as Rule,
  search_parameters: chatMembers.search_parameters as Rule,
  plugins: chatMembers.plugins as Rule,
};

/** Members of Responses. */
export const responseMembers: Members = {
  ...allFree('context_management', 'conversation', 'include', 'instructions', 'max_output_tokens'),
  ...allFree('metadata', 'model', 'moderation', 'parallel_tool_calls', 'previous_response_id'),
  ...allFree('prompt', 'prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention'),
  ...allFree('reasoning', 'safety_identifier', 'store', 'stream', 'stream_options', 'temperature'),
  ...allFree('text', 'tool_choice', 'top_logprobs', 'top_p', 'truncation', 'user'),
  ...allFree('max_tool_calls'),
  modalities,
  service_tier: serviceTier,
  tools: (value, demand, param, body) => addTools(value, responseTools, demand, param, body),
  // Items may bring tools of their own.
  input: (value, demand, param, body) => {
    for (const { type, tools } of listOf(value)) {
      if (type !== 'additional_tools' && type !== 'tool_search_output') continue;
      addTools(tools, responseTools, demand, param, body);
    }
  },
  background: checked,
  speed: only('standard', SPEED),
  ...searching,
  models: unpriced(OTHER_MODEL),
  fallbacks: unpriced(OTHER_MODEL),
};

/** Members of Messages. */
export const messageMembers: Members = {
  ...allFree('max_tokens', 'messages', 'model', 'cache_control', 'compaction', 'container'),
  ...allFree('context_management', 'diagnostics', 'fallback_credit_token', 'mcp_servers'),
  ...allFree('metadata', 'output_config', 'output_format', 'stop_sequences', 'stream', 'system'),
  ...allFree('thinking', 'thread', 'tool_choice'),
  service_tier: serviceTier,
  inference_geo: region,
  tools: (value, demand, param, body) => addTools(value, messageTools, demand, param, body),
  speed: checked,
  fallbacks: checked,
  ...searching,
  models: unpriced(OTHER_MODEL),
  billing_policy: (value, _, param) => {
    if (isObject(value) && value.bill_to !== undefined && value.bill_to !== 'self')
      throw wrong(param, 'Requests through this gateway are billed to its own account.');
  },
};

/** The members that decide about money on some wire: a request may name each of them once. */
export const decidingMembers: readonly string[] = [chatMembers, responseMembers, messageMembers]
  .flatMap((members) => Object.entries(members))
  .filter(([, rule]) => rule !== free)
  .map(([name]) => name);

/** Reads what requests of a wire ask for beyond tokens; throws if nothing can price it. */
export function demandReader(members: Members): (body: Body) => Demand {
  const rules = Object.entries(members).filter(([, rule]) => rule !== free);
  return (body) => {
    let demand: Asked | undefined;
    for (const [name, rule] of rules) {
      const value = body[name];
      if (value === undefined || value === null) continue;
      demand ??= { needs: [], units: {}, untold: {} };
      rule(value, demand, name, body);
    }
    const cache_life = cacheLifeIn(body);
    const asked = demand ?? nothing_asked;
    return cache_life === undefined ? asked : { ...asked, cache_life };
  };
}

/**
 * The longest life of the caches that a request marks, wherever a mark stands. One that no price
 * knows counts as the longest.
 */
export function cacheLifeIn(value: unknown): CacheLife | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  let life: CacheLife | undefined;
  for (const [name, member] of Object.entries(value)) {
    const found = name === 'cache_control' ? lifeOf(member) : cacheLifeIn(member);
    if (found === '1h') return found;
    life ??= found;
  }
  return life;
}

function lifeOf(mark: unknown): CacheLife | undefined {
  if (!isObject(mark)) return undefined;
  return mark.ttl == null || mark.ttl === '5m' ? '5m' : '1h';
}
