import { embeddingReader } from './embeddings';
import type { Family } from './family';
import { newInput } from './input';

/** Calls of tools, which are priced by the call and not by their texts. */
export const mcp: Family = {
  name: 'mcp',
  policy_route: 'mcp',
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
