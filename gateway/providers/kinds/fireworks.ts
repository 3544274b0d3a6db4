import { anthropicWire, type Kind, keyedKind } from '../kind';

export const fireworks: Kind = keyedKind(
  'fireworks',
  'https://api.fireworks.ai/inference/v1',
  { families: ['chat_completions', 'responses', 'completions', 'embeddings'] },
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
