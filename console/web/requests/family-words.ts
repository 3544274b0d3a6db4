const families: Record<string, string> = {
  chat_completions: 'Chat',
  unified_chat_completions: 'Unified chat',
  responses: 'Responses',
  messages: 'Messages',
  messages_count_tokens: 'Count of tokens',
  embeddings: 'Embeddings',
  completions: 'Completion',
  moderations: 'Moderation',
  audio_speech: 'Speech',
  audio_transcriptions: 'Transcription',
  mcp: 'MCP tool call',
};

/** A kind of call in words; one that is not known here by its code. */
export function familyWords(family: string): string {
  return families[family] ?? family;
}
