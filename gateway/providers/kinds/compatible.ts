import { anthropicWire, type Kind, openaiWire } from '../kind';

/** Any server that speaks one of the two wires: its target says where it is. */
export const compatible: Kind = {
  name: 'compatible',
  auth: ['none', 'key'],
  wires: {
    openai: () => openaiWire(undefined, { passes: ['openai-beta'] }),
    anthropic: () => anthropicWire(undefined, { betas: 'all', passes: ['anthropic-version'] }),
  },
};
