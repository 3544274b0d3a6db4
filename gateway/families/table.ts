import type { ErrorBody } from '../../domain/errors';
import { chatTalk } from '../policy/chat-talk';
import { completionsTalk, embeddingsTalk } from '../policy/completions-talk';
import { messagesTalk } from '../policy/messages-talk';
import { responsesTalk } from '../policy/responses-talk';
import { silentTalk } from '../policy/talk';
import { chatMembers, demandReader, messageMembers, responseMembers } from './billed';
import {
  choicesOf,
  completionCap,
  LEGACY_MAX_TOKENS,
  legacyCap,
  legacyChoices,
  messageCap,
  responseCap,
  uncappedChoices,
} from './caps';
import { chatInput, chatReader } from './chat';
import { completionReader, promptInput } from './completions';
import { nothing_asked } from './demand';
import { embeddingInput, embeddingReader } from './embeddings';
import type { Family } from './family';
import { withOthers } from './input';
import { checkMessage, messageInput, messageReader } from './messages';
import { moderationInput } from './moderations';
import type { Measured } from './reader';
import { checkResponse, responseInput, responseReader } from './responses';
import { secondsIn, speechInput, speechReader, speechUnits } from './speech';
import { chatKeeping, messageKeeping, responseKeeping } from './stored';
import {
  mostSeconds,
  readTranscription,
  transcriptionInput,
  transcriptionReader,
  transcriptionUnits,
} from './transcriptions';
import { chatOverConverse } from './unified/converse-answer';
import { chatOverGemini } from './unified/gemini-answer';
import { embeddingsOverGemini } from './unified/gemini-embeddings';
import { chatOverMessages } from './unified/messages';

export const chat: Family = {
  name: 'chat_completions',
  path: '/v1/chat/completions',
  shapes: ['openai'],
  upstream_path: '/chat/completions',
  may_stream: true,
  usage_is_asked: true,
  has_output: true,
  demand: demandReader(chatMembers),
  input: withOthers(chatInput, Object.keys(chatMembers)),
  max_completion_tokens: completionCap,
  uncapped_choices: uncappedChoices,
  choices: choicesOf,
  reader: chatReader,
  keeps: chatKeeping,
  policy_route: 'chat',
  talk: chatTalk,
  takes_members: true,
  errorFrame: dataFrame,
};

/** The same wire to providers of every shape. */
export const unified: Family = {
  ...chat,
  name: 'unified_chat_completions',
  path: '/v1/unified/chat/completions',
  policy_route: 'unified',
  shapes: ['openai', 'anthropic', 'gemini', 'converse'],
  asks: {
    openai: 'chat_completions',
    anthropic: 'messages',
    gemini: 'chat_completions',
    converse: 'chat_completions',
  },
  translations: {
    anthropic: chatOverMessages,
    gemini: chatOverGemini,
    converse: chatOverConverse,
  },
};

export const responses: Family = {
  name: 'responses',
  path: '/v1/responses',
  shapes: ['openai'],
  upstream_path: '/responses',
  may_stream: true,
  usage_is_asked: false,
  has_output: true,
  check: checkResponse,
  demand: demandReader(responseMembers),
  input: withOthers(responseInput, Object.keys(responseMembers)),
  max_completion_tokens: responseCap,
  reader: responseReader,
  keeps: responseKeeping,
  policy_route: 'responses',
  talk: responsesTalk,
  takes_members: true,
  format_in_text: true,
  errorFrame: numberedFrame,
};

export const messages: Family = {
  name: 'messages',
  path: '/v1/messages',
  shapes: ['anthropic'],
  upstream_path: '/v1/messages',
  may_stream: true,
  usage_is_asked: false,
  has_output: true,
  check: checkMessage,
  demand: demandReader(messageMembers),
  input: withOthers(messageInput, Object.keys(messageMembers)),
  max_completion_tokens: messageCap,
  reader: messageReader,
  keeps: messageKeeping,
  policy_route: 'messages',
  talk: messagesTalk,
  errorFrame: namedFrame,
};

/** How many tokens a message has, which nobody pays for. */
export const counting: Family = {
  ...messages,
  name: 'messages_count_tokens',
  path: '/v1/messages/count_tokens',
  // Where no provider of Messages serves a model, its tokens are counted here.
  shapes: ['anthropic', 'openai'],
  asks: { openai: 'chat_completions', anthropic: 'messages' },
  upstream_path: '/v1/messages/count_tokens',
  may_stream: false,
  has_output: false,
  is_free: true,
  // No money hangs on it.
  demand: () => nothing_asked,
  max_completion_tokens: () => 0,
};

