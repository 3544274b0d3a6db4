import { createHash } from 'node:crypto';
import { type Faults, figure, withoutFaults } from './faults';
import { count, deltas, firstTokens, plainWords, textOf } from './words';

/** The models that the sandbox serves; the seed prices the same names. */
export const models = [
  'gpt-4o-mini',
  'gpt-4o',
  'o4-mini',
  'text-embedding-3-small',
  'omni-moderation-latest',
  'gpt-4o-mini-tts',
  'whisper-1',
  'gpt-4o-mini-transcribe',
] as const;
/** The models that it serves on Anthropic's wire. */
export const message_models = ['claude-sonnet-4-5'] as const;

export const reasoning_models = new Set(['o4-mini']);
const REASONING_TOKENS = 64;
const CREATED = 1_735_689_600;

interface ChatMessage {
  role: string;
  content?: string | { type: string; text?: string }[] | null;
}

interface ChatTool {
  function: { name: string; parameters?: { properties?: Record<string, { type?: string }> } };
}

export interface ChatRequest {
  model: string;
  messages: ChatMessage[];
  stream?: boolean;
  stream_options?: { include_usage?: boolean } | null;
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  n?: number | null;
  tools?: ChatTool[];
  tool_choice?: unknown;
  parallel_tool_calls?: boolean;
  response_format?: { type: string };
}

export interface EmbeddingRequest {
  model: string;
  input: string | string[] | number[] | number[][];
  encoding_format?: 'float' | 'base64';
  dimensions?: number;
}

interface ToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

interface Completion {
  text: string;
  tool_calls: ToolCall[];
  finish_reason: 'stop' | 'length' | 'tool_calls';
}

/** Text of the last message of a role, parts joined. */
export function lastText(messages: ChatMessage[], role = 'user'): string {
  const message = messages.findLast((entry) => entry.role === role);
  return textOf(message?.content);
}

/** A chat completion as JSON. */
export function chatCompletion(request: ChatRequest, faults: Faults): Record<string, unknown> {
  const answer = answerTo(request, faults);
  const choices = Array.from({ length: request.n ?? 1 }, (_, index) => ({
    index,
    message: {
      role: 'assistant',
      content: answer.tool_calls.length > 0 ? null : answer.text,
      refusal: null,
      ...(answer.tool_calls.length > 0 ? { tool_calls: answer.tool_calls } : {}),
    },
    logprobs: null,
    finish_reason: answer.finish_reason,
  }));
  const usage = faults['no-usage'] ? {} : { usage: usageOf(request, answer, faults) };
  return { ...head(request, 'chat.completion'), choices, ...usage };
}

