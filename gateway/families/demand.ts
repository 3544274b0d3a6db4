import type { Fees, Some } from '../../domain/ledger/calls';
import type { Amount } from '../../domain/ledger/price-lists';
import { cut } from '../../domain/texts';
import { type Body, countOf, isObject, listOf, stringOf } from '../wire/values';
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
  /** The most searches that the request allows, if it says so. */
  searches_max?: number;
  /** How many of the smallest containers one costs as much as, by the tool that runs in it. */
  container_sizes?: Readonly<Partial<Record<Runner, number>>>;
  service_tier?: string | undefined;
  region?: string;
  /** How long the caches are to hold that it marks. */
  cache_life?: CacheLife | undefined;
}

/** How long a cache holds, as prices of what is written to it know it. */
export type CacheLife = '5m' | '1h';

/** A tool whose code runs in a container of the provider. */
export type Runner = 'code' | 'shell';

export interface Need {
  param: string;
  amount: Amount;
  /** Those whose prices must have it; all that may serve if absent. */
  providers?: readonly string[];
}

/** Reads a member that is there; throws if nothing can price it. */
export type Rule = (value: unknown, demand: Asked, param: string, body: Body) => void;

export interface Asked extends Demand {
  needs: Need[];
}

/** The demand of a request for nothing but tokens. */
export const nothing_asked: Demand = { needs: [], units: {}, untold: {} };

// More than this is not held for, whatever a request allows its tools.
export const RUNS_MAX = 100;
/**
 * The searches that are held for where a request sets no limit: so often Anthropic's loop of tools
 * goes round in one request (platform.claude.com/docs/en/build-with-claude/handling-stop-reasons,
 * `pause_turn`). OpenAI documents no number. Those that ran are charged.
 */
export const SEARCHES_EXPECTED = 10;
/** The tokens of a picture of the largest size and the best quality that a tool makes. */
export const PICTURE_TOKENS = 6_240;

const OTHER_PICTURES =
  'There is no price here for a picture model of the tool\'s own: leave its "model" out.';

/** As many as any completion has: the hold takes no more than its own. */
export const SPOKEN_TOKENS = 1_000_000_000;

/** No money hangs on it, or only tokens that the usage tells. */
export const free: Rule = () => undefined;
/** A tool without a type is the client's own if it has a name; others are the provider's. */
const named: Rule = (tool, _, param) => {
  const { name, function: inner } = tool as Body;
  if (name == null && inner == null)
    throw wrong(param, 'There is no price here for tools without a type and a name.');
};
/** The family's own check refuses what has no price. */
export const checked = free;

export const serviceTier: Rule = (value, demand, param) => {
  demand.service_tier = nameOf(value, param);
};

export const region: Rule = (value, demand, param) => {
  demand.region = nameOf(value, param);
};

/** Asks another model than was checked, or runs what is billed by a price of its own. */
export const unpriced =
  (words: string): Rule =>
  (_, __, param) => {
    throw wrong(param, words);
  };

/** Refused unless it has this value, which asks for nothing. */
export const only =
  (value: unknown, words: string): Rule =>
  (given, _, param) => {
    if (given !== value) throw wrong(param, words);
  };

/** Searches, of which the request says by a member of its wire how many there may be. */
const webSearch =
  (most: (tool: Body, body: Body) => unknown): Rule =>
  (tool, demand, param, body) => {
    need(demand, param, 'per_web_search');
    const runs = countOf(most(tool as Body, body));
    const { web_searches = 0 } = demand.units;
    if (runs > 0)
      demand.searches_max = Math.max(demand.searches_max ?? 0, Math.min(runs, RUNS_MAX));
    demand.units.web_searches = Math.max(web_searches, runsOf(runs));
  };

const searchOfResponses = webSearch((_, { max_tool_calls }) => max_tool_calls);
const searchOfMessages = webSearch(({ max_uses }) => max_uses);

/** A search that each answer of a chat brings, whether the provider counts it or not. */
export const searchOfAnswer: Rule = (_, demand, param) => {
  need(demand, param, 'per_web_search');
  demand.units.web_searches = 1;
  demand.untold.web_searches = 1;
};

const fileSearch: Rule = (_, demand, param, { max_tool_calls }) => {
  need(demand, param, 'per_file_search');
  demand.units.file_searches = runsOf(countOf(max_tool_calls));
};

// What a container costs by its memory, in those of 1 GB (OpenAI's list: 0.03, 0.12, 0.48, 1.92).
const container_sizes = new Map<unknown, number>([
  ['1g', 1],
  ['4g', 4],
  ['16g', 16],
  ['64g', 64],
]);

