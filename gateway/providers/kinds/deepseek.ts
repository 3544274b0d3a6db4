import { anthropicWire, type Kind, keyedKind } from '../kind';

export const deepseek: Kind = keyedKind(
  'deepseek',
  'https://api.deepseek.com/v1',
  { families: ['chat_completions'], rename: { max_completion_tokens: 'max_tokens' } },
  {
    wires: {
      anthropic: () =>
        anthropicWire('https://api.deepseek.com/anthropic', { families: ['messages'] }),
    },
  },
);
