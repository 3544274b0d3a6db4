import { type AppError, type ErrorBody, errorHeaders, toErrorBody } from '../../domain/errors';
import { toWire } from '../../runtime/wire';
import type { Funded } from '../call/call';
import type { Family } from '../families/family';
import { isAnswer, type Measured } from '../families/reader';
import { costHeaders } from '../stages/cost';
import { blocked, checkFailure, guardStream } from '../stages/policies';
import { readerOf } from '../stages/stored';
import { withoutTokens } from '../upstreams/credentials/outbound';
import { accountRefused, ownKeyRefused, upstreamError } from '../upstreams/errors';
import { type Failure, failureInside } from '../upstreams/failures';
import type { Frame } from '../wire/sse';
import { type Body, isObject, stringOf } from '../wire/values';
import { type Answer, type Ended, type Head, open, picked } from './answer';
import { announced, type Charge, trail, trailPending } from './charge';
import { CostTail } from './cost-tail';
import { createStreamMeter } from './meter';
import { hiding, hidingAll } from './refusals';
import type { Valve } from './valve';

// What comes before the answer itself waits for it no longer than this: until then a stream that
// fails may still be another target's.
const LEAD_MS = 1_000;

interface StreamOptions {
  /** The client has not asked for the chunk of usage, which the gateway has asked for. */
  drops_usage: boolean;
  /** The first output has come. */
  onOutput: () => void;
  /** No more is read: the provider said that it failed before it said anything else. */
  onFailed: () => void;
  /** The client will get no more of it. */
  onBlocked: () => void;
  /** For a call that asks for its cost. */
  charge: Charge | undefined;
  /** What no client may read of an error. */
  secrets: () => readonly string[];
}

/** The events of a stream, as its provider sends them. */
export class StreamAnswer implements Answer {
  private readonly call: Funded;
  private readonly valve: Valve;
  private readonly head: Head;
  private readonly options: StreamOptions;
  private readonly guard;
  private readonly meter;
  /** Of a call that asks for its cost. */
  private readonly tail: CostTail | undefined;
  private lead: Buffer[] = [];
  private lead_timer: NodeJS.Timeout | undefined;
  private has_output = false;
  private has_begun = false;
  private refusal: AppError | undefined;
  /** What the client is told in the place of the provider's own words. */
  private told: AppError | ErrorBody | undefined;

  constructor(call: Funded, valve: Valve, head: Head, options: StreamOptions) {
    this.call = call;
    this.valve = valve;
    this.head = head;
    this.options = options;
    this.guard = guardStream(call);
    const choices = call.family.choices?.(call.request.body) ?? 1;
    this.meter = createStreamMeter(readerOf(call), {
      hides_usage: options.drops_usage,
      hidesFailure: (said, frame) => this.isHidden(said, frame),
      choices,
      guard: this.guard,
    });
    if (options.charge !== undefined) this.tail = this.openTail();
  }

  push(chunk: Buffer): void {
    this.give(this.toldOf(this.meter.push(chunk)));
  }

  isMeasured(): boolean {
    return isWhole(this.meter.measured());
  }

  isRefused(): boolean {
    return this.refusal !== undefined;
  }

  async end(error: Error | undefined): Promise<Ended> {
    try {
      return await this.conclude(error);
    } finally {
      this.tail?.drop();
    }
  }

  private async conclude(error: Error | undefined): Promise<Ended> {
    clearTimeout(this.lead_timer);
    const { call, meter } = this;
    if (error === undefined) meter.readRest();
    const measured = meter.measured();
    const is_well = endsWell(measured, error);
    if (is_well && this.refusal === undefined) this.give(this.toldOf(meter.rest()));
    if (this.refusal !== undefined) {
      return { measured, refusal: this.has_begun ? undefined : this.refusal };
    }
    if (call.client_is_gone) return { measured };
    if (!this.has_begun) {
      if (measured.failed !== undefined) return { nothing: { said: measured.failed } };
      if (!isAnswer(measured)) return { nothing: error === undefined ? {} : { error } };
    }
    this.begin();
    const cost = await trail(call, this.options.charge, measured);
    if (this.tail !== undefined && !call.client_is_gone) this.valve.write(this.tail.end(cost));
    // A provider that reports its failure itself needs no words of ours.
    if (this.told !== undefined) this.endWith(this.told);
    else if (measured.failed !== undefined || (is_well && isAnswer(measured))) this.valve.end();
    else this.endWith(upstreamError(error));
    return { measured };
  }

  /** The bytes that need not wait for the cost. */
  private toldOf(bytes: Buffer): Buffer {
    return this.tail === undefined ? bytes : this.tail.push(bytes);
  }

  private openTail(): CostTail {
    const hasEnded = () => {
      const { has_finish, is_done } = this.meter.measured();
      return has_finish || is_done;
    };
    const { cost_wait_ms } = this.call.gateway;
    return new CostTail(hasEnded, cost_wait_ms, (bytes) => this.give(bytes));
  }