/** Code that runs in a container: in the one that stands in this member of the tool. */
const inContainer =
  (runner: Runner, member: string): Rule =>
  (tool, demand, param) => {
    need(demand, param, 'per_container');
    const { [member]: described } = tool as Body;
    const { [runner]: before = 0 } = demand.container_sizes ?? {};
    const size = Math.max(before, isObject(described) ? sizeOf(described, param) : 1);
    demand.container_sizes = { ...demand.container_sizes, [runner]: size };
    demand.units.containers = Object.values(demand.container_sizes).reduce((a, b) => a + b);
  };

function sizeOf({ memory_limit }: Body, param: string): number {
  const size = container_sizes.get(memory_limit ?? '1g');
  if (size !== undefined) return size;
  throw wrong(param, 'There is no price here for a container of this "memory_limit".');
}

const codeInterpreter = inContainer('code', 'container');
const shellInContainer = inContainer('shell', 'environment');

/** A shell is the client's own unless it is said to be in a container. */
const shell: Rule = (tool, demand, param, body) => {
  const { environment } = tool as Body;
  const is_own = !isObject(environment) || environment.type === 'local';
  if (!is_own) shellInContainer(tool, demand, param, body);
};

const picture: Rule = (tool, demand, param, { model }) => {
  const { model: named } = tool as Body;
  if (named != null && named !== model) throw wrong(param, OTHER_PICTURES);
  need(demand, param, 'image_output_per_1m');
  demand.units.image_output_tokens = PICTURE_TOKENS;
};

export const modalities: Rule = (value, demand, param, body) => {
  if (!Array.isArray(value)) return;
  if (value.includes('image')) {
    need(demand, param, 'image_output_per_1m');
    // How many choices may be asked for is checked with the cap of the output.
    const tries = Math.max(1, countOf(body.n), countOf(body.best_of));
    demand.units.image_output_tokens = PICTURE_TOKENS * tries;
  }
  if (value.includes('audio')) {
    need(demand, param, 'audio_output_per_1m');
    // All of it may be spoken.
    demand.units.audio_output_tokens = SPOKEN_TOKENS;
  }
  if (value.includes('video')) need(demand, param, 'video_output_per_1m');
};

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
  [
    'namespace',
    (tool, demand, param, body) =>
      addTools((tool as Body).tools, responseTools, demand, param, body),
  ],
  ['tool_search', free],
  ['programmatic_tool_calling', free],
  ['apply_patch', free],
  ['local_shell', free],
  ['computer', free],
  ['computer_use', free],
  ['computer_use_preview', free],
  ['mcp', free],
  ['shell', shell],
  ['web_search', searchOfResponses],
  ['web_search_preview', searchOfResponses],
  ['file_search', fileSearch],
  ['code_interpreter', codeInterpreter],
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
  ['web_search', searchOfMessages],
  ['code_execution', codeInterpreter],
  ['advisor', unpriced('There is no price here for tools that ask a model of their own.')],
]);

/** Reads the tools of a request; throws for one that nothing can price. */
export function addTools(
  tools: unknown,
  known: Tools,
  demand: Asked,
  param: string,
  body: Body,
): void {
  for (const tool of listOf(tools)) {
    const type = stringOf(tool.type);
    const rule = known.get(type) ?? known.get(undated(type));
    if (rule === undefined)
      throw wrong(param, `There is no price here for tools of the type "${cut(type, 64)}".`);
    rule(tool, demand, param, body);
  }
}

function undated(type: string): string {
  return type.replace(/_\d{8}$|_\d{4}_\d{2}_\d{2}$/, '');
}

/**
 * What a request asks of these providers for, who bill each run of a tool, and have one that
 * searches the files of a request whether it is asked for or not.
 */
export function byRun(demand: Demand, body: Body, providers: readonly string[]): Demand {
  const runs = runsOf(countOf(body.max_tool_calls));
  const units = { ...demand.units };
  if (units.containers) units.containers *= runs;
  const param = filesIn(body);
  if (param === undefined) return units.containers ? { ...demand, units } : demand;
  const needs = [...demand.needs, { param, amount: 'per_file_search' as const, providers }];
  return { ...demand, needs, units: { ...units, file_searches: runs } };
}

/** The member of a chat, or of a response, in which files stand; undefined if there are none. */
export function filesIn(body: Body): string | undefined {
  return ['input', 'messages'].find((name) => listOf(body[name]).some(hasFile));
}

function hasFile(item: Body): boolean {
  const parts = [item, ...listOf(item.content), ...listOf(item.output)];
  return parts.some(({ type, file }) => type === 'input_file' || type === 'file' || file != null);
}

function need(demand: Asked, param: string, amount: Amount): void {
  demand.needs.push({ param, amount });
}

/** How often a tool is held for: as often as the request lets it run, else as is expected. */
function runsOf(most: number): number {
  return Math.min(most || SEARCHES_EXPECTED, RUNS_MAX);
}

function nameOf(value: unknown, param: string): string {
  if (typeof value === 'string' && /^[\w.:-]{1,64}$/.test(value)) return value;
  throw wrong(param, `"${param}" must be a name of letters, digits and . _ : -`);
}
