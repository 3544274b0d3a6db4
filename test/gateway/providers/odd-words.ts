import type { Shape } from '../../../gateway/providers/kind';
import { chunkFrame, eventFrame } from '../../../sandbox/providers/frames';

// What providers say on each wire: "Hi there", with these figures.

export interface Way {
  kind: string;
  shape: Shape;
  id: string;
}
export type Pieces = (string | Buffer)[];

export const isFramed = ({ id }: Way) => /^bedrock-(?:anthropic|converse)$/.test(id);
/** Those of the plain routes. */
export const isPlain = ({ shape }: Way) => shape === 'openai' || shape === 'anthropic';
export const typeOf = (way: Way) =>
  isFramed(way) ? 'application/vnd.amazon.eventstream' : 'text/event-stream';

/** The tier of service that a provider is asked for. */
export function tierIn({ service_tier, serviceTier }: Record<string, unknown>): unknown {
  return service_tier ?? (serviceTier as { type?: string } | undefined)?.type ?? serviceTier;
}

/** A whole answer. */
export function whole({ shape }: Way, prompt: number, cached: number): string {
  return JSON.stringify(wholes[shape](prompt, cached));
}

const text = 'Hi there';
const wholes: Record<Shape, (prompt: number, cached: number) => object> = {
  anthropic: (prompt, cached) => ({
    ...{ id: 'x', type: 'message', role: 'assistant', model: 'theirs' },
    content: [{ type: 'text', text }],
    stop_reason: 'end_turn',
    usage: {
      ...{ input_tokens: prompt - cached, cache_read_input_tokens: cached, output_tokens: 10 },
    },
  }),
  openai: (prompt, cached) => ({
    ...{ id: 'x', object: 'chat.completion', model: 'theirs' },
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: chatUsage(prompt, cached),
  }),
  gemini: (prompt, cached) => ({
    candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP' }],
    usageMetadata: geminiUsage(prompt, cached),
  }),
  converse: (prompt, cached) => ({
    output: { message: { role: 'assistant', content: [{ text }] } },
    stopReason: 'end_turn',
    usage: converseUsage(prompt, cached),
  }),
};

/** The events of a stream. */
export function events({ shape }: Way, prompt: number, cached: number): object[] {
  return streams[shape](prompt, cached);
}

const streams: Record<Shape, (prompt: number, cached: number) => object[]> = {
  anthropic(prompt, cached) {
    const usage = { input_tokens: prompt - cached, cache_read_input_tokens: cached };
    return [
      {
        type: 'message_start',
        message: { id: 'x', role: 'assistant', content: [], usage: { ...usage, output_tokens: 1 } },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 10 } },
      { type: 'message_stop' },
    ];
  },
  openai(prompt, cached) {
    const chunk = { id: 'x', object: 'chat.completion.chunk', model: 'theirs' };
    return [
      { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content: text } }] },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      { ...chunk, choices: [], usage: chatUsage(prompt, cached) },
    ];
  },
  gemini: (prompt, cached) => [
    {
      candidates: [{ content: { role: 'model', parts: [{ text }] } }],
      usageMetadata: { promptTokenCount: prompt, totalTokenCount: prompt },
    },
    { candidates: [{ finishReason: 'STOP' }], usageMetadata: geminiUsage(prompt, cached) },
  ],
  converse: (prompt, cached) => [
    { messageStart: { role: 'assistant' } },
    { contentBlockDelta: { contentBlockIndex: 0, delta: { text } } },
    { contentBlockStop: { contentBlockIndex: 0 } },
    { messageStop: { stopReason: 'end_turn' } },
    { metadata: { usage: converseUsage(prompt, cached), metrics: { latencyMs: 1 } } },
  ],
};

function chatUsage(prompt: number, cached: number) {
  return {
    ...{ prompt_tokens: prompt, completion_tokens: 10, total_tokens: prompt + 10 },
    prompt_tokens_details: { cached_tokens: cached },
  };
}

function geminiUsage(prompt: number, cached: number) {
  return {
    ...{ promptTokenCount: prompt, cachedContentTokenCount: cached, candidatesTokenCount: 10 },
    totalTokenCount: prompt + 10,
  };
}

function converseUsage(prompt: number, cached: number) {
  return {
    ...{ inputTokens: prompt - cached, cacheReadInputTokens: cached, outputTokens: 10 },
    totalTokens: prompt + 10,
  };
}

/** The events as the way writes them. */
export function stream(way: Way, all: object[]): Pieces {
  if (way.shape === 'converse') return all.map(eventFrame);
  if (isFramed(way)) return all.map(chunkFrame);
  if (way.shape === 'anthropic')
    return all.map(
      (one) => `event: ${(one as { type: string }).type}\ndata: ${JSON.stringify(one)}\n\n`,
    );
  const texts = all.map((one) => `data: ${JSON.stringify(one)}\n\n`);
  return way.shape === 'openai' ? [...texts, 'data: [DONE]\n\n'] : texts;
}