  private give(bytes: Buffer): void {
    const { valve, guard, meter } = this;
    const { has_output, failed } = meter.measured();
    if (has_output && !this.has_output) {
      this.has_output = true;
      this.options.onOutput();
    }
    if (bytes.length > 0 && this.refusal === undefined) {
      if (this.has_begun) valve.write(bytes);
      else if (this.has_output) this.begin(bytes);
      else this.hold(bytes);
    }
    if (failed !== undefined && !this.has_begun && !this.has_output) this.options.onFailed();
    const violation = guard?.violation();
    if (violation === undefined || this.refusal !== undefined) return;
    this.refusal = blocked(this.call, violation, 'output');
    // What is still read is nothing that the client may be held up by.
    this.call.held_limits?.release();
    // What it costs is known once all of it was read.
    const asks_cost = this.options.charge !== undefined;
    if (this.has_begun) {
      if (asks_cost) trailPending(this.call);
      this.endWith(this.refusal);
    } else refuse(this.call, valve, this.refusal, asks_cost ? costHeaders(undefined) : {});
    this.options.onBlocked();
  }

  /**
   * What speaks of this gateway's account is no matter of its clients. What repeats a secret, what
   * names that account, and what their SDKs do not read as an error, is told in a shape that they
   * do. It passes the guard by, so that policies look at it here.
   */
  private isHidden(said: Body, frame: Frame): boolean {
    const { call } = this;
    const secrets = this.options.secrets();
    const given = failureInside(said);
    const hide = given.blame === 'account' ? hiding(secrets) : hidingAll(secrets);
    const failure = { ...given, message: hide(given.message) };
    const text = frame.bytes.toString('utf8');
    const is_told =
      failure.is_retold === true ||
      failure.message !== given.message ||
      hide(text) !== text ||
      !isReadable(call.family, said, frame);
    if (failure.blame === 'account') this.told = this.keyRefused(failure);
    else if (is_told && failure.message !== '')
      this.told = errorOf(checkFailure(call, failure), call.ctx.state.request_id as string);
    return this.told !== undefined;
  }

  /** Whose key it is decides who is told of it. */
  private keyRefused(failure: Failure): AppError {
    const { provider, own_key_id } = this.call.target;
    if (own_key_id === undefined) return accountRefused();
    const message = withoutTokens(failure.message);
    return ownKeyRefused(provider, checkFailure(this.call, { ...failure, message }));
  }

  /** Keeps what comes before the answer: a role, a name, a sign of life. */
  private hold(bytes: Buffer): void {
    this.lead.push(bytes);
    this.lead_timer ??= setTimeout(() => {
      if (this.refusal === undefined && this.meter.measured().failed === undefined) this.begin();
    }, LEAD_MS);
  }

  private begin(bytes?: Buffer): void {
    if (this.has_begun || this.call.client_is_gone) return;
    clearTimeout(this.lead_timer);
    this.has_begun = true;
    const { call, valve, head, lead } = this;
    const headers = picked(head.headers);
    // Its content type may have said something else than its bytes.
    if (!/^text\/event-stream/i.test(headers['content-type'] ?? '')) {
      headers['content-type'] = 'text/event-stream; charset=utf-8';
    }
    open(call, head.status, { ...headers, ...announced(call), 'x-accel-buffering': 'no' });
    valve.flushSoon();
    if (lead.length > 0) valve.write(bytes ? Buffer.concat([...lead, bytes]) : Buffer.concat(lead));
    else if (bytes !== undefined) valve.write(bytes);
    this.lead = [];
  }

  private endWith(error: AppError | ErrorBody): void {
    const { call, meter, valve } = this;
    const request_id = call.ctx.state.request_id as string;
    const body = 'request_id' in error ? error : toErrorBody(error, request_id);
    valve.write(Buffer.from(call.family.errorFrame(body, meter.measured())));
    this.valve.end();
  }
}

/** True for an error that the SDKs of the family's wire throw with its words. */
function isReadable({ name, shapes }: Family, { type, error }: Body, frame: Frame): boolean {
  const has_words = isObject(error) && stringOf(error.message) !== '' && frame.json !== undefined;
  if (shapes[0] === 'anthropic') return type === 'error' && has_words && frame.event === 'error';
  return has_words || (name === 'responses' && stringOf(type) !== '');
}

/** A provider's failure as the body of an error. */
function errorOf({ message, code, type, param, status }: Failure, request_id: string): ErrorBody {
  const kind = type ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return { type: 'error', error: { message, code, type: kind, param }, request_id } as ErrorBody;
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
function refuse(
  call: Funded,
  valve: Valve,
  refusal: AppError,
  headers: Record<string, string>,
): void {
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
    ...headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(body.length),
  });
  valve.write(body);
  valve.end();
}
