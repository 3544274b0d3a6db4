import { type Body, isObject, listOf, stringOf } from '../../wire/values';
import type { Measured } from '../reader';
import { errorOf, toUsage } from './completion';
import { foreign } from './events';

const finish_reasons = new Map<unknown, string>([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['pause_turn', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
]);

/**
 * A message's answer as a chat completion, with the usage that is charged. `inputs` are the texts
 * of the inputs of its content blocks, by their places.
 */
export function toCompletion(
  message: Body,
  inputs: readonly (string | undefined)[],
  { usage }: Measured,
  created: number,
): Body {
  const blocks = listOf(message.content);
  const content: unknown[] = Array.isArray(message.content) ? message.content : [];
  const tool_calls = content.flatMap((block, at) =>
    isObject(block) && block.type === 'tool_use' ? [toolCall(block, inputs[at])] : [],
  );
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
  // The arguments of calls of which no part has come yet, likewise.
  const awaited = new Map<unknown, string>();
  const chunk = (delta: Body, finish_reason: string | null = null): string => {
    const choice = { index: 0, delta, logprobs: null, finish_reason };
    return JSON.stringify({ ...head, choices: [choice], ...(tells_usage ? { usage: null } : {}) });
  };
  const argument = (place: unknown, text: string): string => {
    awaited.delete(place);
    return chunk({ tool_calls: [{ index: places.get(place), function: { arguments: text } }] });
  };
  const begun = (event: Body, input: () => string | undefined): string[] => {
    const block = isObject(event.content_block) ? event.content_block : {};
    if (block.type !== 'tool_use') return texts(block).map((delta) => chunk(delta));
    places.set(event.index, calls);
    awaited.set(event.index, argumentsOf(input()));
    const named = { name: block.name, arguments: '' };
    const call = { index: calls, id: block.id, type: 'function', function: named };
    calls += 1;
    return [chunk({ tool_calls: [call] })];
  };
  const more = (event: Body): string[] => {
    const delta = isObject(event.delta) ? event.delta : {};
    if (delta.type !== 'input_json_delta' || !places.has(event.index))
      return texts(delta).map((text) => chunk(text));
    const part = stringOf(delta.partial_json);
    return part === '' ? [] : [argument(event.index, part)];
  };
  // A call without a part has all that it has in its begin: its input, or none.
  const complete = (waiting: Iterable<unknown>): string[] =>
    [...waiting].map((place) => argument(place, awaited.get(place) ?? '{}'));
  const over = (delta: unknown): string[] => {
    if (!isObject(delta) || delta.stop_reason == null) return [];
    return [...complete(awaited.keys()), chunk({}, finishOf(delta))];
  };
  const done = (): string[] => {
    const usage = tells_usage && found.usage ? toUsage(found.usage) : undefined;
    const last = usage && JSON.stringify({ ...head, choices: [], usage });
    return [...(last ? [last] : []), '[DONE]'];
  };
  return {
    /** `input` gives the text of the input that stands in the begin of a content block. */
    translate(event: Body, input: () => string | undefined): string[] {
      if (event.type === 'message_start') {
        const { id, model } = isObject(event.message) ? event.message : {};
        head = { id, object: 'chat.completion.chunk', created, model };
        return [chunk({ role: 'assistant', content: '' })];
      }
      if (event.type === 'content_block_start') return begun(event, input);
      if (event.type === 'content_block_delta') return more(event);
      if (event.type === 'content_block_stop' && awaited.has(event.index))
        return complete([event.index]);
      if (event.type === 'message_delta') return over(event.delta);
      if (event.type === 'message_stop') return done();
      if (event.type === 'error') return [JSON.stringify({ error: errorOf(event.error) })];
      return event.type === undefined ? foreign(event) : [];
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

function toolCall({ id, name }: Body, input: string | undefined): Body {
  return { id, type: 'function', function: { name, arguments: argumentsOf(input) } };
}

/** The arguments in the provider's own text, in which numbers of any size keep their digits. */
function argumentsOf(input: string | undefined): string {
  return input === undefined || input === 'null' ? '{}' : input;
}

function finishOf({ stop_reason }: Body): string {
  return finish_reasons.get(stop_reason) ?? 'stop';
}
