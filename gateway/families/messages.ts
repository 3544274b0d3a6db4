import type { Usage } from '../../domain/ledger/calls';
import { type Body, countOf, isObject, jsonOf, listOf, stringOf } from '../wire/values';
import { seeBlock, seeMessage, seeMessageUsage } from './fees';
import {
  addContent,
  addFile,
  addMessages,
  addPicture,
  addText,
  countedParts,
  type Input,
  newInput,
  type Parts,
  wrong,
} from './input';
import { addDelivered, type Measured, type Reader, type Told } from './reader';
import { nothing_used, withinTotals } from './usage';

// The provider's documented overhead of the instructions that come with tools.
const TOOLS_TOKENS = 346;
// The largest picture it looks at.
const IMAGE_TOKENS = 1_600;

/** The input of a message. */
export function messageInput(body: Body): Input {
  const input = newInput();
  addMessages(input, body.messages, 'messages', parts);
  addContent(input, body.system, parts);
  const tools = listOf(body.tools);
  if (tools.length > 0) input.tokens += TOOLS_TOKENS;
  addText(input, body.tools);
  addText(input, body.output_config);
  addText(input, body.output_format);
  // Tools that the provider runs bring texts that only it sees, as do the servers, the container
  // and the thread that it is pointed to.
  input.unseen += tools.filter(isHosted).length + listOf(body.mcp_servers).length;
  if (body.container != null) input.unseen += 1;
  if (body.thread != null) input.unseen += 1;
  return input;
}

/**
 * Refuses what Messages do not take, and what would be answered by another model, or at another
 * price, than was checked.
 */
export function checkMessage({ response_format, speed, fallbacks, tools }: Body): void {
  if (response_format !== undefined) {
    throw wrong(
      'response_format',
      'Messages do not take "response_format": describe the form in the prompt, or use a tool.',
    );
  }
  if (speed != null && speed !== 'standard') {
    throw wrong('speed', 'There is no price here for another "speed" than "standard".');
  }
  if (fallbacks != null) {
    throw wrong('fallbacks', 'This gateway does not take "fallbacks": name the model in "model".');
  }
  if (listOf(tools).some(({ type, model }) => model != null && type != null && type !== 'custom')) {
    throw wrong('tools', 'There is no price here for tools that ask a model of their own.');
  }
}

function isHosted({ type }: Body): boolean {
  return typeof type === 'string' && /^(web_|code_execution|mcp_)/.test(type);
}

const parts: Parts = countedParts({
  image: {
    source: (input, source) => {
      input.tokens += IMAGE_TOKENS;
      addPicture(input, isObject(source) ? source.data : undefined);
    },
  },
  document: { source: addDocument },
  container_upload: { file_id: (input) => addFile(input, undefined) },
  thinking: { signature: addFile },
  redacted_thinking: { data: addFile },
});

function addDocument(input: Input, source: unknown): void {
  if (!isObject(source)) addText(input, source);
  else if (source.type === 'text') addText(input, source.data);
  else if (source.type === 'content') addContent(input, source.content, parts);
  else addFile(input, source.data);
}

/** How the answers of Messages are read. */
export const messageReader: Reader = {
  readAnswer(answer, found) {
    found.usage = messageUsage(answer.usage);
    found.text = listOf(answer.content).map(blockText).join('');
    seeMessage(answer, found);
    found.has_output = typeof answer.stop_reason === 'string' || listOf(answer.content).length > 0;
  },
  usageOf: messageUsage,
  openStream(found) {
    // Without a prototype, so that no name of a member is one of its.
    const usage: Body = Object.create(null);
    return (event) => {
      readEvent(event, usage, found);
      return false;
    };
  },
};

/**
 * A usage object, whose `input_tokens` leave out the tokens that were read from a cache or written
 * to it; undefined if it says nothing.
 */
function messageUsage(value: unknown): Told | undefined {
  if (!isObject(value)) return undefined;
  const used = { ...nothing_used, cache_write_1h_tokens: 0, cache_write_untold_tokens: 0 };
  addShare(value, used);
  const rounds = listOf(value.iterations);
  const is_told = used.prompt_tokens + used.completion_tokens > 0;
  // The tokens that shortening a conversation took stand beside the other figures, not in them.
  for (const share of rounds) if (!is_told || share.type === 'compaction') addShare(share, used);
  if (used.prompt_tokens + used.completion_tokens === 0) return undefined;
  const details = isObject(value.output_tokens_details) ? value.output_tokens_details : {};
  used.reasoning_tokens = countOf(details.thinking_tokens);
  const shortened = rounds.filter(({ type }) => type === 'compaction');
  return withinTotals({
    ...used,
    rounds: rounds.length - shortened.length,
    uncapped_tokens: shortened.reduce((sum, share) => sum + countOf(share.output_tokens), 0),
  });
}

