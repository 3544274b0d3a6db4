import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  answeredByFault,
  type Faults,
  type Frames,
  faultsOf,
  figure,
  namedFrames,
  sendFrames,
  sendJson,
  withoutFaults,
} from './faults';
import {
  isRefused,
  type MessageRequest,
  type MessageTool,
  promptTokens,
  refuseMessage,
} from './message-requests';
import { count, deltas, firstTokens, plainWords, textOf } from './words';

type Content =
  | { type: 'text'; text: string }
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'tool_use'; id: string; name: string; input: Record<string, unknown> };

interface MessageAnswer {
  content: Content[];
  stop_reason: 'end_turn' | 'max_tokens' | 'tool_use';
}

/** POST /v1/messages, on Anthropic's wire. `cache` holds the prompts that clients had cached. */
export async function answerMessage(given: {
  req: IncomingMessage;
  res: ServerResponse;
  body: unknown;
  cache: Set<string>;
  onFrame: () => void;
}): Promise<void> {
  const { req, res, cache } = given;
  if (isRefused(req, res, given.body)) return;
  const body = given.body as MessageRequest;
  if (!Number.isInteger(body.max_tokens)) {
    return refuseMessage(res, 400, 'max_tokens: Field required');
  }
  const said = textOf(body.messages.findLast(({ role }) => role === 'user')?.content);
  const faults = faultsOf(req.headers['x-sandbox-fault'] as string | undefined, said);
  if (answeredByFault(res, faults, refuseMessage)) return;
  const answer = answerTo(body, withoutFaults(said), faults);
  const usage = faults['no-usage'] ? undefined : usageOf(body, answer, faults, cache);
  if (!body.stream) return sendJson(res, message(body, answer, usage), faults);
  await sendFrames(res, messageFrames(body, answer, usage, faults), faults, given.onFrame);
}

function message(request: MessageRequest, answer: MessageAnswer, usage: object | undefined) {
  const { content, stop_reason } = answer;
  return { ...head(request), content, stop_reason, stop_sequence: null, ...(usage && { usage }) };
}

function messageFrames(
  request: MessageRequest,
  answer: MessageAnswer,
  usage: ReturnType<typeof usageOf> | undefined,
  faults: Faults,
): Frames {
  const begun = usage && { usage: { ...usage, output_tokens: 1, output_tokens_details: null } };
  const events: { type: string }[] = [
    event('message_start', {
      message: { ...head(request), content: [], stop_reason: null, stop_sequence: null, ...begun },
    }),
    event('ping', {}),
  ];
  for (const [index, block] of answer.content.entries()) {
    events.push(event('content_block_start', { index, content_block: emptied(block) }));
    for (const delta of deltasOf(block, faults)) {
      events.push(event('content_block_delta', { index, delta }));
    }
    events.push(event('content_block_stop', { index }));
  }
  const { cache_creation: _, service_tier: __, ...totals } = usage ?? {};
  // Of the input it says nothing that the first event has not said.
  const told = { input_tokens: null, cache_creation_input_tokens: null };
  const last = { ...totals, ...told };
  const delta = { stop_reason: answer.stop_reason, stop_sequence: null };
  events.push(event('message_delta', { delta, ...(usage && { usage: last }) }));
  events.push(event('message_stop', {}));
  const error = { type: 'api_error', message: 'The model broke.' };
  return namedFrames(events, event('error', { error }));
}

function event(type: string, fields: object): { type: string } {
  return { type, ...fields };
}

function head(request: MessageRequest) {
  const digest = createHash('sha256').update(JSON.stringify(request.messages)).digest('hex');
  const id = `msg_${digest.slice(0, 24)}`;
  return { id, type: 'message', role: 'assistant', model: request.model };
}

function answerTo(request: MessageRequest, said: string, faults: Faults): MessageAnswer {
  const thoughts: Content[] =
    request.thinking?.type === 'enabled'
      ? [{ type: 'thinking', thinking: `They said: ${said}`, signature: 'c2FuZGJveA==' }]
      : [];
  const last = request.messages.at(-1)?.content;
  const result = Array.isArray(last) ? last.find(({ type }) => type === 'tool_result') : undefined;
  if (request.tools?.length && request.tool_choice?.type !== 'none' && result === undefined) {
    const calls = toolUses(request.tools, said);
    return { content: [...thoughts, ...calls], stop_reason: 'tool_use' };
  }
  const words = result
    ? `The tool answered: ${textOf(result.content)}`
    : plainWords(request.model, said, faults);
  const text = count(words) <= request.max_tokens ? words : firstTokens(words, request.max_tokens);
  const stop_reason = text === words ? 'end_turn' : 'max_tokens';
  return { content: text === '' ? [] : [...thoughts, { type: 'text', text }], stop_reason };
}

