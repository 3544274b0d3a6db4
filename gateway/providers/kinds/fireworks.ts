import { anthropicWire, type Kind, keyedKind, without_caching } from '../kind';

export const fireworks: Kind = keyedKind(
  'fireworks',
  'https://api.fireworks.ai/inference/v1',
  {
    families: ['chat_completions', 'responses', 'completions', 'embeddings'],
    drop_anywhere: without_caching,
  },
  {
    wires: {
      anthropic: () =>
        anthropicWire('https://api.fireworks.ai/inference', {
          key: 'bearer',
          families: ['messages'],
        }),
    },
  },
);
