import { AppError } from '../domain/errors';

/** What the settlement carries: all input with its shares, all output with its shares. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  reasoning_tokens: number;
  audio_input_tokens: number;
  audio_output_tokens: number;
}

/** What goes upstream: texts to be counted, and tokens known without counting. */
export interface Input {
  texts: string[];
  tokens: number;
}

export type Body = Record<string, unknown>;

// The provider's documented overheads: of a message with its role, of a name, and of the answer's start.
const MESSAGE_TOKENS = 4;
const NAME_TOKENS = 1;
const LABEL_CHARACTERS_MAX = 64;
const labels = new Set(['role', 'type', 'tool_call_id']);
const ANSWER_TOKENS = 3;
// A picture in low detail, and one of usual size in high detail.
const IMAGE_LOW_TOKENS = 85;
const IMAGE_TOKENS = 1_105;
// Base64 characters a token of spoken sound and of attached files takes; settling corrects both.
const AUDIO_CHARACTERS_PER_TOKEN = 2_000;
const FILE_CHARACTERS_PER_TOKEN = 4;

export const nothing_used: Usage = {
  prompt_tokens: 0,
  completion_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  audio_input_tokens: 0,
  audio_output_tokens: 0,
};

/** The input of a chat completion. */
export function chatInput(body: Body): Input {
  const input: Input = { texts: [], tokens: ANSWER_TOKENS };
  if (!Array.isArray(body.messages)) {
    throw wrongMessages('messages', '"messages" must be a list of messages.');
  }
  for (const [at, message] of body.messages.entries()) {
    if (isObject(message)) addMessage(input, message);
    else throw wrongMessages(`messages[${at}]`, 'Each message must be an object.');
  }
  for (const name of ['tools', 'functions', 'response_format', 'prediction']) {
    addText(input, body[name]);
  }
  return input;
}

/** The input of an embedding: one text, several, or tokens, which are counted by their number. */
export function embeddingInput({ input }: Body): Input {
  if (typeof input === 'string') return { texts: [input], tokens: 0 };
  if (!Array.isArray(input) || input.length === 0) throw wrongInput();
  const texts: string[] = [];
  let tokens = 0;
  for (const entry of input) {
    if (typeof entry === 'string') texts.push(entry);
    else if (Number.isInteger(entry)) tokens += 1;
    else if (Array.isArray(entry) && entry.every(Number.isInteger)) tokens += entry.length;
    else throw wrongInput();
  }
  return { texts, tokens };
}

function wrongInput(): AppError {
  return new AppError(
    'invalid_field',
    'input must be a text, a list of texts, a list of tokens, or a list of such lists.',
    { param: 'input' },
  );
}

/** The usage object of chat completions and embeddings; undefined where it says nothing. */
export function openaiUsage(value: unknown): Usage | undefined {
  const usage = value as OpenaiUsage | null | undefined;
  const prompt_tokens = whole(usage?.prompt_tokens);
  if (usage == null || prompt_tokens === 0) return undefined;
  // Some compatible providers leave reasoning out of completion_tokens but not out of the total.
  const said = whole(usage.completion_tokens);
  const completion_tokens = Math.max(said, whole(usage.total_tokens) - prompt_tokens);
  const input = usage.prompt_tokens_details;
  const output = usage.completion_tokens_details;
  return withinTotals({
    prompt_tokens,
    completion_tokens,
    cached_tokens: whole(input?.cached_tokens),
    cache_write_tokens: whole(input?.cache_write_tokens),
    reasoning_tokens: whole(output?.reasoning_tokens),
    audio_input_tokens: whole(input?.audio_tokens),
    audio_output_tokens: whole(output?.audio_tokens),
  });
}

/** The text that one chunk of a chat stream, or one whole answer, delivers. */
export function chatText(chunk: Body): string {
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
export function chatAudio(chunk: Body): number {
  let characters = 0;
  for (const { audio } of partsOf(chunk)) {
    if (audio != null) characters += stringOf((audio as Body).data).length;
  }
  return characters / AUDIO_CHARACTERS_PER_TOKEN;
}

/** True where a chunk of a chat stream ends one of its choices. */
export function endsChoice(chunk: Body): boolean {
  return listOf(chunk.choices).some(({ finish_reason }) => typeof finish_reason === 'string');
}

/** True for the extra chunk that only carries usage; some providers send it with a choice, which is content. */
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

interface OpenaiUsage {
  prompt_tokens?: unknown;
  completion_tokens?: unknown;
  total_tokens?: unknown;
  prompt_tokens_details?: Body | null;
  completion_tokens_details?: Body | null;
}

function wrongMessages(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}

// Whatever a provider may read is counted, known to us or not: too much is given back by the settlement, too little may
// be more than the wallet has.
function addMessage(input: Input, message: Body): void {
  input.tokens += MESSAGE_TOKENS;
  for (const [name, value] of Object.entries(message)) {
    if (name === 'content') addContent(input, value);
    else if (name === 'name') {
      input.tokens += NAME_TOKENS;
      addText(input, value);
    } else if (!isLabel(name, value)) addText(input, value);
  }
}

/** The members whose tokens are those of the message itself. */
function isLabel(name: string, value: unknown): boolean {
  if (!labels.has(name)) return false;
  return typeof value === 'string' && value.length <= LABEL_CHARACTERS_MAX;
}

function addContent(input: Input, content: unknown): void {
  for (const part of Array.isArray(content) ? content : [content]) {
    if (isObject(part)) addPart(input, part);
    else addText(input, part);
  }
}

function addPart(input: Input, part: Body): void {
  const of = (name: string) => (part[name] ?? {}) as Body;
  if (part.type === 'image_url') {
    input.tokens += of('image_url').detail === 'low' ? IMAGE_LOW_TOKENS : IMAGE_TOKENS;
  } else if (part.type === 'input_audio') {
    input.tokens += Math.ceil(stringOf(of('input_audio').data).length / AUDIO_CHARACTERS_PER_TOKEN);
  } else if (part.type === 'file') {
    input.tokens += Math.ceil(stringOf(of('file').file_data).length / FILE_CHARACTERS_PER_TOKEN);
  } else {
    for (const [name, value] of Object.entries(part))
      if (!isLabel(name, value)) addText(input, value);
  }
}

function addText(input: Input, value: unknown): void {
  if (value === undefined || value === null) return;
  input.texts.push(typeof value === 'string' ? value : JSON.stringify(value));
}

// The ledger refuses shares that exceed their whole; a provider's slip must not leave a request unbilled.
function withinTotals(usage: Usage): Usage {
  const { prompt_tokens, completion_tokens } = usage;
  const cached_tokens = Math.min(usage.cached_tokens, prompt_tokens);
  const cache_write_tokens = Math.min(usage.cache_write_tokens, prompt_tokens - cached_tokens);
  const uncached = prompt_tokens - cached_tokens - cache_write_tokens;
  const reasoning_tokens = Math.min(usage.reasoning_tokens, completion_tokens);
  return {
    prompt_tokens,
    completion_tokens,
    cached_tokens,
    cache_write_tokens,
    reasoning_tokens,
    audio_input_tokens: Math.min(usage.audio_input_tokens, uncached),
    audio_output_tokens: Math.min(usage.audio_output_tokens, completion_tokens - reasoning_tokens),
  };
}

function whole(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0;
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function listOf(value: unknown): Body[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function isObject(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
