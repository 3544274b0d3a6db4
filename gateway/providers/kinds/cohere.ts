import { type Kind, keyedKind, without_caching } from '../kind';

/** Its wire of compatibility. */
export const cohere: Kind = keyedKind('cohere', 'https://api.cohere.ai/compatibility/v1', {
  families: ['chat_completions', 'embeddings'],
  rename: { max_completion_tokens: 'max_tokens' },
  drop: ['store', 'metadata', 'user', 'service_tier'],
  drop_anywhere: without_caching,
  lacks: ['parallel_tool_calls'],
  // Searches of the web, and servers of the account.
  refuses: ['connectors'],
});
