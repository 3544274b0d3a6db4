import { anthropicWire, type Kind, keyedKind } from '../kind';

export const lmstudio: Kind = keyedKind(
  'lmstudio',
  'http://127.0.0.1:1234/v1',
  { families: ['chat_completions', 'responses', 'completions', 'embeddings'] },
  {
    auth: ['none', 'key'],
    wires: {
      anthropic: () => anthropicWire('http://127.0.0.1:1234', { families: ['messages'] }),
    },
  },
);
