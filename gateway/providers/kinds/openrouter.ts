import { type Kind, keyedKind } from '../kind';

export const openrouter: Kind = keyedKind('openrouter', 'https://openrouter.ai/api/v1', {
  families: ['chat_completions', 'responses', 'embeddings'],
  refuses: ['provider', 'route', 'preset', 'models', 'plugins'],
});
