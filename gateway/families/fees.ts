import { type Body, countOf, isObject, listOf, stringOf } from '../wire/values';
import type { Runner } from './demand';

// What an answer tells of its bill beside the tokens of its usage: the tier that it was served at,
// and the tools that ran. It is kept apart from the usage, since it counts also if that is lost.

/** A run of a tool that is billed by number; `other` is one that costs nothing. */
export type Run = 'web_search' | 'file_search' | 'picture' | 'other' | InContainer;
/** Code that ran in a container; without a name if the provider tells none. */
interface InContainer {
  container: string;
  by: Runner;
}

/** What was seen of an answer's fees so far. */
export interface Seen {
  /** The runs by the ids of their items, so that one which is told twice counts once. */
  runs: Map<string, Run>;
  /** The names of the runs by what they were told by: an id, or a place in the output. */
  places: Map<string, string>;
  /** The provider's own numbers, if it tells any. */
  web_searches: number | undefined;
  file_searches: number | undefined;
  code_runs: number | undefined;
  /** The tokens of pictures that a tool made; they stand beside the usage. */
  picture_input_tokens: number;
  picture_output_tokens: number | undefined;
  service_tier: string | undefined;
  region: string | undefined;
}

export const nothing_seen: Seen = {
  runs: new Map(),
  places: new Map(),
  web_searches: undefined,
  file_searches: undefined,
  code_runs: undefined,
  picture_input_tokens: 0,
  picture_output_tokens: undefined,
  service_tier: undefined,
  region: undefined,
};

/** Whatever keeps the fees of an answer. */
interface Found {
  seen: Seen;
}

/** A chat's answer, or a chunk of it. */
export function seeChat({ service_tier, usage }: Body, found: Found): void {
  // Most chunks say nothing new.
  if (usage == null && service_tier === found.seen.service_tier) return;
  const { server_tool_use, num_search_queries } = isObject(usage) ? usage : {};
  const runs = runsIn(usage);
  see(found, {
    ...runs,
    service_tier: nameOf(service_tier),
    web_searches:
      largest(found.seen.web_searches, numberOf(num_search_queries)) ??
      numberOf(isObject(server_tool_use) ? server_tool_use.web_search_requests : undefined) ??
      runs.web_searches,
  });
}

/** The runs that a usage object counts by their tools, in xAI's words. */
function runsIn(usage: unknown) {
  const { server_side_tool_usage_details: told } = isObject(usage) ? usage : {};
  if (!isObject(told)) return {};
  // Files that the request attaches are searched by a tool that has a name of its own.
  const [files, attached] = [told.file_search_calls, told.document_search_calls].map(numberOf);
  return {
    web_searches: numberOf(told.web_search_calls),
    file_searches: attached === undefined ? files : attached + (files ?? 0),
    code_runs: numberOf(told.code_interpreter_calls),
  };
}

/** A whole answer of Responses. */
export function seeResponse(answer: Body, found: Found): void {
  for (const [at, item] of listOf(answer.output).entries()) seeItem(item, at, found);
  const { web_search, image_gen } = isObject(answer.tool_usage) ? answer.tool_usage : {};
  const pictures = isObject(image_gen) ? image_gen : {};
  const runs = runsIn(answer.usage);
  see(found, {
    ...runs,
    service_tier: nameOf(answer.service_tier),
    web_searches:
      numberOf(isObject(web_search) ? web_search.num_requests : undefined) ?? runs.web_searches,
    picture_input_tokens: numberOf(pictures.input_tokens),
    picture_output_tokens: numberOf(pictures.output_tokens),
  });
}

type Seeing = (item: Body) => Run;

/** Costs nothing but its tokens, or is the client's own. */
const nothing: Seeing = () => 'other';
const unlessFailed =
  (run: Run): Seeing =>
  ({ status }) =>
    status === 'failed' ? 'other' : run;

/** What each type of an output item of Responses is billed for. */
export const outputItems: ReadonlyMap<string, Seeing> = new Map<string, Seeing>([
  ...allFree('message', 'function_call', 'function_call_output', 'custom_tool_call', 'reasoning'),
  ...allFree('custom_tool_call_output', 'computer_call', 'computer_call_output', 'compaction'),
  ...allFree('tool_search_call', 'tool_search_output', 'additional_tools', 'program'),
  ...allFree('program_output', 'local_shell_call', 'local_shell_call_output', 'apply_patch_call'),
  ...allFree('apply_patch_call_output', 'mcp_call', 'mcp_list_tools', 'mcp_approval_request'),
  ...allFree('mcp_approval_response', 'shell_call_output'),
  // Opening a page, and looking for something in it, is no search.
  [
    'web_search_call',
    (item) => {
      const { type = 'search' } = isObject(item.action) ? item.action : {};
      return type === 'search' ? unlessFailed('web_search')(item) : 'other';
    },
  ],
  ['file_search_call', unlessFailed('file_search')],
  ['image_generation_call', unlessFailed('picture')],
  ['code_interpreter_call', (item) => ({ container: stringOf(item.container_id), by: 'code' })],
  [
    'shell_call',
    ({ environment }) =>
      !isObject(environment) || environment.type === 'local'
        ? 'other'
        : { container: stringOf(environment.container_id), by: 'shell' },
  ],
]);

