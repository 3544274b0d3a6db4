import { createHash } from 'node:crypto';
import { type Faults, figure, withoutFaults } from './faults';
import { count, deltas, firstTokens, plainWords, textOf } from './words';

export interface CompletionRequest {
  model: string;
  prompt?: string | string[] | number[] | number[][] | null;
  max_tokens?: number | null;
  n?: number | null;
  best_of?: number | null;
  stream?: boolean;
  stream_options?: { include_usage?: boolean } | null;
}

export interface ModerationRequest {
  model?: string;
  input?: string | string[] | { type: string; text?: string }[];
}

interface Choice {
  index: number;
  text: string;
  logprobs: null;
  finish_reason: 'stop' | 'length';
}

// The provider's default if the request names no bound.
const MAX_TOKENS = 16;
const CREATED = 1_735_689_600;
const categories = ['harassment', 'hate', 'illicit', 'self-harm', 'sexual', 'violence'];

/** The texts of all prompts, directives included. */
export function promptText({ prompt }: CompletionRequest): string {
  return promptsOf(prompt)
    .map((one) => (typeof one === 'string' ? one : ''))
    .join(' ');
}

/** A legacy completion as JSON: `n` choices of each prompt. */
export function completion(request: CompletionRequest, faults: Faults) {
  const usage = faults['no-usage'] ? {} : { usage: usageOf(request, faults) };
  return { ...head(request), choices: choicesOf(request, faults), ...usage };
}

/** The same as the `data` texts of a stream, [DONE] included. */
export function completionFrames(request: CompletionRequest, faults: Faults): string[] {
  const asked = request.stream_options?.include_usage === true && !faults['no-usage'];
  const base = asked ? { ...head(request), usage: null } : head(request);
  const chunks: object[] = choicesOf(request, faults).flatMap(({ finish_reason, ...choice }) => [
    ...deltas(choice.text, faults).map((text) => ({
      ...base,
      choices: [{ ...choice, text, finish_reason: null }],
    })),
    { ...base, choices: [{ ...choice, text: '', finish_reason }] },
  ]);
  if (asked) chunks.push({ ...base, choices: [], usage: usageOf(request, faults) });
  return [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'];
}

/** A verdict for each input: one that says "violence" is flagged. The wire has no usage. */
export function moderation({ model, input = '' }: ModerationRequest) {
  const is_list = Array.isArray(input) && typeof input[0] === 'string';
  const texts = is_list ? (input as string[]) : [textOf(input)];
  const results = texts.map((text) => {
    const isFlagged = (category: string) => text.toLowerCase().includes(category);
    const of = <T>(value: (category: string) => T) =>
      Object.fromEntries(categories.map((category) => [category, value(category)]));
    return {
      flagged: categories.some(isFlagged),
      categories: of(isFlagged),
      category_scores: of((category) => (isFlagged(category) ? 0.99 : 0.01)),
      category_applied_input_types: of(() => ['text']),
    };
  });
  return { id: 'modr-sandbox', model: model ?? 'omni-moderation-latest', results };
}

/** The text of a moderation's input, for directives. */
export function moderatedText({ input }: ModerationRequest): string {
  if (!Array.isArray(input)) return input ?? '';
  return input.map((one) => (typeof one === 'string' ? one : (one.text ?? ''))).join(' ');
}

function promptsOf(prompt: CompletionRequest['prompt']): (string | number[])[] {
  if (!Array.isArray(prompt)) return [prompt ?? ''];
  return typeof prompt[0] === 'number' ? [prompt as number[]] : (prompt as string[] | number[][]);
}

function head({ model, prompt }: CompletionRequest) {
  const digest = createHash('sha256')
    .update(JSON.stringify(prompt ?? null))
    .digest('hex');
  return { id: `cmpl-${digest.slice(0, 24)}`, object: 'text_completion', created: CREATED, model };
}

function choicesOf(request: CompletionRequest, faults: Faults): Choice[] {
  return promptsOf(request.prompt).flatMap((prompt, at) => {
    const said = typeof prompt === 'string' ? withoutFaults(prompt) : `${prompt.length} tokens`;
    const words = plainWords(request.model, said, faults);
    const text = firstTokens(words, request.max_tokens ?? MAX_TOKENS);
    const finish_reason = text === words ? ('stop' as const) : ('length' as const);
    const n = request.n ?? 1;
    return Array.from({ length: n }, (_, one) => ({
      index: at * n + one,
      text,
      logprobs: null,
      finish_reason,
    }));
  });
}

/** Real token counts; of `best_of` tries all are billed. */
function usageOf(request: CompletionRequest, faults: Faults) {
  const counted = promptsOf(request.prompt).reduce((sum, prompt) => sum + count(prompt), 0);
  const prompt_tokens = figure(faults, 'prompt', Math.max(1, counted));
  const n = request.n ?? 1;
  const said = choicesOf(request, faults).reduce((sum, { text }) => sum + count(text), 0);
  const tries = (said / n) * Math.max(n, request.best_of ?? 1);
  const completion_tokens = figure(faults, 'completion', tries);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}
