import { type Kind, keyedKind } from '../kind';
import { withThoughts } from '../thoughts';

/** Its wire of compatibility, which answers 400 to members that it does not know. */
export const gemini: Kind = keyedKind(
  'gemini',
  'https://generativelanguage.googleapis.com/v1beta/openai',
  {
    families: ['chat_completions', 'embeddings'],
    list_prefix: 'models/',
    usage: withThoughts,
    drop: [
      'store',
      'metadata',
      'user',
      'safety_identifier',
      'prompt_cache_key',
      'prompt_cache_retention',
      'verbosity',
      'prediction',
      'logit_bias',
    ],
  },
);
