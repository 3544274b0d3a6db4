import { anthropicWire, type Kind, message_families, openaiWire } from '../kind';

/** A server of one's own: its target says where it is. */
export const vllm: Kind = {
  name: 'vllm',
  auth: ['none', 'key'],
  wires: {
    openai: () =>
      openaiWire(undefined, {
        families: [
          'chat_completions',
          'responses',
          'completions',
          'embeddings',
          'audio_transcriptions',
        ],
      }),
    anthropic: () => anthropicWire(undefined, { families: message_families }),
  },
};
