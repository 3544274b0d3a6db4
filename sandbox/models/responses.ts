import { createHash } from 'node:crypto';
import { reasoning_models } from './chat';
import { type Faults, type Frames, figure, namedFrames, withoutFaults } from './faults';
import { count, deltas, firstTokens, plainWords, textOf } from './words';

interface InputItem {
  type?: string;
  role?: string;
  content?: unknown;
  output?: unknown;
  arguments?: string;
}

interface ResponseTool {
  type: string;
  name: string;
  parameters?: { properties?: Record<string, unknown> };
}

export interface ResponseRequest {
  model: string;
  input?: string | InputItem[];
  instructions?: string | null;
  stream?: boolean;
  max_output_tokens?: number | null;
  previous_response_id?: string | null;
  tools?: ResponseTool[];
  tool_choice?: unknown;
  text?: { format?: { type: string } };
}

interface ResponseEvent {
  type: string;
  [field: string]: unknown;
}

type OutputItem = { id: string; type: string; status: string } & Record<string, unknown>;

interface ResponseAnswer {
  id: string;
  output: OutputItem[];
  is_cut: boolean;
  usage: ReturnType<typeof usageOf> | null;
  has_failed: boolean;
}

const REASONING_TOKENS = 64;
const ITEM_TOKENS = 3;
const CREATED = 1_735_689_600;

/** The tokens of the conversations that earlier responses stand for, by their ids. */
export type History = Map<string, number>;

/** The text that a request says, directives included. */
export function saidIn({ input }: ResponseRequest): string {
  if (typeof input === 'string') return input;
  return textOf((input ?? []).findLast(({ role }) => role === 'user')?.content);
}

/** An answer of Responses, which is remembered so that a later request may go on from it. */
export function respond(
  request: ResponseRequest,
  faults: Faults,
  history: History,
): ResponseAnswer {
  const { model, max_output_tokens: cap } = request;
  const digest = createHash('sha256').update(JSON.stringify([model, request.input, history.size]));
  const id = `resp_${digest.digest('hex').slice(0, 24)}`;
  const called = callsOf(request);
  const words = called.length > 0 ? '' : wordsOf(request, faults);
  const text = cap == null || count(words) <= cap ? words : firstTokens(words, cap);
  const output = [...thoughtsOf(model), ...called, ...(text === '' ? [] : [messageOf(text)])];
  const usage = usageOf(request, output, faults, history);
  history.set(id, usage.total_tokens);
  const has_failed = Boolean(faults.fail);
  return {
    id,
    output,
    is_cut: text !== words,
    usage: faults['no-usage'] ? null : usage,
    has_failed,
  };
}

/** The same as JSON. */
export function responseObject({ model }: ResponseRequest, answer: ResponseAnswer) {
  const { id, output, usage, is_cut, has_failed } = answer;
  const head = { id, object: 'response', created_at: CREATED, model };
  if (has_failed) {
    const error = { code: 'server_error', message: 'The model broke.' };
    return { ...head, status: 'failed', error, output: [], usage: null };
  }
  const status = is_cut ? 'incomplete' : 'completed';
  const incomplete_details = is_cut ? { reason: 'max_output_tokens' } : null;
  return { ...head, status, error: null, incomplete_details, output, usage };
}

/** The same as the events of a stream. */
export function responseFrames(
  request: ResponseRequest,
  answer: ResponseAnswer,
  faults: Faults,
): Frames {
  const whole = responseObject(request, answer);
  const begun = { ...whole, status: 'in_progress', error: null, output: [], usage: null };
  const items = answer.has_failed ? [] : answer.output;
  const events = [
    { type: 'response.created', response: begun },
    { type: 'response.in_progress', response: begun },
    ...items.flatMap((item, output_index) => itemEvents(item, output_index, faults)),
    { type: `response.${whole.status}`, response: whole },
  ];
  const numbered = events.map((event, sequence_number) => ({ ...event, sequence_number }));
  const code = 'server_error';
  const error = { type: 'error', code, message: 'The model broke.', param: null };
  return namedFrames(numbered, error);
}

