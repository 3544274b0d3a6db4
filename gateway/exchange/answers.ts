import { type AppError, errorHeaders, toErrorBody } from '../../domain/errors';
import { toWire } from '../../runtime/wire';
import type { Funded } from '../call/call';
import type { Measured } from '../families/reader';
import { blocked, type Checked, checkAnswer, guardStream } from '../stages/policies';
import { readerOf } from '../stages/stored';
import { upstreamError } from '../upstreams/errors';
import {
  type AnswerMeter,
  createByteMeter,
  createJsonMeter,
  createStreamMeter,
  decoderOf,
} from './meter';
import type { Valve } from './valve';

const ERROR_BODY_MAX_BYTES = 1_048_576;
// A longer answer cannot be looked at as a whole.
const CHECKED_MAX_BYTES = 32 * 1_048_576;
const too_long: Checked = { violation: { policy: 'dlp-filter', rule: 'length' } };

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
  /** Ends the client's response; undefined if nothing is to be charged. */
  end(error: Error | undefined): Promise<Measured | undefined>;
  /** The client will get no more of it, whatever still comes. */
  isRefused?(): boolean;
  /**
   * The refusal that the client gets in its place, although it is charged; it may have got it
   * already.
   */
  refusal?(): AppError | undefined;
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
export function wholeAnswer(call: Funded, valve: Valve, status: number, headers: Headers): Answer {
  const { is_binary } = call.family;
  const encoding = headers['content-encoding'] as string | undefined;
  const meter: AnswerMeter = is_binary
    ? createByteMeter()
    : createJsonMeter(readerOf(call), encoding);
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

interface StreamOptions {
  /** The client has not asked for the chunk of usage, which the gateway has asked for. */
  drops_usage: boolean;
  onBroken: (error: Error) => void;
  /** The client will get no more of it. */
  onBlocked: () => void;
}

/** The events of a stream, as its provider sends them. */
export function streamAnswer(
  call: Funded,
  valve: Valve,
  { status, headers }: { status: number; headers: Headers },
  { drops_usage, onBroken, onBlocked }: StreamOptions,
): Answer {
  const guard = guardStream(call);
  const meter = createStreamMeter(readerOf(call), drops_usage, guard);
  const decoder = decoderOf(headers['content-encoding'] as string | undefined);
  let has_begun = false;
  let refusal: AppError | undefined;
  const begin = (): void => {
    if (has_begun || call.client_is_gone) return;
    has_begun = true;
    open(call, status, { ...picked(headers), 'x-accel-buffering': 'no' });
    valve.flushSoon();
  };
  const give = (bytes: Buffer): void => {
    if (bytes.length > 0) begin();
    if (refusal === undefined) valve.write(bytes);
    const violation = guard?.violation();
    if (violation === undefined || refusal !== undefined) return;
    refusal = blocked(call, violation, 'output');
    // What is still read is nothing that the client may be held up by.
    call.held_limits?.release();
    if (has_begun) endWith(refusal);
    else refuse(call, valve, refusal);
    onBlocked();
  };
  const endWith = (error: AppError): void => {
    valve.write(Buffer.from(errorFrame(call, error, meter.measured())));
    valve.end();
  };
  const pass = (chunk: Buffer): void => give(meter.push(chunk));
  // What is looked at may yet be refused, with a status of its own.
  if (guard === undefined) begin();
  // A stream is always given on as plain text: frames cannot be dropped or added under compression.
  if (decoder !== undefined) valve.decode(decoder, pass, onBroken);
  return {
    push: (chunk) => (decoder === undefined ? pass(chunk) : valve.feed(chunk)),
    isMeasured: () => isWhole(meter.measured()),
    isRefused: () => refusal !== undefined,
    async end(error) {
      if (decoder !== undefined) await valve.decoded(error);
      const is_well = endsWell(meter.measured(), error);
      if (refusal === undefined && is_well) give(meter.rest());
      if (refusal === undefined) {
        begin();
        // A provider that reports its failure itself needs no words of ours.
        if (is_well || meter.measured().has_failed) valve.end();
        else endWith(upstreamError(error));
      }
      return meter.measured();
    },
    refusal: () => (has_begun ? undefined : refusal),
  };
}

/** A whole JSON answer, which is looked at before any of it is given on. */
export function checkedAnswer(
  call: Funded,
  valve: Valve,
  { status, headers }: { status: number; headers: Headers },
): Answer {
  const decoder = decoderOf(headers['content-encoding'] as string | undefined);
  const chunks: Buffer[] = [];
  let bytes = 0;
  let refusal: AppError | undefined;
  let is_broken = false;
  const keep = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes <= CHECKED_MAX_BYTES) chunks.push(chunk);
  };
  if (decoder !== undefined) {
    valve.decode(decoder, keep, () => {
      is_broken = true;
    });
  }
  const check = async (plain: Buffer): Promise<void> => {
    const text = plain.toString('utf8');
    const { violation, text: checked } =
      bytes > CHECKED_MAX_BYTES ? too_long : await checkAnswer(call, text);
    if (violation !== undefined) refusal = blocked(call, violation, 'output');
    else if (!call.client_is_gone) {
      const body = checked === text ? plain : Buffer.from(checked);
      open(call, status, { ...picked(headers), 'content-length': String(body.length) });
      valve.write(body);
      valve.end();
    }
  };
  return {
    push: (chunk) => (decoder === undefined ? keep(chunk) : valve.feed(chunk)),
    isMeasured: () => false,
    async end(error) {
      if (decoder !== undefined) await valve.decoded(error);
      const plain = Buffer.concat(chunks);
      const meter = createJsonMeter(readerOf(call), undefined);
      meter.push(plain);
      const measured = await meter.measured();
      // What broke off is not given on, as nobody could look at it, but was delivered to this
      // gateway.
      const has_failed = error !== undefined || is_broken;
      measured.is_usage_partial = has_failed;
      if (!has_failed) await check(plain);
      else if (plain.length === 0 && !call.client_is_gone) return undefined;
      else refusal = upstreamError(error);
      return measured;
    },
    refusal: () => refusal,
  };
}

