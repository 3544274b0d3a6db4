/** What the settlement carries: all input with its shares, all output with its shares. What is absent is none. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  cache_write_tokens: number;
  /** Written to be kept for an hour, which has a price of its own; not among `cache_write_tokens`. */
  cache_write_1h_tokens?: number;
  reasoning_tokens: number;
  audio_input_tokens: number;
  audio_output_tokens: number;
  characters?: number;
  seconds?: number;
  /** Searches and the like that the provider ran and bills by number. */
  tool_calls?: number;
}

export type Body = Record<string, unknown>;

export const nothing_used: Usage = {
  prompt_tokens: 0,
  completion_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  audio_input_tokens: 0,
  audio_output_tokens: 0,
};

/** Usage whose shares do not exceed their whole: the ledger refuses others, and a provider's slip must not leave a request unbilled. */
export function withinTotals(usage: Usage): Usage {
  const { prompt_tokens, completion_tokens, cache_write_1h_tokens, tool_calls } = usage;
  const cached_tokens = Math.min(usage.cached_tokens, prompt_tokens);
  const cache_write_tokens = Math.min(usage.cache_write_tokens, prompt_tokens - cached_tokens);
  let uncached = prompt_tokens - cached_tokens - cache_write_tokens;
  const reasoning_tokens = Math.min(usage.reasoning_tokens, completion_tokens);
  const within: Usage = {
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
  if (tool_calls) within.tool_calls = tool_calls;
  within.audio_input_tokens = Math.min(usage.audio_input_tokens, uncached);
  return within;
}

/** A count of a provider; 0 for whatever is none. */
export function whole(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0;
}

/** The text, or an empty one for whatever is none. */
export function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The objects of a list; none for whatever is no list. */
export function listOf(value: unknown): Body[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function isObject(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object that a JSON text is; undefined where it is none, or no JSON. */
export function objectIn(text: string): Body | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
