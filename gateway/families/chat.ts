import { isBinary } from '../policy/literals';
import { type Body, isObject, listOf, stringOf } from '../wire/values';
import { seeChat } from './fees';
import {
  addFile,
  addMessages,
  addPicture,
  addText,
  countedParts,
  type Input,
  newInput,
  type Parts,
} from './input';
import { addDelivered, type Reader, type Told } from './reader';
import { largerOf, openaiUsage } from './usage';

// The provider's documented overhead of the answer's start.
const ANSWER_TOKENS = 3;
// A picture in low detail, and one of usual size in high detail.
const IMAGE_LOW_TOKENS = 85;
const IMAGE_TOKENS = 1_105;
// Base64 characters a token of spoken sound takes; settling corrects it.
const AUDIO_CHARACTERS_PER_TOKEN = 2_000;

/** The input of a chat completion. */
export function chatInput(body: Body): Input {
  const input = newInput(ANSWER_TOKENS);
  addMessages(input, body.messages, 'messages', messageParts);
  const searches = listOf(body.tools).some(({ type }) => /^web_search/.test(stringOf(type)));
  if (body.web_search_options != null || searches) input.has_foreign = true;
  for (const name of ['tools', 'functions', 'response_format', 'prediction']) {
    addText(input, body[name]);
  }
  // What the model has spoken before, which only the provider has.
  input.unseen += listOf(body.messages).filter(({ audio }) => isObject(audio)).length;
  if (namesCache(body)) input.unseen += 1;
  return input;
}

/** True if it goes on from a cache at Google, whose content no request shows. */
function namesCache(body: Body): boolean {
  const { extra_body } = body;
  const { google } = isObject(extra_body) ? extra_body : {};
  return [body, extra_body, google]
    .filter(isObject)
    .some(({ cached_content, cachedContent }) => (cached_content ?? cachedContent) != null);
}

/** The parts of messages on OpenAI's wire that are more than text. */
export const chatParts: Parts = countedParts({
  image_url: {
    image_url: (input, value) =>
      isObject(value)
        ? addImage(input, value.detail, value.url)
        : addImage(input, undefined, value),
  },
  input_audio: { input_audio: (input, value) => addSound(input, value) },
  file: { file: (input, value) => addFile(input, isObject(value) ? value.file_data : undefined) },
});

/** Beside them, the calls of a message, which has no type. */
const messageParts: Parts = new Map([...chatParts, [undefined, { tool_calls: addCalls }]]);

/** Calls of tools; the thoughts that Google's models have sealed beside them are no text. */
function addCalls(input: Input, calls: unknown): void {
  const text = JSON.stringify(calls, (name, value: unknown) => {
    if (name !== 'thought_signature' || typeof value !== 'string' || !isBinary(value)) return value;
    addFile(input, value);
    return undefined;
  });
  addText(input, text);
}

/** A picture by the detail it is looked at in. */
export function addImage(input: Input, detail: unknown, data?: unknown): void {
  addPicture(input, data);
  input.tokens += detail === 'low' ? IMAGE_LOW_TOKENS : IMAGE_TOKENS;
}

/** Spoken input, `{data, format}`. */
export function addSound(input: Input, value: unknown): void {
  const tokens = isObject(value) ? Math.ceil(soundTokens(stringOf(value.data))) : 0;
  input.tokens += tokens;
  input.sound_tokens += tokens;
}

/** The tokens of sound in Base64, fractions included. */
export function soundTokens(data: string): number {
  return data.length / AUDIO_CHARACTERS_PER_TOKEN;
}

/** How the answers of chat completions are read. */
export const chatReader: Reader = {
  readAnswer(answer, found) {
    found.usage = usageIn(answer);
    found.text = chatText(answer);
    found.audio_tokens = chatAudio(answer);
    found.has_output = endsChoice(answer) || hasContent(answer);
    seeChat(answer, found);
  },
  usageOf: openaiUsage,
  openStream(found, choices) {
    const hasEnded = endsOf(choices);
    return (chunk) => {
      found.usage = largerOf(found.usage, usageIn(chunk));
      addDelivered(found, chatText(chunk));
      found.audio_tokens += chatAudio(chunk);
      seeChat(chunk, found);
      if (!found.has_content && hasContent(chunk)) found.has_content = true;
      if (!found.has_output && (found.has_content || endsChoice(chunk))) found.has_output = true;
      if (!found.has_finish && hasEnded(chunk)) found.has_finish = true;
      return isUsageOnly(chunk);
    };
  },
};

