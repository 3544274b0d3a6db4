import { type Kind, keyedKind, without_caching, without_hints } from '../kind';

export const groq: Kind = keyedKind('groq', 'https://api.groq.com/openai/v1', {
  families: ['chat_completions', 'responses', 'audio_speech', 'audio_transcriptions'],
  // It answers 400 to them.
  drop_anywhere: without_caching,
  ...without_hints,
  lacks: ['logit_bias', 'logprobs', 'top_logprobs'],
  // They choose the models and tools behind its compound ones.
  refuses: ['compound_custom', 'search_settings'],
});
