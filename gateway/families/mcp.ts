import { embeddingReader } from './embeddings';
import type { Family } from './family';
import { newInput } from './input';

/** Calls of tools: priced by the call, whatever they say. */
export const mcp: Family = {
  name: 'mcp',
  counts_named_sessions: true,
  shapes: ['openai'],
  upstream_path: '',
  may_stream: false,
  usage_is_asked: false,
  has_output: false,
  input: () => newInput(0),
  max_completion_tokens: () => 0,
  reader: embeddingReader,
  errorFrame: () => '',
};
