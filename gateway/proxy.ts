import type { Dispatcher } from 'undici';
import { AppError, toErrorBody } from '../domain/errors';
import type { Call } from './call';
import {
  type AnswerMeter,
  createByteMeter,
  createJsonMeter,
  createStreamMeter,
  decoderOf,
  type StreamMeter,
} from './meter';
import { outcomeOf, refused } from './outcome';
import { asksUsage } from './outgoing';
import type { Candidate } from './providers';
import { type Measured, nothing_measured } from './reader';
import { isOfTarget, upstreamError } from './upstream-errors';
import { Valve } from './valve';

// How long and how much is read on behalf of a client that has gone, for the usage at the answer's end.
const DRAIN_MS = 30_000;
const DRAIN_BYTES = 1_048_576;
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

const empty = Buffer.alloc(0);
type Controller = Dispatcher.DispatchController;
type Headers = Record<string, string | string[] | undefined>;

/** What came in the place of an answer. */
export type Trouble = {
  /** The provider may have answered: the request was sent, and its end was not heard. */
  is_uncertain: boolean;
} & ({ error: AppError; refusal?: never } | { error?: never; refusal: Refusal });

interface Refusal {
  status: number;
  headers: Headers;
  body: Buffer;
}

/** One request to an upstream and its answer to the client. undici calls the `on` methods as things happen. */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly done: Promise<Trouble | undefined>;
  private resolve!: (trouble: Trouble | undefined) => void;
  private reject!: (error: unknown) => void;
  private readonly call: Call;
  private readonly candidate: Candidate;
  private refusal: Refusal | undefined;
  private controller: Controller | undefined;
  private has_given_up = false;
  private is_over = false;
  private answer: Answer | undefined;
  private drained_bytes = 0;
  private drain_timer: NodeJS.Timeout | undefined;

  constructor(call: Call, candidate: Candidate) {
    this.call = call;
    this.candidate = candidate;
    call.onClientGone(() => this.clientGone());
    this.done = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
  }

  onRequestStart(controller: Controller): void {
    this.controller = controller;
    // Gone while the connection was made: nothing has been sent, so nothing is owed.
    if (this.call.client_is_gone) controller.abort(new Error('The client has gone.'));
    else this.call.outcome = refused;
  }

  onResponseStart(controller: Controller, status: number, headers: Headers): void {
    if (status < 200) return;
    if (status >= 300) {
      this.refusal = { status, headers, body: empty };
      this.answer = collected(this.refusal);
    } else if (/^text\/html/i.test(String(headers['content-type'] ?? ''))) {
      controller.abort(new AppError('upstream_failed', 'The provider answered with a web page.'));
    } else {
      const is_stream = /^text\/event-stream/i.test(String(headers['content-type'] ?? ''));
      this.candidate.target.breaker.succeeded();
      const valve = new Valve(this.call, controller);
      this.answer = is_stream
        ? streamAnswer(this.call, valve, status, headers, (error) => controller.abort(error))
        : wholeAnswer(this.call, valve, status, headers);
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    this.answer?.push(chunk);
    if (!this.call.client_is_gone) return;
    this.drained_bytes += chunk.length;
    if (this.drained_bytes > DRAIN_BYTES || this.answer?.isMeasured()) this.giveUp();
  }

  onResponseEnd(): void {
    void this.finish(undefined);
  }

  onResponseError(_controller: Controller, error: Error): void {
    void this.finish(error);
  }

  /** The client went away: what the upstream still says is read for its usage, within bounds. */
  clientGone(): void {
    if (this.is_over || this.controller === undefined) return;
    if (this.answer?.isMeasured()) {
      this.giveUp();
      return;
    }
    this.drain_timer = setTimeout(() => this.giveUp(), DRAIN_MS);
    this.controller.resume();
  }

  private giveUp(): void {
    this.has_given_up = true;
    this.abort(new Error('The client has gone.'));
  }

  abort(reason: Error): void {
    this.controller?.abort(reason);
  }

  private async finish(error: Error | undefined): Promise<void> {
    if (this.is_over) return;
    this.is_over = true;
    clearTimeout(this.drain_timer);
    try {
      const trouble = await this.settleWith(error);
      this.report(trouble);
      this.resolve(trouble);
    } catch (failure) {
      this.reject(failure);
    }
  }

  private async settleWith(error: Error | undefined): Promise<Trouble | undefined> {
    const { call, answer, refusal } = this;
    if (refusal !== undefined) return { is_uncertain: false, refusal };
    if (answer === undefined) {
      // Without a word until we gave up, the provider may have done its whole work; a plain failure costs nothing.
      if (this.has_given_up) call.outcome = await outcomeOf(call, nothing_measured);
      const is_sent = this.controller !== undefined && error?.name !== 'AppError';
      return { is_uncertain: is_sent, error: upstreamError(error) };
    }
    const measured = await answer.end(error);
    if (measured === undefined) return { is_uncertain: true, error: upstreamError(error) };
    call.outcome = await outcomeOf(call, measured);
    return undefined;
  }

  /** What this attempt says of its target. */
  private report(trouble: Trouble | undefined): void {
    const { breaker } = this.candidate.target;
    if (this.call.client_is_gone) breaker.abandoned();
    else if (trouble === undefined) breaker.succeeded();
    else if (trouble.refusal === undefined || isOfTarget(trouble.refusal.status)) breaker.failed();
    else breaker.succeeded();
  }
}

/** What becomes of an answer's bytes: a refusal, a JSON body or a stream. */
interface Answer {
  push(chunk: Buffer): void;
  /** All that a settlement needs is known. */
  isMeasured(): boolean;
  /** Ends the client's response; undefined where nothing is to be charged. Throws what the client is told instead. */
  end(error: Error | undefined): Promise<Measured | undefined>;
}

/** The body of an error status, as far as anybody reads it. */
function collected(refusal: Refusal): Answer {
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
function wholeAnswer(call: Call, valve: Valve, status: number, headers: Headers): Answer {
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

function streamAnswer(
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
