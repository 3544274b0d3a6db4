import type { Usage } from '../../domain/ledger/calls';

export const nothing_used: Usage = {
  prompt_tokens: 0,
  completion_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  reasoning_tokens: 0,
  audio_input_tokens: 0,
  audio_output_tokens: 0,
};

/**
 * Usage whose shares do not exceed their whole: the ledger refuses others, and a provider's slip
 * must not leave a request unbilled.
 */
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
