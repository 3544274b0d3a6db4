import { type Body, countOf, isObject, listOf, stringOf } from '../wire/values';
import { addImage, addSound, soundTokens } from './chat';
import { seeResponse, seeResponseEvent } from './fees';
import {
  addFile,
  addMessages,
  addText,
  countedParts,
  type Input,
  newInput,
  type Parts,
  wrong,
} from './input';
import { addDelivered, type Measured, type Reader } from './reader';
import { openaiUsage } from './usage';

const ANSWER_TOKENS = 3;
const MESSAGE_TOKENS = 4;
const own_tools = new Set(['function', 'custom', 'namespace']);

/** The input of a response. */
export function responseInput(body: Body): Input {
  const input = newInput(ANSWER_TOKENS);
  if (Array.isArray(body.input)) addItems(input, body.input);
  else if (typeof body.input === 'string') {
    input.tokens += MESSAGE_TOKENS;
    addText(input, body.input);
  } else if (body.input != null) {
    throw wrong('input', '"input" must be a text or a list of items.');
  }
  for (const name of ['instructions', 'tools', 'text', 'response_format', 'prompt']) {
    addText(input, body[name]);
  }
  // Only the provider sees the texts that it keeps or fetches.
  for (const name of ['previous_response_id', 'conversation', 'prompt']) {
    if (body[name] != null) input.unseen += 1;
  }
  input.unseen += listOf(body.tools).filter(({ type }) => !own_tools.has(String(type))).length;
  return input;
}

function addItems(input: Input, items: unknown[]): void {
  const isReference = (item: unknown): boolean =>
    isObject(item) &&
    (item.type === 'item_reference' || (item.type == null && item.role === undefined));
  addMessages(input, items, 'input', parts);
  input.unseen += items.filter(isReference).length;
}

const parts: Parts = countedParts({
  input_image: {
    image_url: (input, _, part) => addImage(input, part.detail),
    file_id: (input, _, part) => addImage(input, part.detail),
  },
  computer_screenshot: { image_url: (input) => addImage(input, 'high') },
  input_audio: { input_audio: addSound },
  input_file: {
    file_data: addFile,
    file_id: (input) => addFile(input, undefined),
    file_url: (input) => addFile(input, undefined),
  },
  reasoning: { encrypted_content: addFile },
  compaction: { encrypted_content: addFile },
  image_generation_call: { result: (input) => addImage(input, 'high') },
});

/** Refuses what could not be billed: an answer that comes later, by another call. */
export function checkResponse({ background }: Body): void {
  if (background === undefined || background === null || background === false) return;
  throw wrong('background', 'This gateway does not take "background": ask for a stream instead.');
}

/** How the answers of Responses are read; the event that ends a stream carries the whole answer. */
export const responseReader: Reader = {
  readAnswer: readResponse,
  usageOf: openaiUsage,
  openStream: (found) => (event) => {
    readEvent(event, found);
    return false;
  },
};

// What comes before an answer begins.
const leading = new Set(['response.created', 'response.queued', 'response.in_progress']);
const ends = new Set(['response.completed', 'response.incomplete', 'response.failed']);

function readEvent(event: Body, found: Measured): void {
  const type = stringOf(event.type);
  seeResponseEvent(event, found);
  found.sequence_number = countOf(event.sequence_number);
  if (type.endsWith('.delta')) {
    const delta = stringOf(event.delta);
    if (type === 'response.audio.delta') found.audio_tokens += soundTokens(delta);
    else addDelivered(found, delta);
  } else if (type === 'response.output_item.added') {
    found.has_output = true;
    if (isObject(event.item)) addDelivered(found, stringOf(event.item.name));
  } else if (ends.has(type)) {
    const { text, audio_tokens } = found;
    if (isObject(event.response)) readResponse(event.response, found);
    // All that was delivered on the way counts, even if the last event repeats less.
    if (text !== '') found.text = text;
    if (audio_tokens > 0) found.audio_tokens = audio_tokens;
    found.is_done = true;
  } else if (type === 'error') found.is_done = true;
  else if (type.startsWith('response.') && !leading.has(type)) found.has_output = true;
}

function readResponse(answer: Body, found: Measured): void {
  const output = listOf(answer.output);
  found.usage = openaiUsage(answer.usage);
  seeResponse(answer, found);
  found.text = output.map(itemText).join('');
  if (output.length > 0) found.has_output = true;
}

/** The text of an output item: words, summaries of thoughts, and calls of tools. */
function itemText(item: Body): string {
  const parts_text = [...listOf(item.content), ...listOf(item.summary)]
    .map(({ text, refusal }) => stringOf(text) + stringOf(refusal))
    .join('');
  return parts_text + stringOf(item.name) + stringOf(item.arguments) + stringOf(item.input);
}
