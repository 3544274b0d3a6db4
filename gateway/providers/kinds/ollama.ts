import { type Kind, keyedKind } from '../kind';

export const ollama: Kind = keyedKind(
  'ollama',
  'http://127.0.0.1:11434/v1',
  {
    families: ['chat_completions', 'completions', 'embeddings'],
    rename: { max_completion_tokens: 'max_tokens' },
  },
  { auth: ['none', 'key'] },
);
