import type { Fees, Some } from '../../domain/ledger/calls';
import type { Amount } from '../../domain/ledger/price-lists';
import { type Body, isObject, listOf, stringOf, whole } from '../wire/values';
import { wrong } from './input';

// What a request can ask for that its provider bills beyond tokens at the model's own price. Each
// member of the three wires is decided here: free, priced, or refused; so is each type of tool. A
// test walks the official clients' types, so that a new member of theirs is a decision.

/** What a request asks for beyond tokens. */
export interface Demand {
  /** The amounts that a price must have to serve it, each with the member that asks. */
  needs: readonly Need[];
  /** How much of what is billed by number it may bring: the hold covers it. */
  units: Some<Fees>;
  /** What an answer is charged by number whose provider does not say how much there was. */
  untold: Some<Fees>;
  service_tier?: string;
  region?: string;
}

export interface Need {
  param: string;
  amount: Amount;
}

/** Reads a member that is there; throws if nothing can price it. */
type Rule = (value: unknown, demand: Asked, param: string, body: Body) => void;

interface Asked extends Demand {
  needs: Need[];
}

/** The demand of a request for nothing but tokens. */
export const nothing_asked: Demand = { needs: [], units: {}, untold: {} };

// More than this is not held for, whatever a request allows its tools.
const RUNS_MAX = 100;
/** The tokens of a picture of the largest size and the best quality that a tool makes. */
export const PICTURE_TOKENS = 6_240;

/** No money hangs on it, or only tokens that the usage tells. */
const free: Rule = () => undefined;
/** A tool without a type is the client's own if it has a name; others are the provider's. */
const named: Rule = (tool, _, param) => {
  const { name, function: inner } = tool as Body;
  if (name == null && inner == null)
    throw wrong(param, 'There is no price here for tools without a type and a name.');
};
/** The family's own check refuses what has no price. */
const checked = free;

const serviceTier: Rule = (value, demand, param) => {
  demand.service_tier = nameOf(value, param);
};

const region: Rule = (value, demand, param) => {
  demand.region = nameOf(value, param);
};

/** Asks another model than was checked, or runs what is billed by a price of its own. */
const unpriced =
  (words: string): Rule =>
  (_, __, param) => {
    throw wrong(param, words);
  };

/** Refused unless it has this value, which asks for nothing. */
const only =
  (value: unknown, words: string): Rule =>
  (given, _, param) => {
    if (given !== value) throw wrong(param, words);
  };

const webSearch: Rule = (tool, demand, param, body) => {
  need(demand, param, 'per_web_search');
  demand.units.web_searches = runsOf(tool, body);
};

/** A search that each answer of a chat brings, whether the provider counts it or not. */
const searchOfAnswer: Rule = (_, demand, param) => {
  need(demand, param, 'per_web_search');
  demand.units.web_searches = 1;
  demand.untold.web_searches = 1;
};

const fileSearch: Rule = (tool, demand, param, body) => {
  need(demand, param, 'per_file_search');
  demand.units.file_searches = runsOf(tool, body);
};

const container: Rule = (_, demand, param) => {
  need(demand, param, 'per_container');
  demand.units.containers = 1;
};

/** A shell is the client's own unless it is said to be in a container. */
const shell: Rule = (tool, demand, param, body) => {
  const { environment } = tool as Body;
  const is_own = !isObject(environment) || environment.type === 'local';
  if (!is_own) container(tool, demand, param, body);
};

const picture: Rule = (_, demand, param) => {
  need(demand, param, 'image_output_per_1m');
  demand.units.image_output_tokens = PICTURE_TOKENS;
};

const modalities: Rule = (value, demand, param, body) => {
  if (!Array.isArray(value)) return;
  if (value.includes('image')) picture(value, demand, param, body);
  if (value.includes('video')) need(demand, param, 'video_output_per_1m');
};

const BACKGROUND = 'This gateway does not take "background": ask for a stream instead.';
const SPEED = 'There is no price here for another "speed" than "standard".';
const OTHER_MODEL = 'This gateway takes one model a request: name it in "model".';
const PLUGINS = 'There is no price here for what this runs beside the model.';

/** The types of tools that a wire knows; a function has no type on some. */
type Tools = ReadonlyMap<string, Rule>;

// Computers, shells, editors and the like are the client's own; tools that look for tools, or call
// others, cost the tokens that they take.
export const chatTools: Tools = new Map<string, Rule>([
  ['', named],
  ['function', free],
  ['custom', free],
  ['web_search', searchOfAnswer],
  ['web_search_preview', searchOfAnswer],
]);

export const responseTools: Tools = new Map<string, Rule>([
  ['function', free],
  ['custom', free],
  ['namespace', free],
  ['tool_search', free],
  ['programmatic_tool_calling', free],
  ['apply_patch', free],
  ['local_shell', free],
  ['computer', free],
  ['computer_use', free],
  ['computer_use_preview', free],
  ['mcp', free],
  ['shell', shell],
  ['web_search', webSearch],
  ['web_search_preview', webSearch],
  ['file_search', fileSearch],
  ['code_interpreter', container],
  ['image_generation', picture],
]);

export const messageTools: Tools = new Map<string, Rule>([
  ['', named],
  ['custom', free],
  ['bash', free],
  ['text_editor', free],
  ['computer', free],
  ['computer_toolset', free],
  ['browser_toolset', free],
  ['memory', free],
  ['tool_search_tool_bm25', free],
  ['tool_search_tool_regex', free],
  ['mcp_toolset', free],
  ['web_fetch', free],
  ['web_search', webSearch],
  ['code_execution', container],
  ['advisor', unpriced('There is no price here for tools that ask a model of their own.')],
]);

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
  plugins: chatMembers.plugins as Rule,
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
  models: unpriced(OTHER_MODEL),
  billing_policy: (value, _, param) => {
    if (isObject(value) && value.bill_to !== undefined && value.bill_to !== 'self')
      throw wrong(param, 'Requests through this gateway are billed to its own account.');
  },
};

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
    return demand ?? nothing_asked;
  };
}

function addTools(tools: unknown, known: Tools, demand: Asked, param: string, body: Body): void {
  for (const tool of listOf(tools)) {
    const type = stringOf(tool.type);
    const rule = known.get(type) ?? known.get(undated(type));
    if (rule === undefined)
      throw wrong(param, `There is no price here for tools of the type "${type.slice(0, 64)}".`);
    rule(tool, demand, param, body);
  }
}

/** The type of a tool without the day of its version. */
function undated(type: string): string {
  return type.replace(/_\d{8}$|_\d{4}_\d{2}_\d{2}$/, '');
}

function need(demand: Asked, param: string, amount: Amount): void {
  demand.needs.push({ param, amount });
}

/** How often a tool may run, as far as the request says. */
function runsOf(tool: unknown, { max_tool_calls }: Body): number {
  const runs = whole((tool as Body).max_uses) || whole(max_tool_calls) || 1;
  return Math.min(runs, RUNS_MAX);
}

function nameOf(value: unknown, param: string): string {
  if (typeof value === 'string' && /^[\w.:-]{1,64}$/.test(value)) return value;
  throw wrong(param, `"${param}" must be a name of letters, digits and . _ : -`);
}
