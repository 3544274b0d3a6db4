import type { Usage } from '../../../domain/ledger/calls';
import { type Body, isObject, listOf, stringOf } from '../../wire/values';
import type { Measured } from '../reader';

const finish_reasons: Record<string, string> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
};

/** A message's answer as a chat completion, with the usage that is charged. */
export function toCompletion(message: Body, { usage }: Measured, created: number): Body {
  const blocks = listOf(message.content);
  const tool_calls = blocks.filter(({ type }) => type === 'tool_use').map(toolCall);
  const thoughts = textOf(blocks, 'thinking');
  const said = textOf(blocks, 'text');
  const answer = {
    role: 'assistant',
    content: said === '' && tool_calls.length > 0 ? null : said,
    refusal: null,
    ...(thoughts === '' ? {} : { reasoning_content: thoughts }),
    ...(tool_calls.length > 0 ? { tool_calls } : {}),
  };
  const choice = { index: 0, message: answer, logprobs: null, finish_reason: finishOf(message) };
  return {
    id: message.id,
    object: 'chat.completion',
    created,
    model: message.model,
    choices: [choice],
    ...(usage === undefined ? {} : { usage: toUsage(usage) }),
  };
}

/**
 * Translates the events of a message's stream into the `data` texts of a chat's, one event at a
 * time. `found` is what the meter has read of the stream so far; `tells_usage` gives the usage to
 * the client in a chunk of its own.
 */
export function createTranslator(
  found: Measured,
  { created, tells_usage }: { created: number; tells_usage: boolean },
) {
  let head: Body = {};
  let calls = 0;
  // By the place of a content block, that of its call.
  const places = new Map<unknown, number>();
  const chunk = (delta: Body, finish_reason: string | null = null): string => {
    const choice = { index: 0, delta, logprobs: null, finish_reason };
    return JSON.stringify({ ...head, choices: [choice], ...(tells_usage ? { usage: null } : {}) });
  };
  const begun = (event: Body): string[] => {
    const block = isObject(event.content_block) ? event.content_block : {};
    if (block.type !== 'tool_use') return texts(block).map((delta) => chunk(delta));
    places.set(event.index, calls);
    const named = { name: block.name, arguments: '' };
    const call = { index: calls, id: block.id, type: 'function', function: named };
    calls += 1;
    return [chunk({ tool_calls: [call] })];
  };
  const more = (event: Body): string[] => {
    const delta = isObject(event.delta) ? event.delta : {};
    const index = places.get(event.index);
    if (delta.type !== 'input_json_delta' || index === undefined)
      return texts(delta).map((text) => chunk(text));
    const called = { index, function: { arguments: stringOf(delta.partial_json) } };
    return [chunk({ tool_calls: [called] })];
  };
  const done = (): string[] => {
    const usage = tells_usage && found.usage ? toUsage(found.usage) : undefined;
    const last = usage && JSON.stringify({ ...head, choices: [], usage });
    return [...(last ? [last] : []), '[DONE]'];
  };
  return {
    translate(event: Body): string[] {
      if (event.type === 'message_start') {
        const { id, model } = isObject(event.message) ? event.message : {};
        head = { id, object: 'chat.completion.chunk', created, model };
        return [chunk({ role: 'assistant', content: '' })];
      }
      if (event.type === 'content_block_start') return begun(event);
      if (event.type === 'content_block_delta') return more(event);
      if (event.type === 'message_delta') {
        const ended = isObject(event.delta) && event.delta.stop_reason != null;
        return ended ? [chunk({}, finishOf(event.delta as Body))] : [];
      }
      if (event.type === 'message_stop') return done();
      if (event.type === 'error') return [JSON.stringify({ error: errorOf(event.error) })];
      return [];
    },
  };
}

/** The text of a block or of its change, words or thoughts. */
function texts({ text, thinking }: Body): Body[] {
  const said = stringOf(text);
  const thought = stringOf(thinking);
  return [
    ...(said === '' ? [] : [{ content: said }]),
    ...(thought === '' ? [] : [{ reasoning_content: thought }]),
  ];
}

function textOf(blocks: Body[], kind: 'text' | 'thinking'): string {
  return blocks
    .filter(({ type }) => type === kind)
    .map((block) => stringOf(block[kind]))
    .join('');
}

function toolCall({ id, name, input }: Body): Body {
  return { id, type: 'function', function: { name, arguments: JSON.stringify(input ?? {}) } };
}

function finishOf({ stop_reason }: Body): string {
  return finish_reasons[stringOf(stop_reason)] ?? 'stop';
}

function errorOf(error: unknown): Body {
  const { type = 'api_error', message = '' } = isObject(error) ? error : {};
  return { message, type, param: null, code: type };
}

function toUsage(usage: Usage): Body {
  const { prompt_tokens, completion_tokens, cached_tokens } = usage;
  const written = usage.cache_write_tokens + (usage.cache_write_1h_tokens ?? 0);
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: {
      cached_tokens,
      cache_write_tokens: written,
      // That wire has no such figure; these tokens have a price of their own, so readers of the
      // usage need it.
      ...(usage.cache_write_1h_tokens && { cache_write_1h_tokens: usage.cache_write_1h_tokens }),
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
  };
}
