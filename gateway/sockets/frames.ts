import { AppError, type ErrorBody, statusOf, toErrorBody } from '../../domain/errors';
import type { Outcome } from '../../domain/ledger/calls';
import { toWire } from '../../runtime/wire';
import type { Family } from '../families/family';
import { chat, responses } from '../families/table';
import { nothing_used } from '../families/usage';
import { failureInside, isOnlyWords, saysFailure } from '../upstreams/failures';
import { cutMember, type Placed } from '../wire/edits';
import { checkMembers } from '../wire/members';
import type { Frame } from '../wire/sse';
import { type Body, isObject } from '../wire/values';

/** How one family is spoken over a socket: the bodies and events of its HTTP route, one a frame. */
export interface Protocol {
  route: string;
  family: Family;
  /** The type of the frame that asks. */
  create: string;
  /** The frame for an answer that its provider did not stream. */
  whole(answer: string): string;
  /** The frame behind an answer, if the family has none that marks the end. */
  done?(outcome: Outcome): Body;
}

const response_frames = {
  family: { ...responses, errorFrame: brokenFrame },
  create: 'response.create',
  whole: (answer: string) =>
    `{"type":"response.completed","sequence_number":0,"response":${answer}}`,
};

const protocols: Record<string, Protocol> = {
  // The path of the official clients, then that of the specification.
  '/v1/responses': { route: '/v1/responses', ...response_frames },
  '/v1/responses/ws': { route: '/v1/responses/ws', ...response_frames },
  '/v1/chat/completions/ws': {
    route: '/v1/chat/completions/ws',
    family: { ...chat, errorFrame: brokenFrame },
    create: 'chat.completion.create',
    whole: (answer) => answer,
    done: chatDone,
  },
};

export const socket_paths: readonly string[] = Object.keys(protocols);

export function protocolOf(path: string): Protocol | undefined {
  return Object.hasOwn(protocols, path) ? protocols[path] : undefined;
}

const STREAM_ID_CHARACTERS_MAX = 200;

/** The lane that a frame names. */
export function laneOf({ stream_id }: Body): string | undefined {
  if (stream_id === undefined || stream_id === null) return undefined;
  if (typeof stream_id === 'string' && stream_id.length <= STREAM_ID_CHARACTERS_MAX) {
    return stream_id;
  }
  throw wrong('stream_id', `"stream_id" is a text of at most ${STREAM_ID_CHARACTERS_MAX}.`);
}

// The members that are meant for this gateway, and that no body of a route has. A frame always asks
// for a stream.
const own_members = new Map(
  ['type', 'stream_id', 'stream', 'generate', 'cost_ticket'].map((name) => [name, name]),
);

/**
 * The request of a frame as the body of the family's HTTP route, and the cost ticket that it
 * brings.
 */
export function asked(
  text: string,
  { type, generate, cost_ticket }: Body,
  { create }: Protocol,
): { body: Buffer; cost_ticket: string | undefined } {
  if (type === 'response.steer') {
    throw wrong('type', 'This gateway does not steer: ask again with "previous_response_id".');
  }
  if (type !== create) throw wrong('type', `Send frames of the type "${create}".`);
  if (generate !== undefined && generate !== null && generate !== true) {
    throw wrong('generate', 'This gateway does not warm up: leave "generate" out.');
  }
  if (cost_ticket !== undefined && typeof cost_ticket !== 'string') {
    throw wrong('cost_ticket', '"cost_ticket" is the id of a cost ticket.');
  }
  return { body: Buffer.from(bodyOf(text)), cost_ticket };
}

/** The frame without its own members; all others go on as they were written. */
function bodyOf(frame: string): string {
  const text = `${frame.slice(frame.indexOf('{'), frame.lastIndexOf('}')).trimEnd()}}`;
  const spans = checkMembers(text, 0, own_members);
  let left: Placed = { text, spans };
  for (const name of spans.keys()) left = cutMember(left, name);
  const members = left.text.slice(1, -1).trimStart();
  return members === '' ? '{"stream":true}' : `{"stream":true,${members}}`;
}

function wrong(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}

/** The frame of an error that ends one answer, or none; the socket stays. */
export function errorFrame(
  error: AppError,
  more: { request_id: string; headers?: Record<string, string | string[]> },
): string {
  const body = toWire(toErrorBody(error, more.request_id)) as ErrorBody;
  return JSON.stringify(frameOf(body, error.status, more.headers));
}

/** The same for a provider's own refusal, whose body it is. */
export function refusalFrame(
  body: Buffer,
  more: { status: number; headers: Record<string, string | string[]> },
): string {
  const { error, request_id } = JSON.parse(body.toString('utf8')) as ErrorBody;
  return JSON.stringify(frameOf({ type: 'error', error, request_id }, more.status, more.headers));
}

function frameOf(
  { type, error, ...more }: ErrorBody,
  status: number,
  headers: Record<string, string | string[]> = {},
) {
  const told = Object.keys(headers).length > 0 ? { ...error, headers } : error;
  return { type, status, error: told, ...more };
}

/** The frame that the pipeline writes into a stream that breaks. */
function brokenFrame(body: ErrorBody): string {
  return `data: ${JSON.stringify(frameOf(body, statusOf(body.error.code)))}\n\n`;
}

const PROVIDER_FAILED = 502;

/**
 * The frame of a stream's event: as it came, but an error in the one shape that errors have here;
 * undefined for one that is no JSON and says nothing.
 */
export function frameOfEvent({
  data = '',
  event: name,
}: Pick<Frame, 'data' | 'event'>): { text: string; is_error: boolean } | undefined {
  const is_named = name === 'error';
  // Nearly no event says any of this, and none of the usual ones needs to be read.
  const is_usual = data.includes('"choices"') || data.includes('"type"');
  if (!is_named && is_usual && data.startsWith('{') && !data.includes('error')) {
    return { text: data, is_error: false };
  }
  const event = parsed(data);
  if (event === undefined && !is_named) return undefined;
  const said = event ?? { message: data };
  const is_words = said.choices === undefined && said.type === undefined && isOnlyWords(said);
  if (said.type === 'response.failed' || !(is_named || is_words || saysFailure(said))) {
    return { text: data, is_error: false };
  }
  if (said.type === 'error' && typeof said.status === 'number') {
    return { text: data, is_error: true };
  }
  const { message, code, type, param } = failureInside(said);
  const told = { type: type ?? 'api_error', code, message, param };
  const error = isObject(said.error) ? said.error : told;
  const { sequence_number } = said;
  const frame = { type: 'error', status: PROVIDER_FAILED, error, sequence_number };
  return { text: JSON.stringify(frame), is_error: true };
}

function parsed(data: string): Body | undefined {
  try {
    const value = JSON.parse(data) as unknown;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A frame with the lane it belongs to. */
export function inLane(frame: string, stream_id: string | undefined): string {
  if (stream_id === undefined || !frame.startsWith('{')) return frame;
  const member = `{"stream_id":${JSON.stringify(stream_id)}`;
  const is_empty = /^\{\s*\}/.test(frame);
  return `${member}${is_empty ? '' : ','}${frame.slice(1)}`;
}

function chatDone({ usage = nothing_used, usage_source }: Outcome): Body {
  const { prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens } = usage;
  return {
    type: 'chat.completion.done',
    usage: {
      prompt_tokens,
      completion_tokens,
      total_tokens: prompt_tokens + completion_tokens,
      prompt_tokens_details: { cached_tokens },
      completion_tokens_details: { reasoning_tokens },
    },
    // If the provider gave no usage, this is the charge.
    is_estimated: usage_source === 'estimated',
  };
}
