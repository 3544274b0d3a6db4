import { type Kind, keyedKind, without_caching } from '../kind';

export const together: Kind = keyedKind('together', 'https://api.together.xyz/v1', {
  families: [
    'chat_completions',
    'completions',
    'embeddings',
    'audio_speech',
    'audio_transcriptions',
  ],
  drop_anywhere: without_caching,
  // A second model, which looks at what the first one says.
  refuses: ['safety_model'],
  rename: { max_completion_tokens: 'max_tokens' },
});
