import { type Kind, keyedKind, without_caching } from '../kind';

export const openai: Kind = keyedKind('openai', 'https://api.openai.com/v1', {
  families: [
    'chat_completions',
    'responses',
    'embeddings',
    'completions',
    'moderations',
    'audio_speech',
    'audio_transcriptions',
  ],
  passes: ['openai-beta'],
  drop_anywhere: without_caching,
});