/** One call of the first tool; one of each if the user says "all". */
function toolUses(tools: readonly MessageTool[], said: string): Content[] {
  const called = tools.slice(0, /\ball\b/i.test(said) ? undefined : 1);
  return called.map(({ name, input_schema }, index) => ({
    type: 'tool_use',
    id: `toolu_sandbox_${index}`,
    name,
    input: Object.fromEntries(
      Object.keys(input_schema?.properties ?? {}).map((key) => [key, said]),
    ),
  }));
}

function emptied(block: Content): object {
  if (block.type === 'text') return { ...block, text: '' };
  if (block.type === 'thinking') return { ...block, thinking: '', signature: '' };
  return { ...block, input: {} };
}

function deltasOf(block: Content, faults: Faults): object[] {
  if (block.type === 'text') {
    return deltas(block.text, faults).map((text) => ({ type: 'text_delta', text }));
  }
  if (block.type === 'thinking') {
    const thoughts = deltas(block.thinking, faults);
    const signed = { type: 'signature_delta', signature: block.signature };
    return [...thoughts.map((thinking) => ({ type: 'thinking_delta', thinking })), signed];
  }
  const pieces = JSON.stringify(block.input).match(/.{1,8}/gsu) ?? [];
  return pieces.map((partial_json) => ({ type: 'input_json_delta', partial_json }));
}

/**
 * Real token counts. A system prompt that is to be cached is written once, and read from then on.
 */
function usageOf(
  request: MessageRequest,
  { content }: MessageAnswer,
  faults: Faults,
  cache: Set<string>,
) {
  const { system } = request;
  const marked = Array.isArray(system) && system.findLast((block) => block.cache_control);
  const cached = marked ? count(textOf(system)) : 0;
  const is_hit = marked ? known(cache, textOf(system)) : false;
  const is_1h = marked ? marked.cache_control?.ttl === '1h' : false;
  const spoken = promptTokens(request) - cached;
  const write_1h = figure(faults, 'write1h', !is_hit && is_1h ? cached : 0);
  const write_5m = figure(faults, 'write', is_hit || is_1h ? 0 : cached);
  const thought = count(
    content.map((block) => ('thinking' in block ? block.thinking : '')).join(''),
  );
  const thinking_tokens = figure(faults, 'reasoning', thought);
  return {
    input_tokens: figure(faults, 'prompt', spoken),
    cache_creation_input_tokens: write_5m + write_1h,
    cache_read_input_tokens: figure(faults, 'cached', is_hit ? cached : 0),
    cache_creation: { ephemeral_5m_input_tokens: write_5m, ephemeral_1h_input_tokens: write_1h },
    output_tokens: figure(faults, 'completion', thought + saidIn(content)),
    output_tokens_details: { thinking_tokens },
    server_tool_use: {
      web_search_requests: figure(faults, 'searches', 0),
      web_fetch_requests: 0,
    },
    service_tier: 'standard',
    ...compacted(faults),
  };
}

/**
 * The tokens that it took to compact a conversation, if a fault asks for it; they are in no other
 * figure.
 */
function compacted(faults: Faults): object {
  const input_tokens = figure(faults, 'compaction', 0);
  if (input_tokens === 0) return {};
  const share = { type: 'compaction', input_tokens, output_tokens: input_tokens / 10 };
  return { iterations: [{ type: 'message' }, share] };
}

function known(cache: Set<string>, text: string): boolean {
  const digest = createHash('sha256').update(text).digest('base64');
  if (cache.has(digest)) return true;
  cache.add(digest);
  return false;
}

function saidIn(content: readonly Content[]): number {
  return content.reduce((sum, block) => {
    if (block.type === 'text') return sum + count(block.text);
    return block.type === 'tool_use' ? sum + count(block.name + JSON.stringify(block.input)) : sum;
  }, 0);
}
