import { type Asked, type Kind, keyedKind, type Wire, without_caching } from '../kind';
import { withThoughts } from '../thoughts';

/** Gemini's own wire below the models of a base URL: the model and the method are its path. */
export function nativePath({ model, is_stream }: Asked): string {
  const name = encodeURIComponent(model);
  return `/models/${name}:${is_stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`;
}

const native: Wire = {
  base_url: () => 'https://generativelanguage.googleapis.com/v1beta',
  key: 'x-goog-api-key',
  families: ['chat_completions'],
  path: nativePath,
};

/** Its wire of compatibility, which answers 400 to members that it does not know, and its own. */
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
      'prediction',
    ],
    drop_anywhere: without_caching,
    lacks: ['verbosity', 'logit_bias'],
  },
  { wires: { gemini: () => native } },
);
