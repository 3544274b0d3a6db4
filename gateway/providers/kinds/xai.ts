import { type Kind, keyedKind } from '../kind';

export const xai: Kind = keyedKind('xai', 'https://api.x.ai/v1', {
  families: ['chat_completions', 'responses', 'embeddings'],
});
