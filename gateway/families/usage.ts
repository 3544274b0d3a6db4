import type { Usage } from '../../domain/ledger/calls';
import { type Body, countOf, isObject } from '../wire/values';
import type { Told } from './reader';

export const nothing_used: Usage = {
  prompt_tokens: 0,
  completion_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  audio_input_tokens: 0,
  audio_output_tokens: 0,
};

// The names of one count in the dialects of OpenAI's wire: as that provider writes them on its two
// routes, then as others do. `a.b` is the member `b` of the object `a`.
const names = {
  prompt: ['prompt_tokens', 'input_tokens'],
  completion: ['completion_tokens', 'output_tokens'],
  total: ['total_tokens'],
  cached: [
    'prompt_tokens_details.cached_tokens',
    'input_tokens_details.cached_tokens',
    'prompt_cache_hit_tokens',
    'cached_tokens',
    'cache_read_input_tokens',
    'prompt_tokens_details.cache_read_tokens',
    'input_token_details.cached_tokens',
  ],
  missed: ['prompt_cache_miss_tokens'],
  written: [
    'prompt_tokens_details.cache_write_tokens',
    'input_tokens_details.cache_write_tokens',
    'prompt_tokens_details.cache_creation_tokens',
    'cache_creation_input_tokens',
  ],
  // Only our own translation of another wire gives this one.
  written_1h: ['prompt_tokens_details.cache_write_1h_tokens'],
  reasoning: [
    'completion_tokens_details.reasoning_tokens',
    'output_tokens_details.reasoning_tokens',
    'reasoning_tokens',
  ],
  audio_in: [
    'prompt_tokens_details.audio_tokens',
    'input_tokens_details.audio_tokens',
    'input_token_details.audio_tokens',
  ],
  audio_out: [
    'completion_tokens_details.audio_tokens',
    'output_tokens_details.audio_tokens',
    'output_token_details.audio_tokens',
  ],
  image_in: ['prompt_tokens_details.image_tokens', 'input_tokens_details.image_tokens'],
  image_out: ['completion_tokens_details.image_tokens', 'output_tokens_details.image_tokens'],
  video_in: ['prompt_tokens_details.video_tokens', 'input_tokens_details.video_tokens'],
  video_out: ['completion_tokens_details.video_tokens', 'output_tokens_details.video_tokens'],
} as const;

type Counts = Record<keyof typeof names, number>;

const paths = Object.entries(names).map(
  ([count, all]) => [count as keyof Counts, all.map((name) => name.split('.'))] as const,
);

/**
 * The usage object of chat completions, completions, embeddings and responses, in whatever dialect;
 * undefined if it says nothing.
 */
export function openaiUsage(value: unknown): Told | undefined {
  if (!isObject(value)) return undefined;
  const told = countsIn(value);
  const prompt = promptOf(told);
  // Mistral tells the length of the sound that it heard beside the tokens, or alone.
  const seconds = lengthOf(value.prompt_audio_seconds);
  if (prompt + told.completion + told.reasoning === 0) {
    if (told.total + seconds === 0) return undefined;
    return withinTotals({ ...nothing_used, total_tokens: told.total, seconds });
  }
  const rest = Math.max(0, told.total - prompt - told.completion);
  // Reasoning may stand beside the output, or in the total alone. What else does is input: the
  // texts of tools that the provider ran.
  const explained = prompt === 0 ? 0 : Math.min(rest, told.reasoning);
  // Some count reasoning by another tokenizer than the output it is part of: the total decides.
  const has_total = told.total > 0 && prompt > 0;
  const thought = has_total || told.reasoning <= told.completion ? explained : told.reasoning;
  const written = Math.max(0, told.written - told.written_1h);
  return withinTotals({
    prompt_tokens: prompt === 0 ? 0 : prompt + rest - explained,
    completion_tokens: told.completion + thought,
    cached_tokens: told.cached,
    cache_write_tokens: written,
    cache_write_1h_tokens: told.written_1h,
    cache_write_untold_tokens: told.written_1h > 0 ? 0 : written,
    reasoning_tokens: told.reasoning,
    audio_input_tokens: told.audio_in,
    audio_output_tokens: told.audio_out,
    image_input_tokens: told.image_in,
    image_output_tokens: told.image_out,
    video_input_tokens: told.video_in,
    video_output_tokens: told.video_out,
    seconds,
  });
}