function errorFrame({ family, ctx }: Funded, error: AppError, found: Measured): string {
  return family.errorFrame(toErrorBody(error, ctx.state.request_id as string), found);
}

// Some providers never send [DONE]; then a finished choice and a clean end are enough. Some send
// usage so far with every chunk, so usage alone says nothing.
function endsWell(measured: Measured, error: Error | undefined): boolean {
  return isWhole(measured) || (measured.has_finish && error === undefined);
}

function isWhole({ is_done, has_finish, usage }: Measured): boolean {
  return is_done || (has_finish && usage !== undefined);
}

/**
 * Answers with the refusal alone, if nothing was sent yet. The client has it at once: what is still
 * read is for the money.
 */
function refuse(call: Funded, valve: Valve, refusal: AppError): void {
  const { ctx } = call;
  if (call.client_is_gone) return;
  if (ctx.refuseNow !== undefined) {
    ctx.refuseNow(refusal);
    return;
  }
  const error = toWire(toErrorBody(refusal, ctx.state.request_id as string));
  const body = Buffer.from(JSON.stringify(error));
  open(call, refusal.status, {
    ...errorHeaders(refusal),
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(body.length),
  });
  valve.write(body);
  valve.end();
}

/** Takes the response over from Koa and writes its head. */
function open({ ctx, gateway }: Funded, status: number, headers: Record<string, string>): void {
  ctx.respond = false;
  if (gateway.is_draining) headers.connection = 'close';
  ctx.res.writeHead(status, headers);
}

/** The headers of a provider's answer that clients are given. */
export function picked(headers: Headers): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of client_headers) {
    const value = headers[name];
    if (typeof value === 'string') kept[name] = value;
  }
  return kept;
}
