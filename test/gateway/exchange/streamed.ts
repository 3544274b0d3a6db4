// The pieces of streams on OpenAI's and Anthropic's wires.

/** The frame of an event on Anthropic's wire, or of a named one on OpenAI's. */
export function named(type: string, more: object = {}): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
}

export function data(...chunks: object[]): string {
  return chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
}

export function delta(content: string, index = 0): object {
  return { id: 'c', choices: [{ index, delta: { content }, finish_reason: null }] };
}

export function finish(more: object = {}, index = 0): object {
  return { id: 'c', choices: [{ index, delta: {}, finish_reason: 'stop' }], ...more };
}

export const usage = { prompt_tokens: 1_000, completion_tokens: 50, total_tokens: 1_050 };