/** A length in seconds, fractions included; 0 for what is none. */
export function lengthOf(value: unknown): number {
  const seconds = typeof value === 'number' || typeof value === 'string' ? Number(value) : 0;
  return seconds > 0 && Number.isFinite(seconds) ? seconds : 0;
}

/** All input. Some providers count what they read from a cache, or wrote to it, beside it. */
function promptOf({ prompt, completion, total, cached, written, missed, reasoning }: Counts) {
  const beside = cached + written;
  if (prompt === 0) return beside + missed;
  // The total says that it is inside, however large it is.
  if (total > 0 && total === prompt + completion) return prompt;
  if (beside > prompt) return prompt + beside;
  const rest = total - prompt - completion;
  const is_beside = beside > 0 && (rest === beside || rest === beside + reasoning);
  // Reasoning that happens to be as much explains the rest as well.
  return is_beside && rest !== reasoning ? prompt + beside : prompt;
}

function countsIn(usage: Body): Counts {
  const counts = {} as Counts;
  for (const [count, all] of paths) counts[count] = firstIn(usage, all);
  return counts;
}

function firstIn(usage: Body, all: readonly string[][]): number {
  for (const [first = '', second] of all) {
    const member = usage[first];
    const value = second === undefined ? member : isObject(member) ? member[second] : undefined;
    const count = countOf(value);
    if (count > 0) return count;
  }
  return 0;
}

type Figure = Exclude<keyof Told, 'service_tier' | 'region'>;

/** The larger of each count: figures are totals so far, never steps, and one left out stands. */
export function largerOf(before: Told | undefined, now: Told | undefined): Told | undefined {
  if (before === undefined || now === undefined) return now ?? before;
  const larger = { ...before };
  for (const [name, count] of Object.entries(now) as [Figure, number | undefined][]) {
    larger[name] = Math.max(larger[name] ?? 0, count ?? 0);
  }
  // A total counts only where nothing else was told.
  if (larger.prompt_tokens + larger.completion_tokens > 0) delete larger.total_tokens;
  return withinTotals(larger);
}

/**
 * Usage whose shares do not exceed their whole: the ledger refuses others, and a provider's slip
 * must not leave a request unbilled.
 */
export function withinTotals(usage: Told): Told {
  const { prompt_tokens, completion_tokens, cache_write_1h_tokens } = usage;
  const cached_tokens = Math.min(usage.cached_tokens, prompt_tokens);
  const cache_write_tokens = Math.min(usage.cache_write_tokens, prompt_tokens - cached_tokens);
  let uncached = prompt_tokens - cached_tokens - cache_write_tokens;
  const reasoning_tokens = Math.min(usage.reasoning_tokens, completion_tokens);
  const within: Told = {
    prompt_tokens,
    completion_tokens,
    cached_tokens,
    cache_write_tokens,
    reasoning_tokens,
    audio_input_tokens: 0,
    audio_output_tokens: Math.min(usage.audio_output_tokens, completion_tokens - reasoning_tokens),
  };
  if (cache_write_1h_tokens) {
    within.cache_write_1h_tokens = Math.min(cache_write_1h_tokens, uncached);
    uncached -= within.cache_write_1h_tokens;
  }
  const untold_tokens = Math.min(usage.cache_write_untold_tokens ?? 0, cache_write_tokens);
  if (untold_tokens > 0) within.cache_write_untold_tokens = untold_tokens;
  if (usage.seconds) within.seconds = usage.seconds;
  if (usage.total_tokens) within.total_tokens = usage.total_tokens;
  if (usage.rounds && usage.rounds > 1) within.rounds = usage.rounds;
  if (usage.uncapped_tokens) within.uncapped_tokens = usage.uncapped_tokens;
  within.audio_input_tokens = Math.min(usage.audio_input_tokens, uncached);
  addShares(usage, within, {
    input: uncached - within.audio_input_tokens,
    output: completion_tokens - reasoning_tokens - within.audio_output_tokens,
  });
  return within;
}

/** Adds what pictures and video have of the tokens that are left. */
function addShares(usage: Told, within: Told, left: { input: number; output: number }): void {
  for (const kind of ['image', 'video'] as const) {
    for (const side of ['input', 'output'] as const) {
      const share = Math.min(usage[`${kind}_${side}_tokens`] ?? 0, left[side]);
      if (share > 0) within[`${kind}_${side}_tokens`] = share;
      left[side] -= share;
    }
  }
}
