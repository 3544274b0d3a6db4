import { type Kind, keyedKind, without_caching } from '../kind';

export const xai: Kind = keyedKind('xai', 'https://api.x.ai/v1', {
  families: ['chat_completions', 'responses', 'embeddings'],
  drop_anywhere: without_caching,
});