type Written = 'cache_write_1h_tokens' | 'cache_write_untold_tokens';

function addShare(share: Body, used: Usage & Record<Written, number>): void {
  const split = isObject(share.cache_creation) ? share.cache_creation : {};
  const written_1h = countOf(split.ephemeral_1h_input_tokens);
  const by_life = countOf(split.ephemeral_5m_input_tokens) + written_1h;
  const written = Math.max(countOf(share.cache_creation_input_tokens), by_life);
  const read = countOf(share.cache_read_input_tokens);
  // Some that speak this wire keep the names of the other one.
  const input = countOf(share.input_tokens) || countOf(share.prompt_tokens);
  used.prompt_tokens += input + written + read;
  used.completion_tokens += countOf(share.output_tokens) || countOf(share.completion_tokens);
  used.cached_tokens += read;
  used.cache_write_tokens += written - written_1h;
  used.cache_write_1h_tokens += written_1h;
  used.cache_write_untold_tokens += written - by_life;
}

function readEvent(event: Body, usage: Body, found: Measured): void {
  const { type, delta } = event;
  if (type === 'content_block_delta') {
    if (isObject(delta)) addDelivered(found, deltaText(delta));
  } else if (type === 'content_block_start') {
    const { content_block } = event;
    if (!isObject(content_block)) return;
    addDelivered(found, blockText(content_block));
    seeBlock(content_block, found);
    if (content_block.type !== 'text' && content_block.type !== 'thinking') found.has_output = true;
  } else if (type === 'message_start') {
    found.is_usage_partial = true;
    if (isObject(event.message)) addUsage(event.message.usage, usage, found);
  } else if (type === 'message_delta') {
    addUsage(event.usage, usage, found);
    // Only the event that says why the answer ends gives the whole output.
    if (!isObject(delta) || delta.stop_reason == null) return;
    found.has_output = true;
    if (isObject(event.usage)) found.is_usage_partial = false;
  } else if (type === 'message_stop' || type === 'error') {
    found.is_done = true;
    const late = lateUsage(event);
    addUsage(late, usage, found);
    const is_whole = type === 'message_stop' && isObject(late) && countOf(late.output_tokens) > 0;
    if (is_whole) found.is_usage_partial = false;
  }
}

/** What a seller of the model tells of its usage with the last event alone. */
function lateUsage({ usage, 'amazon-bedrock-invocationMetrics': metrics }: Body): unknown {
  if (!isObject(metrics)) return usage;
  return {
    input_tokens: metrics.inputTokenCount,
    output_tokens: metrics.outputTokenCount,
    cache_read_input_tokens: metrics.cacheReadInputTokenCount,
    cache_creation_input_tokens: metrics.cacheWriteInputTokenCount,
  };
}

/** Figures are totals, never steps, and one that is left out stands: the largest of each counts. */
function addUsage(told: unknown, usage: Body, found: Measured): void {
  if (!isObject(told)) return;
  larger(told, usage);
  found.usage = messageUsage(usage);
  seeMessageUsage(told, found);
}

function larger(told: Body, kept: Body): void {
  for (const [name, value] of Object.entries(told)) {
    if (isObject(value)) {
      const inner: Body = isObject(kept[name]) ? kept[name] : Object.create(null);
      larger(value, inner);
      kept[name] = inner;
    } else if (Array.isArray(value) || countOf(value) > countOf(kept[name])) kept[name] = value;
  }
}

/** The text of a content block: words, thoughts, and calls of tools. */
function blockText({ text, thinking, name, input }: Body): string {
  const call = isObject(input) && Object.keys(input).length > 0 ? jsonOf(input) : '';
  return stringOf(text) + stringOf(thinking) + stringOf(name) + call;
}

function deltaText({ text, thinking, partial_json }: Body): string {
  return stringOf(text) + stringOf(thinking) + stringOf(partial_json);
}
