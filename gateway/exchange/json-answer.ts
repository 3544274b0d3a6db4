import type { AppError } from '../../domain/errors';
import type { Funded } from '../call/call';
import { isAnswer, type Measured } from '../families/reader';
import { costHeaders } from '../stages/cost';
import { withCost } from '../stages/cost-member';
import { blocked, type Checked, checkAnswer, isGuarded } from '../stages/policies';
import { readerOf } from '../stages/stored';
import { isOnlyWords, saysFailure } from '../upstreams/failures';
import { type Answer, type Ended, type Head, open, picked } from './answer';
import { announced, type Charge, trail } from './charge';
import { codingOf, createJsonMeter, WHOLE_MAX_BYTES, type Whole } from './meter';
import type { Valve } from './valve';

const too_long: Checked = { violation: { policy: 'dlp-filter', rule: 'length' } };
// How an error begins that is too long to be read.
const begins_with_error = /^\s*\{\s*"error"\s*:\s*[^\sn]/;

/**
 * A JSON answer, or a text. Nothing of it is given on before it is known to be an answer; one that
 * is too long to be kept is judged by its beginning. `packed` gives the bytes of a compressed one,
 * which go on as they came. `charge` settles a call that asks for its cost.
 */
export class JsonAnswer implements Answer {
  private readonly call: Funded;
  private readonly valve: Valve;
  private readonly head: Head;
  private readonly packed: () => Buffer | undefined;
  private readonly charge: Charge | undefined;
  private readonly meter;
  private chunks: Buffer[] = [];
  private has_begun = false;
  private is_object = false;

  constructor(
    call: Funded,
    valve: Valve,
    head: Head,
    given: { packed: () => Buffer | undefined; charge: Charge | undefined },
  ) {
    this.call = call;
    this.valve = valve;
    this.head = head;
    this.packed = given.packed;
    this.charge = given.charge;
    this.meter = createJsonMeter(readerOf(call));
  }

  push(chunk: Buffer): void {
    this.meter.push(chunk);
    if (this.has_begun) this.valve.write(chunk);
    else if (this.meter.bytes() <= WHOLE_MAX_BYTES) this.chunks.push(chunk);
    else this.passOn(chunk);
  }

  isMeasured(): boolean {
    return false;
  }

  async end(error: Error | undefined): Promise<Ended> {
    const whole = this.meter.read();
    const { measured } = whole;
    measured.is_usage_partial = error !== undefined;
    if (this.has_begun) {
      await trail(this.call, this.charge, measured);
      if (error === undefined) this.valve.end();
      else this.call.ctx.res.destroy();
      return { measured };
    }
    // What a client no longer waits for was delivered to this gateway as far as it came.
    if (error !== undefined) {
      return this.call.client_is_gone ? { measured } : { nothing: { error } };
    }
    return this.judge(whole);
  }

  private async judge({ measured, plain, text, body }: Whole): Promise<Ended> {
    const { call } = this;
    this.is_object = body !== undefined;
    if (body !== undefined && saysFailure(body)) return { nothing: { said: body } };
    if (measured.bytes > WHOLE_MAX_BYTES || !isAnswer(measured)) {
      if (measured.bytes > WHOLE_MAX_BYTES && isGuarded(call))
        return this.refuse(measured, too_long);
      return { nothing: body !== undefined && isOnlyWords(body) ? { said: body } : {} };
    }
    if (!isGuarded(call)) {
      await this.give(plain, measured);
      return { measured };
    }
    const checked = await checkAnswer(call, text);
    if (checked.violation !== undefined) return this.refuse(measured, checked);
    await this.give(checked.text === text ? plain : Buffer.from(checked.text), measured);
    return { measured };
  }

  /** What was withheld is paid for too, so its cost is told. */
  private async refuse(measured: Measured, { violation }: Checked): Promise<Ended> {
    if (this.charge !== undefined) this.call.ctx.set(costHeaders(await this.charge(measured)));
    const refusal: AppError | undefined = violation && blocked(this.call, violation, 'output');
    return { measured, refusal };
  }

  /** The bytes as they came, unless they were changed or are to tell the cost. */
  private async give(plain: Buffer, measured: Measured): Promise<void> {
    const { call, valve, head, packed, charge } = this;
    if (call.client_is_gone) return;
    const cost = await charge?.(measured);
    if (call.client_is_gone) return;
    const told = cost && this.is_object ? withCost(plain.toString('utf8'), cost) : undefined;
    const is_whole = plain.length === measured.bytes && !isGuarded(call);
    const coding = codingOf(head.headers['content-encoding']);
    const came = told === undefined && is_whole && coding !== '' ? packed() : undefined;
    const as_it_came = came && takesCoding(call, coding) ? came : undefined;
    const body = as_it_came ?? (told === undefined ? plain : Buffer.from(told));
    const headers = { ...this.headers(), ...(charge && costHeaders(cost)) };
    headers['content-length'] = String(body.length);
    if (as_it_came) headers['content-encoding'] = coding;
    open(call, head.status, headers);
    valve.write(body);
    valve.end();
  }

  /** It is too long to be judged whole. A policy that cannot read it refuses it at its end. */
  private passOn(chunk: Buffer): void {
    const { call, valve, head, chunks } = this;
    const beginning = chunks[0]?.subarray(0, 256).toString('utf8') ?? '';
    if (isGuarded(call) || call.client_is_gone || begins_with_error.test(beginning)) return;
    this.has_begun = true;
    this.is_object = /^\s*\{/.test(beginning);
    open(call, head.status, { ...this.headers(), ...announced(call) });
    for (const kept of [...chunks, chunk]) valve.write(kept);
    this.chunks = [];
  }

  /** An object is JSON, whatever its content type said. */
  private headers(): Record<string, string> {
    const kept = picked(this.head.headers);
    if (this.is_object && !/\bjson\b/i.test(kept['content-type'] ?? '')) {
      kept['content-type'] = 'application/json';
    }
    return kept;
  }
}

/** True if a client reads bytes of this coding (RFC 9110, 12.5.3); a socket has no coded frames. */
function takesCoding({ ctx }: Funded, coding: string): boolean {
  const given = ctx.req.headers['accept-encoding'];
  if (ctx.given !== undefined) return false;
  if (given === undefined) return true;
  const asked = String(given)
    .toLowerCase()
    .split(',')
    .map((one) => one.split(';').map((part) => part.trim()));
  const found =
    asked.find(([name]) => name === coding.trim().toLowerCase()) ??
    asked.find(([name]) => name === '*');
  const quality = found?.find((part) => part.startsWith('q='))?.slice('q='.length);
  return found !== undefined && Number(quality ?? 1) > 0;
}
