import { anthropicWire, type Kind, message_families } from '../kind';

export const anthropic: Kind = {
  name: 'anthropic',
  auth: ['key'],
  wires: {
    anthropic: () =>
      anthropicWire('https://api.anthropic.com', { families: message_families, betas: 'all' }),
  },
};