// All code of an answer runs in one container.
const inContainer: Seeing = () => ({ container: 'of the answer', by: 'code' });

/** What each type of a content block of Messages is billed for. */
export const contentBlocks: ReadonlyMap<string, Seeing> = new Map<string, Seeing>([
  ...allFree('text', 'thinking', 'redacted_thinking', 'tool_use', 'server_tool_use'),
  ...allFree('web_fetch_tool_result', 'advisor_tool_result', 'tool_search_tool_result'),
  ...allFree(
    'mcp_tool_use',
    'mcp_tool_result',
    'mcp_tool_listing',
    'container_upload',
    'compaction',
    'fallback',
  ),
  [
    'web_search_tool_result',
    ({ content }) =>
      isObject(content) && /error$/.test(stringOf(content.type)) ? 'other' : 'web_search',
  ],
  ['code_execution_tool_result', inContainer],
  ['bash_code_execution_tool_result', inContainer],
  ['text_editor_code_execution_tool_result', inContainer],
]);

function allFree(...types: string[]): [string, Seeing][] {
  return types.map((type) => [type, nothing]);
}

const completed_calls = new Map<string, Run>([
  ['response.web_search_call.completed', 'web_search'],
  ['response.file_search_call.completed', 'file_search'],
  ['response.image_generation_call.completed', 'picture'],
]);

/** An event of a stream of Responses: an item that is done, or a call that has run. */
export function seeResponseEvent(event: Body, found: Found): void {
  if (event.type === 'response.output_item.done') {
    if (isObject(event.item)) seeItem(event.item, event.output_index, found);
    return;
  }
  const run = completed_calls.get(stringOf(event.type));
  if (run !== undefined) addRun(found, { id: event.item_id, at: event.output_index }, run);
}

/** A content block of Messages: the result of a tool that the provider ran. */
export function seeBlock(block: Body, found: Found): void {
  const run = contentBlocks.get(stringOf(block.type))?.(block);
  if (run !== undefined && run !== 'other')
    addRun(found, { id: block.tool_use_id ?? `${found.seen.runs.size}` }, run);
}

/** A usage object of Messages; the first one of a stream counts none of what is still to run. */
export function seeMessageUsage(usage: unknown, found: Found): void {
  if (!isObject(usage)) return;
  const { server_tool_use: tools } = usage;
  see(found, {
    service_tier: nameOf(usage.service_tier),
    region: nameOf(usage.inference_geo),
    web_searches: countOf(isObject(tools) ? tools.web_search_requests : undefined) || undefined,
  });
}

/** A whole answer of Messages. */
export function seeMessage(message: Body, found: Found): void {
  for (const block of listOf(message.content)) seeBlock(block, found);
  seeMessageUsage(message.usage, found);
}

/** Takes what is told; what is not told stands. */
function see(found: Found, told: { [name in keyof Seen]?: Seen[name] | undefined }): void {
  const news = Object.entries(told).filter(([, value]) => value !== undefined);
  if (news.length > 0) found.seen = { ...found.seen, ...Object.fromEntries(news) };
}

function seeItem(item: Body, at: unknown, found: Found): void {
  const run = outputItems.get(stringOf(item.type))?.(item);
  if (run !== undefined) addRun(found, { id: item.id, at }, run);
}

function addRun(found: Found, { id, at }: { id: unknown; at?: unknown }, run: Run): void {
  if (found.seen.runs === nothing_seen.runs) {
    if (run === 'other') return;
    found.seen = { ...found.seen, runs: new Map(), places: new Map() };
  }
  const { runs } = found.seen;
  const key = keyOf(found, id, at);
  // What costs nothing counts only where it takes back what was told of the same run.
  if (run === 'other' && !runs.has(key)) return;
  runs.set(key, run);
}

/** The run of an item that was told before, by its id or by its place in the output. */
function keyOf({ seen: { places } }: Found, id: unknown, at: unknown): string {
  const names = [stringOf(id), typeof at === 'number' ? `at ${at}` : ''].filter(Boolean);
  const known = names.map((name) => places.get(name)).find(Boolean);
  const key = known ?? names[0] ?? '';
  for (const name of names) places.set(name, key);
  return key;
}

function largest(before: number | undefined, now: number | undefined): number | undefined {
  return now === undefined ? undefined : Math.max(before ?? 0, now);
}

/** A number that is told, zero included. */
function numberOf(value: unknown): number | undefined {
  return value === 0 || value === '0' ? 0 : countOf(value) || undefined;
}

/** The name of a tier or region, if it can be one. */
function nameOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w.:-]{1,64}$/.test(value)
    ? value.toLowerCase()
    : undefined;
}