/** The same answer as the `data` texts of a stream, [DONE] included. */
export function chatFrames(request: ChatRequest, faults: Faults): string[] {
  const answer = answerTo(request, faults);
  const asked = request.stream_options?.include_usage === true && !faults['no-usage'];
  const usage = usageOf(request, answer, faults);
  const on_last = Boolean(faults['usage-last']);
  const base = head(request, 'chat.completion.chunk');
  const withUsage = asked && !on_last ? { ...base, usage: null } : base;
  const chunks: Record<string, unknown>[] = [];
  for (let index = 0; index < (request.n ?? 1); index += 1) {
    const deltas = [{ role: 'assistant', content: '' }, ...deltasOf(answer, faults)];
    for (const [said_so_far, delta] of deltas.entries()) {
      chunks.push({
        ...(faults['usage-each'] ? { ...base, usage: usageSoFar(usage, said_so_far) } : withUsage),
        choices: [{ index, delta, logprobs: null, finish_reason: null }],
      });
    }
    const { finish_reason } = answer;
    chunks.push({ ...withUsage, choices: [{ index, delta: {}, logprobs: null, finish_reason }] });
  }
  if (on_last && chunks.length > 0) chunks.push({ ...chunks.pop(), usage });
  else if (asked) chunks.push({ ...base, choices: [], usage });
  return [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'];
}

/** Unit vectors that depend on the text alone. */
export function embeddings(request: EmbeddingRequest, faults: Faults): Record<string, unknown> {
  const inputs = inputsOf(request.input);
  const size = request.dimensions ?? 1_536;
  const data = inputs.map((input, index) => {
    const vector = vectorOf(input, size);
    const base64 = request.encoding_format === 'base64';
    const embedding = base64 ? Buffer.from(vector.buffer).toString('base64') : [...vector];
    return { object: 'embedding', index, embedding };
  });
  const counted = inputs.reduce((sum, input) => sum + count(input), 0);
  const prompt_tokens = figure(faults, 'prompt', counted);
  const usage = faults['no-usage'] ? {} : { usage: { prompt_tokens, total_tokens: prompt_tokens } };
  return { object: 'list', data, model: request.model, ...usage };
}

/** The text of an embedding's input, for directives. */
export function inputText(input: EmbeddingRequest['input']): string {
  return inputsOf(input)
    .map((entry) => (typeof entry === 'string' ? entry : ''))
    .join(' ');
}

/** A model object of GET /v1/models. */
export function modelObject(id: string): Record<string, unknown> {
  return { id, object: 'model', created: CREATED, owned_by: 'sandbox' };
}

function inputsOf(input: EmbeddingRequest['input']): (string | number[])[] {
  if (typeof input === 'string') return [input];
  return typeof input[0] === 'number' ? [input as number[]] : (input as string[] | number[][]);
}

function vectorOf(input: string | number[], size: number): Float32Array {
  const seed = createHash('sha256').update(JSON.stringify(input)).digest();
  const raw = Float32Array.from({ length: size }, (_, at) => (seed[at % seed.length] ?? 0) - 127.5);
  const length = Math.hypot(...raw);
  return raw.map((value) => value / length);
}

function head(request: ChatRequest, object: string): Record<string, unknown> {
  const digest = createHash('sha256').update(JSON.stringify(request.messages)).digest('hex');
  const id = `chatcmpl-${digest.slice(0, 24)}`;
  return { id, object, created: CREATED, model: request.model, system_fingerprint: 'fp_sandbox' };
}

function answerTo(request: ChatRequest, faults: Faults): Completion {
  const said = withoutFaults(lastText(request.messages));
  const last = request.messages.at(-1);
  if (last?.role !== 'tool' && request.tools?.length && request.tool_choice !== 'none') {
    return { text: '', tool_calls: toolCalls(request, said), finish_reason: 'tool_calls' };
  }
  const text = wordsOf(request, said, faults);
  const cap = request.max_completion_tokens ?? request.max_tokens;
  if (cap == null || count(text) <= cap) return { text, tool_calls: [], finish_reason: 'stop' };
  return { text: firstTokens(text, cap), tool_calls: [], finish_reason: 'length' };
}

function wordsOf(request: ChatRequest, said: string, faults: Faults): string {
  const last = request.messages.at(-1);
  if (last?.role === 'tool') return `The tool answered: ${textOf(last.content)}`;
  const is_json = request.response_format?.type.startsWith('json') === true;
  return plainWords(request.model, said, faults, is_json);
}

/**
 * One call of the first tool; one of each if the user says "all" and parallel calls are not
 * forbidden.
 */
function toolCalls(request: ChatRequest, said: string): ToolCall[] {
  const all = /\ball\b/i.test(said) && request.parallel_tool_calls !== false;
  const tools = (request.tools ?? []).slice(0, all ? undefined : 1);
  return tools.map((tool, index) => ({
    id: `call_sandbox_${index}`,
    type: 'function',
    function: { name: tool.function.name, arguments: JSON.stringify(argumentsOf(tool, said)) },
  }));
}

function argumentsOf(tool: ChatTool, said: string): Record<string, unknown> {
  const samples: Record<string, unknown> = { number: 1, integer: 1, boolean: true, array: [] };
  const properties = Object.entries(tool.function.parameters?.properties ?? {});
  return Object.fromEntries(
    properties.map(([name, schema]) => [name, samples[schema.type ?? 'string'] ?? said]),
  );
}

function deltasOf(answer: Completion, faults: Faults): Record<string, unknown>[] {
  if (answer.tool_calls.length > 0) return toolDeltas(answer.tool_calls);
  return deltas(answer.text, faults).map((content) => ({ content }));
}

/** Parallel calls arrive interleaved, as real providers send them. */
function toolDeltas(calls: ToolCall[]): Record<string, unknown>[] {
  const heads = calls.map((call, index) => ({
    tool_calls: [
      { index, id: call.id, type: 'function', function: { ...call.function, arguments: '' } },
    ],
  }));
  const pieces = calls.map((call) => call.function.arguments.match(/.{1,8}/gsu) ?? []);
  const longest = Math.max(...pieces.map((list) => list.length));
  const bodies = Array.from({ length: longest }, (_, at) =>
    pieces.flatMap((list, index) =>
      list[at] === undefined
        ? []
        : [{ tool_calls: [{ index, function: { arguments: list[at] } }] }],
    ),
  );
  return [...heads, ...bodies.flat()];
}

function usageOf(request: ChatRequest, answer: Completion, faults: Faults) {
  const counted = promptTokens(request);
  const prompt_tokens = figure(faults, 'prompt', counted);
  const cached = counted >= 1_024 ? Math.floor((counted - 1) / 128) * 128 : 0;
  const thought = reasoning_models.has(request.model) ? REASONING_TOKENS : 0;
  const reasoning_tokens = figure(faults, 'reasoning', thought);
  const completion_tokens = figure(
    faults,
    'completion',
    faults.completion ? 0 : said(answer) * (request.n ?? 1) + reasoning_tokens,
  );
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: figure(faults, 'cached', cached), audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

function usageSoFar({ prompt_tokens }: { prompt_tokens: number }, completion_tokens: number) {
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function said({ text, tool_calls }: Completion): number {
  return count(text) + count(tool_calls.map((call) => JSON.stringify(call.function)).join(''));
}

/** Three tokens a message and three for the answer's start, as the provider documents. */
function promptTokens({ messages, tools }: ChatRequest): number {
  const spoken = messages.reduce(
    (sum, message) => sum + 3 + count(message.role) + count(textOf(message.content)),
    3,
  );
  return spoken + (tools?.length ? count(JSON.stringify(tools)) : 0);
}
