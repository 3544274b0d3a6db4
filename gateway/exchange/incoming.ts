import { AppError } from '../../domain/errors';
import type { Funded } from '../call/call';
import type { Translator } from '../families/translation';
import type { Unframer } from '../providers/kind';
import type { Candidate } from '../upstreams/target';
import type { Answer, Ended, Head } from './answer';
import type { Charge } from './charge';
import { JsonAnswer } from './json-answer';
import { type Kind, kindByType, kindOf } from './kinds';
import { decoderOf, WHOLE_MAX_BYTES } from './meter';
import { asksUsage } from './outgoing';
import { soundAnswer } from './sound-answer';
import { StreamAnswer } from './stream-answer';
import type { Valve } from './valve';

export interface IncomingOptions {
  /** The beginning of an answer has come. */
  onOutput: () => void;
  /** Nothing more needs to be read. */
  stop: (error: Error) => void;
  /** The client will get no more of it. */
  onBlocked: () => void;
  /** For a call that asks for its cost. */
  charge: Charge | undefined;
  /** For answers whose frames are not those of the family's wire. */
  openUnframer: (() => Unframer) | undefined;
  /** What no client may read of an error. */
  secrets: () => readonly string[];
}

// Answers of this type are in frames; its errors, and answers that are no streams, are plain JSON.
const framed = /^application\/vnd\.amazon\.eventstream/i;

const untold = () =>
  new AppError('upstream_failed', "The provider's answer could not be translated.");

/** A stream said that it failed before it said anything else. */
export const failed_early = new Error('The provider said that it failed.');

/**
 * The bytes of a good status: out of their compression, known for what they are by the first ones,
 * and into the family's own wire.
 */
export class Incoming {
  private readonly call: Funded;
  private readonly candidate: Candidate;
  private readonly head: Head;
  private readonly valve: Valve;
  private readonly options: IncomingOptions;
  /** The first bytes, until they say what they are. */
  private first: Buffer[] = [];
  private answer: Answer | undefined;
  private translator: Translator | undefined;
  private readonly is_packed: boolean;
  /** A compressed answer as it came, as long as it may be given on like that. */
  private packed: Buffer[] | undefined;
  private packed_bytes = 0;
  private broken: Error | undefined;
  private is_stream = false;
  private readonly unframer: Unframer | undefined;

  constructor(
    call: Funded,
    candidate: Candidate,
    { head, valve, options }: { head: Head; valve: Valve; options: IncomingOptions },
  ) {
    this.call = call;
    this.candidate = candidate;
    this.head = head;
    this.valve = valve;
    this.options = options;
    if (framed.test(this.contentType())) this.unframer = options.openUnframer?.();
    const decoder = decoderOf(head.headers['content-encoding']);
    this.is_packed = decoder !== undefined;
    if (decoder === undefined) return;
    this.packed = [];
    valve.decode(
      decoder,
      (chunk) => this.unframe(chunk),
      (error) => {
        this.broken = error;
        options.stop(error);
      },
    );
  }

  push(chunk: Buffer): void {
    if (!this.is_packed) {
      this.unframe(chunk);
      return;
    }
    this.packed?.push(chunk);
    this.packed_bytes += chunk.length;
    if (this.packed_bytes > WHOLE_MAX_BYTES) this.packed = undefined;
    this.valve.feed(chunk);
  }

  isMeasured(): boolean {
    return this.answer?.isMeasured() === true;
  }

  isRefused(): boolean {
    return this.answer?.isRefused?.() === true;
  }

