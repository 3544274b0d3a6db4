import { type AppError, toErrorBody } from '../domain/errors';
import type { Call } from './call';
import {
  type AnswerMeter,
  createByteMeter,
  createJsonMeter,
  createStreamMeter,
  decoderOf,
  type StreamMeter,
} from './meter';
import { asksUsage } from './outgoing';
import type { Measured } from './reader';
import { upstreamError } from './upstream-errors';
import type { Valve } from './valve';

const ERROR_BODY_MAX_BYTES = 1_048_576;

// All that comes back.
const client_headers = [
  'content-type',
  'cache-control',
  'openai-processing-ms',
  'openai-version',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
];

export type Headers = Record<string, string | string[] | undefined>;

/** An error status of an upstream, with what it said. */
export interface Refusal {
  status: number;
  headers: Headers;
  body: Buffer;
}

/** What becomes of an answer's bytes: a refusal, a JSON body or a stream. */
export interface Answer {
  push(chunk: Buffer): void;
  /** All that a settlement needs is known. */
  isMeasured(): boolean;
  /** Ends the client's response; undefined where nothing is to be charged. Throws what the client is told instead. */
  end(error: Error | undefined): Promise<Measured | undefined>;
}

/** The body of an error status, as far as anybody reads it. */
export function collected(refusal: Refusal): Answer {
  return {
    push(chunk) {
      if (refusal.body.length + chunk.length > ERROR_BODY_MAX_BYTES) return;
      refusal.body = Buffer.concat([refusal.body, chunk]);
    },
    isMeasured: () => true,
    end: async () => undefined,
  };
}

/** JSON, or bytes that are only counted. */
export function wholeAnswer(call: Call, valve: Valve, status: number, headers: Headers): Answer {
  const { is_binary, reader } = call.family;
  const encoding = headers['content-encoding'] as string | undefined;
  const meter: AnswerMeter = is_binary ? createByteMeter() : createJsonMeter(reader, encoding);
  const head = picked(headers);
  if (encoding) head['content-encoding'] = encoding;
  const length = headers['content-length'];
  if (typeof length === 'string') head['content-length'] = length;
  let has_begun = false;
  const begin = (): void => {
    if (!has_begun && !call.client_is_gone) open(call, status, head);
    has_begun = true;
  };
  return {
    push(chunk) {
      begin();
      valve.write(chunk);
      meter.push(chunk);
    },
    // What bytes are worth was known before they came.
    isMeasured: () => is_binary === true,
    async end(error) {
      if (error !== undefined && !has_begun && !call.client_is_gone) return undefined;
      begin();
      if (error === undefined) valve.end();
      else call.ctx.res.destroy();
      const measured = await meter.measured();
      measured.is_usage_partial = error !== undefined;
      return measured;
    },
  };
}

/** The events of a stream, as its provider sends them. */
export function streamAnswer(
  call: Call,
  valve: Valve,
  status: number,
  headers: Headers,
  onBroken: (error: Error) => void,
): Answer {
  const meter: StreamMeter = createStreamMeter(call.family.reader, asksUsage(call, call));
  const decoder = decoderOf(headers['content-encoding'] as string | undefined);
  if (!call.client_is_gone) {
    open(call, status, { ...picked(headers), 'x-accel-buffering': 'no' });
    valve.flushSoon();
  }
  const pass = (chunk: Buffer): void => valve.write(meter.push(chunk));
  // A stream is always given on as plain text: frames cannot be dropped or added under compression.
  if (decoder !== undefined) valve.decode(decoder, pass, onBroken);
  return {
    push: (chunk) => (decoder === undefined ? pass(chunk) : valve.feed(chunk)),
    isMeasured: () => isWhole(meter.measured()),
    async end(error) {
      if (decoder !== undefined) await valve.decoded(error);
      if (endsWell(meter.measured(), error)) valve.write(meter.rest());
      else valve.write(Buffer.from(errorFrame(call, upstreamError(error), meter.measured())));
      valve.end();
      return meter.measured();
    },
  };
}

function errorFrame({ family, ctx }: Call, error: AppError, found: Measured): string {
  return family.errorFrame(toErrorBody(error, ctx.state.request_id as string), found);
}

// Some providers never send [DONE]; then a finished choice and a clean end are enough. Some send usage so far with every
// chunk, so usage alone says nothing.
function endsWell(measured: Measured, error: Error | undefined): boolean {
  return isWhole(measured) || (measured.has_finish && error === undefined);
}

function isWhole({ is_done, has_finish, usage }: Measured): boolean {
  return is_done || (has_finish && usage !== undefined);
}

/** Takes the response over from Koa and writes its head. */
function open({ ctx, gateway }: Call, status: number, headers: Record<string, string>): void {
  ctx.respond = false;
  if (gateway.is_draining) headers.connection = 'close';
  ctx.res.writeHead(status, headers);
}

export function picked(headers: Headers): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of client_headers) {
    const value = headers[name];
    if (typeof value === 'string') kept[name] = value;
  }
  return kept;
}
