import { anthropicWire, type Kind, keyedKind, without_caching } from '../kind';

export const deepseek: Kind = keyedKind(
  'deepseek',
  'https://api.deepseek.com/v1',
  {
    families: ['chat_completions'],
    drop_anywhere: without_caching,
    rename: { max_completion_tokens: 'max_tokens' },
  },
  {
    wires: {
      anthropic: () =>
        anthropicWire('https://api.deepseek.com/anthropic', { families: ['messages'] }),
    },
  },
);