/** The usage of an answer or a chunk; some put it into a choice, or a member of their own. */
export function usageIn(chunk: Body): Told | undefined {
  const told = openaiUsage(chunk.usage);
  if (told !== undefined) return told;
  if (isObject(chunk.x_groq)) return openaiUsage(chunk.x_groq.usage);
  if (!Array.isArray(chunk.choices)) return undefined;
  for (const choice of chunk.choices) if (choice?.usage != null) return openaiUsage(choice.usage);
  return undefined;
}

/** True for output of any kind, unknown members included. */
function hasContent(chunk: Body): boolean {
  return partsOf(chunk).some((part) =>
    Object.entries(part).some(([name, value]) => name !== 'role' && !isEmpty(value)),
  );
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return value == null || value === '';
}

/** True once so many choices of a stream have come to their end. */
export function endsOf(choices: number): (chunk: Body) => boolean {
  const ended = new Set<unknown>();
  return (chunk) => {
    for (const [at, { finish_reason, index = at }] of listOf(chunk.choices).entries()) {
      if (typeof finish_reason === 'string') ended.add(index);
    }
    return ended.size >= choices;
  };
}

/** The text that one chunk of a chat stream, or one whole answer, delivers. */
function chatText(chunk: Body): string {
  let text = '';
  for (const part of partsOf(chunk)) {
    const audio = part.audio as Body | null | undefined;
    text += spoken(part.content) + stringOf(part.refusal) + stringOf(audio?.transcript);
    // Some providers say the same thought under several names.
    text +=
      stringOf(part.reasoning_content) ||
      stringOf(part.reasoning) ||
      spoken(part.reasoning_details);
    text += called(part.function_call);
    if (part.tool_calls == null) continue;
    for (const call of listOf(part.tool_calls)) text += called(call.function) + called(call.custom);
  }
  return text;
}

/** The tokens of sound that it delivers, fractions included. */
function chatAudio(chunk: Body): number {
  let characters = 0;
  for (const { audio } of partsOf(chunk)) {
    if (audio != null) characters += stringOf((audio as Body).data).length;
  }
  return characters / AUDIO_CHARACTERS_PER_TOKEN;
}

/** True if an answer, or a chunk of a stream, ends one of its choices. */
export function endsChoice(chunk: Body): boolean {
  return listOf(chunk.choices).some(({ finish_reason }) => typeof finish_reason === 'string');
}

/**
 * True for the extra chunk that only carries usage; some providers send it with a choice, which is
 * content.
 */
export function isUsageOnly(chunk: Body): boolean {
  return Array.isArray(chunk.choices) && chunk.choices.length === 0 && chunk.usage != null;
}

// Runs for every chunk, so it makes no list but the one it gives.
function partsOf({ choices }: Body): Body[] {
  const parts: Body[] = [];
  if (!Array.isArray(choices)) return parts;
  for (const choice of choices) {
    const part = choice?.delta ?? choice?.message;
    if (typeof part === 'object' && part !== null) parts.push(part);
  }
  return parts;
}

/** A text, or the texts of a list of parts; a thought holds parts of its own. */
function spoken(content: unknown, levels = 2): string {
  if (!Array.isArray(content) || levels === 0) return stringOf(content);
  let text = '';
  for (const part of listOf(content)) {
    text += stringOf(part.text) + stringOf(part.refusal) + spoken(part.thinking, levels - 1);
  }
  return text;
}

function called(value: unknown): string {
  if (typeof value !== 'object' || value === null) return '';
  const { name, arguments: given, input } = value as Body;
  return stringOf(name) + stringOf(given) + stringOf(input);
}
