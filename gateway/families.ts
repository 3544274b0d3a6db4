import type { ErrorBody } from '../domain/errors';
import type { Call, ClientRequest } from './call';
import { completionCap, legacyCap, messageCap, responseCap } from './caps';
import { chatInput, chatReader } from './chat';
import { completionReader, promptInput } from './completions';
import { embeddingInput, embeddingReader } from './embeddings';
import type { Input } from './input';
import { checkMessage, messageInput, messageReader } from './messages';
import { moderationInput } from './moderations';
import { chatTalk } from './policy-chat';
import { responsesTalk } from './policy-responses';
import type { Talk } from './policy-talk';
import type { Shape } from './providers';
import type { Measured, Reader } from './reader';
import { checkResponse, responseInput, responseReader } from './responses';
import { secondsIn, speechInput, speechReader, speechUnits, type Units } from './speech';
import {
  readTranscription,
  transcriptionInput,
  transcriptionReader,
  transcriptionUnits,
} from './transcriptions';
import { chatOverMessages, type Translation } from './unified';
import type { Body } from './usage';

/** What distinguishes one family of proxy routes from another. */
export interface Family {
  name: string;
  /** The wires of the targets that serve it; the first is the one that its own bodies speak. */
  shapes: readonly Shape[];
  /** How it speaks to the others. */
  translations?: Partial<Record<Shape, Translation>>;
  /** Behind the target's base URL. */
  upstream_path: string;
  may_stream: boolean;
  /** Its streams tell their usage only where `stream_options` asks for it. */
  usage_is_asked: boolean;
  has_output: boolean;
  /** For bodies that name none. */
  default_model?: string;
  /** Reads a request that is no JSON. */
  read?(call: Call): Promise<ClientRequest>;
  /** Refuses what this family does not take. */
  check?(body: Body): void;
  input(body: Body): Input;
  max_completion_tokens(body: Body): number | null;
  /** What is priced besides tokens, known from the request. */
  units?(body: Body, text_tokens: number): Units;
  /** How long so many bytes of an answer last, where they tell. */
  secondsIn?(body: Body, bytes: number): number | undefined;
  /** Its answers are bytes, where they are no event stream. */
  is_binary?: boolean;
  reader: Reader;
  /** How policies read it; they run over no other families (specification: proxy routes, rule 1). */
  talk?: Talk;
  /** Its wire has no `response_format`: the same stands in `text`. */
  format_in_text?: boolean;
  /** How a broken stream tells its client; both majors of the official SDK throw on it. */
  errorFrame(body: ErrorBody, found: Measured): string;
}

export const chat: Family = {
  name: 'chat_completions',
  shapes: ['openai'],
  upstream_path: '/chat/completions',
  may_stream: true,
  usage_is_asked: true,
  has_output: true,
  input: chatInput,
  max_completion_tokens: completionCap,
  reader: chatReader,
  talk: chatTalk,
  errorFrame: dataFrame,
};

/** The same wire to providers of either shape. */
export const unified: Family = {
  ...chat,
  name: 'unified_chat_completions',
  shapes: ['openai', 'anthropic'],
  translations: { anthropic: chatOverMessages },
};

export const responses: Family = {
  name: 'responses',
  shapes: ['openai'],
  upstream_path: '/responses',
  may_stream: true,
  usage_is_asked: false,
  has_output: true,
  check: checkResponse,
  input: responseInput,
  max_completion_tokens: responseCap,
  reader: responseReader,
  talk: responsesTalk,
  format_in_text: true,
  errorFrame: numberedFrame,
};

export const messages: Family = {
  name: 'messages',
  shapes: ['anthropic'],
  upstream_path: '/v1/messages',
  may_stream: true,
  usage_is_asked: false,
  has_output: true,
  check: checkMessage,
  input: messageInput,
  max_completion_tokens: messageCap,
  reader: messageReader,
  errorFrame: namedFrame,
};

export const embeddings: Family = {
  name: 'embeddings',
  shapes: ['openai'],
  upstream_path: '/embeddings',
  may_stream: false,
  usage_is_asked: false,
  has_output: false,
  input: embeddingInput,
  max_completion_tokens: () => 0,
  reader: embeddingReader,
  errorFrame: dataFrame,
};

export const completions: Family = {
  name: 'completions',
  shapes: ['openai'],
  upstream_path: '/completions',
  may_stream: true,
  usage_is_asked: true,
  has_output: true,
  input: promptInput,
  max_completion_tokens: legacyCap,
  reader: completionReader,
  errorFrame: dataFrame,
};

export const moderations: Family = {
  name: 'moderations',
  shapes: ['openai'],
  upstream_path: '/moderations',
  may_stream: false,
  usage_is_asked: false,
  has_output: false,
  default_model: 'omni-moderation-latest',
  input: moderationInput,
  max_completion_tokens: () => 0,
  // Answers without usage: the estimate is charged, where there is a price.
  reader: embeddingReader,
  errorFrame: dataFrame,
};

export const speech: Family = {
  name: 'audio_speech',
  shapes: ['openai'],
  upstream_path: '/audio/speech',
  may_stream: false,
  usage_is_asked: false,
  has_output: false,
  is_binary: true,
  input: speechInput,
  max_completion_tokens: () => 0,
  units: speechUnits,
  secondsIn,
  reader: speechReader,
  errorFrame: dataFrame,
};

export const transcriptions: Family = {
  name: 'audio_transcriptions',
  shapes: ['openai'],
  upstream_path: '/audio/transcriptions',
  may_stream: true,
  usage_is_asked: false,
  has_output: true,
  read: readTranscription,
  input: transcriptionInput,
  // Known with the length of the sound.
  max_completion_tokens: () => 0,
  units: transcriptionUnits,
  reader: transcriptionReader,
  errorFrame: dataFrame,
};

function dataFrame({ error }: ErrorBody): string {
  return `data: ${JSON.stringify({ error })}\n\n`;
}

function namedFrame(body: ErrorBody): string {
  return `event: error\ndata: ${JSON.stringify(body)}\n\n`;
}

/** The wire's flat event, with `error` again inside: without it the older major of the SDK does not throw. */
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