export const embeddings: Family = {
  name: 'embeddings',
  path: '/v1/embeddings',
  shapes: ['openai', 'gemini'],
  translations: { gemini: embeddingsOverGemini },
  upstream_path: '/embeddings',
  may_stream: false,
  usage_is_asked: false,
  has_output: false,
  input: withOthers(embeddingInput, ['input', 'model', 'encoding_format', 'user']),
  max_completion_tokens: () => 0,
  reader: embeddingReader,
  policy_route: 'embeddings',
  talk: embeddingsTalk,
  errorFrame: dataFrame,
};

const speech_members = [
  'input',
  'instructions',
  'model',
  'voice',
  'response_format',
  'stream_format',
];

// What chat counts as its input, a legacy completion does not know.
const texts_of_chat = ['messages', 'tools', 'functions', 'response_format', 'prediction'];
const settings_of_chat = Object.keys(chatMembers).filter((name) => !texts_of_chat.includes(name));

export const completions: Family = {
  name: 'completions',
  path: '/v1/completions',
  shapes: ['openai'],
  upstream_path: '/completions',
  may_stream: true,
  usage_is_asked: true,
  has_output: true,
  demand: demandReader(chatMembers),
  input: withOthers(promptInput, ['prompt', 'suffix', ...settings_of_chat]),
  max_completion_tokens: legacyCap,
  written_cap: { member: 'max_tokens', tokens: LEGACY_MAX_TOKENS },
  choices: legacyChoices,
  reader: completionReader,
  policy_route: 'completions',
  talk: completionsTalk,
  errorFrame: dataFrame,
};

export const moderations: Family = {
  name: 'moderations',
  path: '/v1/moderations',
  shapes: ['openai'],
  upstream_path: '/moderations',
  may_stream: false,
  usage_is_asked: false,
  has_output: false,
  default_model: 'omni-moderation-latest',
  input: withOthers(moderationInput, ['input', 'model']),
  max_completion_tokens: () => 0,
  // Answers without usage: the estimate is charged if there is a price.
  reader: embeddingReader,
  policy_route: 'moderations',
  talk: silentTalk,
  errorFrame: dataFrame,
};

export const speech: Family = {
  name: 'audio_speech',
  path: '/v1/audio/speech',
  shapes: ['openai'],
  upstream_path: '/audio/speech',
  may_stream: false,
  usage_is_asked: false,
  has_output: false,
  is_binary: true,
  input: withOthers(speechInput, speech_members),
  max_completion_tokens: () => 0,
  units: speechUnits,
  secondsIn,
  reader: speechReader,
  policy_route: 'audio_speech',
  talk: silentTalk,
  errorFrame: dataFrame,
};

export const transcriptions: Family = {
  name: 'audio_transcriptions',
  path: '/v1/audio/transcriptions',
  shapes: ['openai'],
  upstream_path: '/audio/transcriptions',
  may_stream: true,
  usage_is_asked: false,
  has_output: true,
  read: readTranscription,
  input: transcriptionInput,
  mostSeconds,
  // Known with the length of the sound.
  max_completion_tokens: () => 0,
  units: transcriptionUnits,
  reader: transcriptionReader,
  errorFrame: dataFrame,
};

/** All families of proxy routes. */
export const families: readonly Family[] = [
  chat,
  unified,
  responses,
  messages,
  counting,
  embeddings,
  completions,
  moderations,
  speech,
  transcriptions,
];

function dataFrame({ error }: ErrorBody): string {
  return `data: ${JSON.stringify({ error })}\n\n`;
}

function namedFrame(body: ErrorBody): string {
  return `event: error\ndata: ${JSON.stringify(body)}\n\n`;
}

/**
 * The wire's flat event, with `error` again inside: without it the older major of the SDK does not
 * throw.
 */
function numberedFrame({ error }: ErrorBody, { sequence_number }: Measured): string {
  const { code, message, param } = error;
  const event = {
    type: 'error',
    code,
    message,
    param,
    sequence_number: sequence_number + 1,
    error,
  };
  return `event: error\ndata: ${JSON.stringify(event)}\n\n`;
}
