import { randomUUID } from 'node:crypto';
import { printExact } from '../../wire/exact';
import { type Body, countOf, isObject, listOf, stringOf } from '../../wire/values';
import type { Told } from '../reader';
import type { Translation, Translator } from '../translation';
import { withinTotals } from '../usage';
import { errorOf, now, readObject, tellUsage, toUsage, translateWhole } from './completion';
import { toConverse } from './converse-request';
import { foreign, translateEvents } from './events';

/** Chat completions spoken to Bedrock's Converse, which serves every model that is sold there. */
export const chatOverConverse: Translation = {
  upstream_path: '/model',
  request: (request, model) => printExact(toConverse(request, model)),
  open: (is_stream, { model }) => (is_stream ? streamed(model) : whole(model)),
};

const finish_reasons = new Map<unknown, string>([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['guardrail_intervened', 'content_filter'],
  ['content_filtered', 'content_filter'],
]);
// What these words say is no more than the chat's own.
const plain = new Set<unknown>(['end_turn', 'stop_sequence', 'max_tokens', 'tool_use']);

function finishOf(reason: unknown): Body {
  const finish_reason = finish_reasons.get(reason) ?? 'stop';
  return plain.has(reason) ? { finish_reason } : { finish_reason, native_finish_reason: reason };
}

/** What was read from a cache, and written to it, stands beside the other input. */
export function converseUsage(told: unknown): Told | undefined {
  if (!isObject(told)) return undefined;
  const cached_tokens = countOf(told.cacheReadInputTokens);
  const completion_tokens = countOf(told.outputTokens);
  const by_life = listOf(told.cacheDetails);
  const hour = by_life.filter(({ ttl }) => ttl === '1h').map(({ inputTokens }) => inputTokens);
  const named = by_life.reduce((sum, { inputTokens }) => sum + countOf(inputTokens), 0);
  const written = Math.max(countOf(told.cacheWriteInputTokens), named);
  const cache_write_1h_tokens = Math.min(
    hour.reduce<number>((sum, count) => sum + countOf(count), 0),
    written,
  );
  const prompt_tokens = countOf(told.inputTokens) + cached_tokens + written;
  if (prompt_tokens + completion_tokens === 0) return undefined;
  return withinTotals({
    prompt_tokens,
    completion_tokens,
    cached_tokens,
    cache_write_tokens: written - cache_write_1h_tokens,
    cache_write_1h_tokens,
    cache_write_untold_tokens: written - named,
    reasoning_tokens: 0,
    audio_input_tokens: 0,
    audio_output_tokens: 0,
  });
}

function tierIn({ serviceTier }: Body): Body {
  const type = isObject(serviceTier) ? stringOf(serviceTier.type) : '';
  return type === '' ? {} : { service_tier: type };
}

function thoughtIn({ reasoningContent }: Body): string {
  if (!isObject(reasoningContent)) return '';
  const { reasoningText, text } = reasoningContent;
  return stringOf(isObject(reasoningText) ? reasoningText.text : text);
}

function newHead(model: string, object: string): Body {
  return { id: `chatcmpl-${randomUUID()}`, object, created: now(), model };
}

function whole(model: string): Translator {
  let usage: Told | undefined;
  const translate = (bytes: Buffer) => {
    const answer = readObject(bytes.toString('utf8'));
    const said = isObject(answer?.output) ? answer.output.message : undefined;
    const told = converseUsage(answer?.usage);
    const is_said = isObject(said) && answer?.stopReason != null;
    // What tells its usage is charged, so it is an answer, if an empty one.
    if (answer === undefined || (!is_said && told === undefined)) return bytes;
    usage = told;
    const message = isObject(said) ? said : {};
    const completion = {
      ...newHead(model, 'chat.completion'),
      choices: [
        { index: 0, ...messageOf(message), logprobs: null, ...finishOf(answer.stopReason) },
      ],
      ...(usage === undefined ? {} : { usage: toUsage(usage) }),
      ...tierIn(answer),
    };
    return Buffer.from(printExact(completion));
  };
  return translateWhole(translate, (measured) => tellUsage(measured, usage, false));
}