function itemEvents(item: OutputItem, output_index: number, faults: Faults): ResponseEvent[] {
  const place = { output_index, item_id: item.id };
  const done = { type: 'response.output_item.done', output_index, item };
  const added = (started: object) => ({
    type: 'response.output_item.added',
    output_index,
    item: { ...item, status: 'in_progress', ...started },
  });
  if (item.type === 'function_call') {
    const pieces = String(item.arguments).match(/.{1,8}/gsu) ?? [];
    const type = 'response.function_call_arguments';
    const bits = pieces.map((delta) => ({ type: `${type}.delta`, ...place, delta }));
    const whole = { type: `${type}.done`, ...place, name: item.name, arguments: item.arguments };
    return [added({ arguments: '' }), ...bits, whole, done];
  }
  if (item.type === 'reasoning') return [added({}), done];
  const [part] = item.content as { text: string }[];
  const at = { ...place, content_index: 0 };
  const text = part?.text ?? '';
  const bits = deltas(text, faults).map((delta) => ({
    type: 'response.output_text.delta',
    ...at,
    delta,
    logprobs: [],
  }));
  return [
    added({ content: [] }),
    { type: 'response.content_part.added', ...at, part: { ...part, text: '' } },
    ...bits,
    { type: 'response.output_text.done', ...at, text, logprobs: [] },
    { type: 'response.content_part.done', ...at, part },
    done,
  ];
}

function wordsOf(request: ResponseRequest, faults: Faults): string {
  const last = Array.isArray(request.input) ? request.input.at(-1) : undefined;
  if (last?.type === 'function_call_output') return `The tool answered: ${textOf(last.output)}`;
  const is_json = request.text?.format?.type.startsWith('json') === true;
  return plainWords(request.model, withoutFaults(saidIn(request)), faults, is_json);
}

function thoughtsOf(model: string): OutputItem[] {
  if (!reasoning_models.has(model)) return [];
  return [{ id: 'rs_sandbox', type: 'reasoning', status: 'completed', summary: [] }];
}

function messageOf(text: string): OutputItem {
  const content = [{ type: 'output_text', text, annotations: [], logprobs: [] }];
  return { id: 'msg_sandbox', type: 'message', status: 'completed', role: 'assistant', content };
}

/**
 * One call of the first function; one of each if the user says "all". The provider's own tools have
 * run already.
 */
function callsOf(request: ResponseRequest): OutputItem[] {
  const said = withoutFaults(saidIn(request));
  const last = Array.isArray(request.input) ? request.input.at(-1) : undefined;
  if (last?.type === 'function_call_output' || request.tool_choice === 'none') return [];
  const own = (request.tools ?? []).filter(({ type }) => type === 'function');
  return own.slice(0, /\ball\b/i.test(said) ? undefined : 1).map((tool, at) => ({
    id: `fc_sandbox_${at}`,
    type: 'function_call',
    status: 'completed',
    call_id: `call_sandbox_${at}`,
    name: tool.name,
    arguments: JSON.stringify(
      Object.fromEntries(Object.keys(tool.parameters?.properties ?? {}).map((key) => [key, said])),
    ),
  }));
}

/** Real token counts, an earlier response's conversation included. */
function usageOf(request: ResponseRequest, output: OutputItem[], faults: Faults, history: History) {
  const { input, instructions, tools, previous_response_id: earlier } = request;
  const items = typeof input === 'string' ? [{ content: input }] : (input ?? []);
  const spoken = (items as InputItem[]).reduce(
    (sum, { content, output: told, arguments: given }) =>
      sum + ITEM_TOKENS + count(textOf(content) + textOf(told) + (given ?? '')),
    ITEM_TOKENS + count(instructions ?? '') + (tools?.length ? count(JSON.stringify(tools)) : 0),
  );
  const counted = spoken + (earlier ? (history.get(earlier) ?? 0) : 0);
  const input_tokens = figure(faults, 'prompt', counted);
  const thought = reasoning_models.has(request.model) ? REASONING_TOKENS : 0;
  const said = output.map(
    (item) => textOf(item.content) + (item.name ?? '') + (item.arguments ?? ''),
  );
  const output_tokens = figure(faults, 'completion', count(said.join('')) + thought);
  const cached = counted >= 1_024 ? Math.floor((counted - 1) / 128) * 128 : 0;
  return {
    input_tokens,
    input_tokens_details: {
      cached_tokens: figure(faults, 'cached', cached),
      cache_write_tokens: figure(faults, 'write', 0),
    },
    output_tokens,
    output_tokens_details: { reasoning_tokens: figure(faults, 'reasoning', thought) },
    total_tokens: input_tokens + output_tokens,
  };
}
