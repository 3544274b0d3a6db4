type Told = Readonly<Record<string, unknown>>;

/**
 * Usage of Gemini on OpenAI's wire, where thoughts are output that stands in the total alone: named
 * as reasoning.
 */
export function withThoughts(told: Told): Record<string, unknown> {
  const { prompt_tokens, completion_tokens, total_tokens, completion_tokens_details } = told;
  const thoughts = Number(total_tokens) - Number(prompt_tokens) - Number(completion_tokens ?? 0);
  if (completion_tokens_details != null || !(thoughts > 0)) return told;
  return { ...told, completion_tokens_details: { reasoning_tokens: thoughts } };
}