  /** Undefined if it broke off before anything of it came. */
  async end(given: Error | undefined): Promise<Ended | undefined> {
    if (this.is_packed) await this.valve.decoded(given);
    // Compressed bytes may end before their content does, and frames too.
    let error = given ?? this.broken ?? this.endOfFrames();
    if (this.answer === undefined && (error === undefined || this.first.length > 0)) {
      this.begin(kindByType(this.contentType(), this.call.family), Buffer.concat(this.first));
    }
    try {
      this.passRest(error !== undefined);
    } catch (failure) {
      error ??= failure as Error;
    }
    const ended = await this.answer?.end(error);
    if (ended?.measured !== undefined) this.translator?.tell(ended.measured);
    const is_empty = ended?.nothing !== undefined && ended.nothing.said === undefined;
    // What could not be read may have been billed, so nobody else is asked.
    if (is_empty && this.translator?.hasFailed?.())
      return { nothing: { error: error ?? untold() } };
    return ended;
  }

  private unframe(chunk: Buffer): void {
    if (this.unframer === undefined) {
      this.take(chunk);
      return;
    }
    try {
      const events = this.unframer.push(chunk);
      if (events.length > 0) this.take(events);
    } catch (error) {
      // A damaged frame: nothing behind it can be read.
      this.broken = error as Error;
      this.options.stop(this.broken);
    }
  }

  private endOfFrames(): Error | undefined {
    try {
      this.unframer?.end();
      return undefined;
    } catch (error) {
      return error as Error;
    }
  }

  private take(chunk: Buffer): void {
    if (this.answer !== undefined) {
      this.pass(chunk);
      return;
    }
    this.first.push(chunk);
    const bytes = this.first.length === 1 ? chunk : Buffer.concat(this.first);
    const { family, request } = this.call;
    const asked = request.is_stream || request.body.stream_format === 'sse';
    const kind = kindOf(bytes, this.contentType(), { family, asked });
    if (kind !== undefined) this.begin(kind, bytes);
  }

  private begin(kind: Kind, bytes: Buffer): void {
    const { call, candidate, head, valve, options } = this;
    this.first = [];
    const translation = call.family.translations?.[candidate.target.shape];
    const { body } = call.request;
    const { estimated_prompt_tokens } = call;
    const choices = call.family.choices?.(body) ?? 1;
    const asked = { choices, body, estimated_prompt_tokens };
    const about = { headers: head.headers, model: candidate.upstream, ...asked };
    this.is_stream = kind === 'events';
    this.translator = translation?.open(this.is_stream, about);
    // Only what is given on as it came is needed as it came.
    if (kind !== 'json' || this.translator !== undefined) this.packed = undefined;
    if (kind === 'events') {
      this.answer = new StreamAnswer(call, valve, head, {
        drops_usage: asksUsage(call, candidate),
        onOutput: options.onOutput,
        onFailed: () => options.stop(failed_early),
        onBlocked: options.onBlocked,
        charge: this.charge(),
        secrets: options.secrets,
      });
    } else if (kind === 'sound') this.answer = soundAnswer(call, valve, head, options.charge);
    else {
      const packed = () => this.packed && Buffer.concat(this.packed);
      this.answer = new JsonAnswer(call, valve, head, { packed, charge: this.charge() });
    }
    this.pass(bytes);
  }

  /** Settles at what was measured, in the figures of the provider's own wire. */
  private charge(): Charge | undefined {
    const { charge } = this.options;
    return (
      charge &&
      ((measured) => {
        this.translator?.tell(measured);
        return charge(measured);
      })
    );
  }

  private pass(chunk: Buffer): void {
    try {
      const bytes = this.translator === undefined ? chunk : this.translator.push(chunk);
      if (bytes.length > 0) this.answer?.push(bytes);
    } catch (error) {
      // A translation may refuse what it cannot take.
      this.options.stop(error as Error);
    }
  }

  private passRest(is_broken: boolean): void {
    // A part of a whole answer, in another wire's words, is nothing for a client, but it counts.
    const is_read = !is_broken || this.call.client_is_gone || this.is_stream;
    const rest = is_read ? this.translator?.end(is_broken) : undefined;
    if (rest !== undefined && rest.length > 0) this.answer?.push(rest);
  }

  private contentType(): string {
    return String(this.head.headers['content-type'] ?? '');
  }
}