function messageOf({ content }: Body): { message: Body } {
  const blocks = listOf(content);
  const said = blocks.map(({ text }) => stringOf(text)).join('');
  const thoughts = blocks.map(thoughtIn).join('');
  const tool_calls = blocks.flatMap(({ toolUse }) =>
    isObject(toolUse) ? [toolCall(toolUse)] : [],
  );
  const message = {
    role: 'assistant',
    content: said === '' && tool_calls.length > 0 ? null : said,
    refusal: null,
    ...(thoughts === '' ? {} : { reasoning_content: thoughts }),
    ...(tool_calls.length > 0 ? { tool_calls } : {}),
  };
  return { message };
}

function toolCall({ toolUseId, name, input }: Body): Body {
  const text = isObject(input) ? printExact(input) : '{}';
  return { id: toolUseId, type: 'function', function: { name, arguments: text } };
}

/** The events of a stream as chunks of a chat's. */
class Chunks {
  usage: Told | undefined;
  private has_ended = false;
  private is_over = false;
  private readonly head: Body;
  private tier: Body = {};
  private calls = 0;
  // By the place of a content block, that of its call; and the calls of which no part has come.
  private readonly places = new Map<unknown, number>();
  private readonly awaited = new Set<unknown>();

  constructor(model: string) {
    this.head = newHead(model, 'chat.completion.chunk');
  }

  /** The `data` texts of one event. */
  translate(name: string | undefined, event: Body): string[] {
    if (name === 'messageStart') return [this.chunk({ role: 'assistant', content: '' })];
    if (name === 'contentBlockStart') return this.begun(event);
    if (name === 'contentBlockDelta') return this.more(event);
    if (name === 'contentBlockStop') return this.complete([event.contentBlockIndex]);
    if (name === 'messageStop') {
      this.has_ended = true;
      const rest = this.complete([...this.awaited]);
      return [...rest, this.chunk({}, finishOf(event.stopReason))];
    }
    if (name === 'metadata') {
      this.usage = converseUsage(event.usage) ?? this.usage;
      this.tier = tierIn(event);
      // Its last event: a connection that breaks behind it takes nothing away.
      return this.end();
    }
    return name === 'error' ? [JSON.stringify({ error: errorOf(event.error) })] : foreign(event);
  }

  end(): string[] {
    if (!this.has_ended || this.is_over) return [];
    this.is_over = true;
    const { usage } = this;
    const last = usage && this.text({ choices: [], usage: toUsage(usage) });
    return [...(last ? [last] : []), '[DONE]'];
  }

  private begun({ contentBlockIndex: at, start }: Body): string[] {
    const { toolUse } = isObject(start) ? start : {};
    if (!isObject(toolUse)) return [];
    const index = this.calls;
    this.calls += 1;
    this.places.set(at, index);
    this.awaited.add(at);
    const named = { name: toolUse.name, arguments: '' };
    const call = { index, id: toolUse.toolUseId, type: 'function', function: named };
    return [this.chunk({ tool_calls: [call] })];
  }

  private more({ contentBlockIndex: at, delta }: Body): string[] {
    const given = isObject(delta) ? delta : {};
    const text = stringOf(given.text);
    if (text !== '') return [this.chunk({ content: text })];
    const thought = thoughtIn(given);
    if (thought !== '') return [this.chunk({ reasoning_content: thought })];
    const input = stringOf(isObject(given.toolUse) ? given.toolUse.input : undefined);
    return input === '' || !this.places.has(at) ? [] : [this.argument(at, input)];
  }

  /** A call without a part has no arguments. */
  private complete(places: readonly unknown[]): string[] {
    return places.filter((at) => this.awaited.has(at)).map((at) => this.argument(at, '{}'));
  }

  private argument(at: unknown, text: string): string {
    this.awaited.delete(at);
    return this.chunk({
      tool_calls: [{ index: this.places.get(at), function: { arguments: text } }],
    });
  }

  private chunk(delta: Body, end: Body = { finish_reason: null }): string {
    return this.text({ choices: [{ index: 0, delta, logprobs: null, ...end }], usage: null });
  }

  private text(more: Body): string {
    return JSON.stringify({ ...this.head, ...this.tier, ...more });
  }
}

function streamed(model: string): Translator {
  const chunks = new Chunks(model);
  return translateEvents({
    translate: (event, { event: name }) => chunks.translate(name, event),
    end: (is_broken) => (is_broken ? [] : chunks.end()),
    tell: (measured) => tellUsage(measured, chunks.usage, false),
  });
}
