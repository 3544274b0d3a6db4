import type { IncomingMessage } from 'node:http';
import { AppError } from '../../domain/errors';
import type { Sound } from '../counting/sound';
import type { Arrival } from '../wire/read';
import type { Span, Spans } from '../wire/scan';
import type { Body } from '../wire/values';

const MODEL_CHARACTERS_MAX = 256;

/** The model's name. Throws 422 if it is missing and the family has no model of its own. */
export function modelOf(body: Body, otherwise?: string): string {
  const { model = otherwise } = body;
  if (typeof model === 'string' && model !== '' && model.length <= MODEL_CHARACTERS_MAX)
    return model;
  throw invalid('model', 'Name a model in "model", as GET /v1/models lists them.');
}

/** True if the client asks for a stream. */
export function streamOf({ stream, stream_options }: Body): boolean {
  if (!isFlag(stream)) throw invalid('stream', '"stream" must be true or false.');
  if (stream_options === undefined || stream_options === null) return stream === true;
  if (typeof stream_options !== 'object' || Array.isArray(stream_options)) {
    throw invalid('stream_options', '"stream_options" must be an object.');
  }
  if (isFlag((stream_options as Body).include_usage)) return stream === true;
  throw invalid('stream_options.include_usage', '"include_usage" must be true or false.');
}

function isFlag(value: unknown): boolean {
  return value === undefined || value === null || typeof value === 'boolean';
}

function invalid(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}

/** A request whose body is still to be read, with what reading it takes. */
export interface ArrivingRequest {
  req: IncomingMessage;
  arrival: Arrival;
  /** The longest form with a sound file, in bytes. */
  audio_limit_bytes: number;
  sound: Pick<Sound, 'lasts'>;
}

/** The request of a client, checked. */
export interface ClientRequest {
  raw: Buffer;
  body: Body;
  model: string;
  is_stream: boolean;
  /** The cap of its output, of all its choices; null: the ledger chooses one. */
  max_completion_tokens: number | null;
  /** How often the cap that the ledger chooses is held for; once if undefined. */
  uncapped_choices?: number | undefined;
  outgoing: Outgoing;
  /** Of a form: the same form has other bytes each time. */
  parts?: readonly FormPart[];
}

/** A part of a form, without the lines between parts. */
export interface FormPart {
  /** JSON of its name, and of a file's name and type. */
  head: string;
  bytes: Buffer;
}

/** A body on its way upstream: the client's bytes, or what a policy made of them. */
export interface Outgoing {
  bytes: Buffer;
  /** Where its deciding members stand, in characters of its text. */
  spans: Spans;
  /** `application/json` if absent. */
  content_type?: string;
  /** Where the model of a form stands, in bytes. */
  form_model?: Span;
}
