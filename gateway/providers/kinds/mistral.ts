import { type Kind, keyedKind, without_caching, without_hints } from '../kind';

/** It answers 422 to every member that it does not know, and gives the usage of streams unasked. */
export const mistral: Kind = keyedKind('mistral', 'https://api.mistral.ai/v1', {
  families: ['chat_completions', 'embeddings', 'audio_transcriptions'],
  stream_usage: false,
  rename: { max_completion_tokens: 'max_tokens', seed: 'random_seed' },
  drop: [
    'store',
    'metadata',
    'user',
    'stream_options',
    'service_tier',
    'prompt_cache_key',
    'prompt_cache_retention',
    'safety_identifier',
  ],
  drop_anywhere: without_caching,
  ...without_hints,
  lacks: ['verbosity', 'logit_bias', 'logprobs', 'top_logprobs'],
  drop_empty: ['tools'],
});
