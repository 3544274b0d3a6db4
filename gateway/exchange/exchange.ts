import type { Dispatcher } from 'undici';
import { AppError } from '../../domain/errors';
import { createDeferred } from '../../runtime/deferred';
import type { Funded } from '../call/call';
import { nothing_measured } from '../families/reader';
import type { Translator } from '../families/translation';
import { outcomeOf, refused } from '../stages/outcome';
import { isGuarded } from '../stages/policies';
import { isOfTarget, upstreamError } from '../upstreams/errors';
import type { Candidate } from '../upstreams/targets';
import {
  type Answer,
  checkedAnswer,
  collected,
  type Headers,
  type Refusal,
  streamAnswer,
  wholeAnswer,
} from './answers';
import { asksUsage } from './outgoing';
import { Valve } from './valve';

// How long and how much is read on behalf of a client that has gone, for the usage at the answer's
// end.
const DRAIN_MS = 30_000;
const DRAIN_BYTES = 1_048_576;

const empty = Buffer.alloc(0);
type Controller = Dispatcher.DispatchController;

/** What came in the place of an answer. */
export type Trouble = {
  /** The provider may have answered: the request was sent, and its end was not heard. */
  is_uncertain: boolean;
} & ({ error: AppError; refusal?: never } | { error?: never; refusal: Refusal });

/**
 * One request to an upstream and its answer to the client. undici calls the `on` methods as things
 * happen.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  private readonly over = createDeferred<Trouble | undefined>();
  readonly done = this.over.promise;
  private readonly call: Funded;
  private readonly candidate: Candidate;
  private refusal: Refusal | undefined;
  private controller: Controller | undefined;
  private has_given_up = false;
  private is_over = false;
  private answer: Answer | undefined;
  private translator: Translator | undefined;
  private drained_bytes = 0;
  private drain_timer: NodeJS.Timeout | undefined;

  constructor(call: Funded, candidate: Candidate) {
    this.call = call;
    this.candidate = candidate;
    call.onClientGone(() => this.clientGone());
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
      const translation = this.call.family.translations?.[this.candidate.target.shape];
      if (translation !== undefined) this.translate(translation.open(is_stream), headers);
      const { id, breaker } = this.candidate.target;
      if (breaker.answered())
        this.call.gateway.log.info({ target: id }, 'a circuit is closed again');
      const valve = new Valve(this.call, controller);
      const head = { status, headers };
      this.answer = is_stream
        ? streamAnswer(this.call, valve, head, {
            drops_usage: asksUsage(this.call, this.candidate),
            onBroken: (error) => controller.abort(error),
            onBlocked: () => this.clientGone(),
          })
        : isGuarded(this.call)
          ? checkedAnswer(this.call, valve, head)
          : wholeAnswer(this.call, valve, status, headers);
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    const bytes = this.translator === undefined ? chunk : this.translator.push(chunk);
    if (bytes.length > 0) this.answer?.push(bytes);
    if (!this.call.client_is_gone && !this.answer?.isRefused?.()) return;
    this.drained_bytes += chunk.length;
    if (this.drained_bytes > DRAIN_BYTES || this.answer?.isMeasured()) this.giveUp();
  }

  onResponseEnd(): void {
    this.endTranslation();
    void this.finish(undefined);
  }

  onResponseError(_controller: Controller, error: Error): void {
    // A part of a whole answer, in another wire's words, is nothing for a client, but it counts.
    if (this.call.client_is_gone) this.endTranslation();
    void this.finish(error);
  }

  private endTranslation(): void {
    const rest = this.translator?.end();
    if (rest !== undefined && rest.length > 0) this.answer?.push(rest);
  }

  /** Whatever reads the answer reads it as the family's own. */
  private translate(translator: Translator, headers: Headers): void {
    this.translator = translator;
    delete headers['content-length'];
    if (headers['content-encoding'] === undefined) return;
    // Nobody asked for that.
    const error = new AppError('upstream_failed', 'The provider compressed its answer.');
    this.controller?.abort(error);
  }

  /**
   * The client went away, or gets no more: what the upstream still says is read for its usage,
   * within bounds.
   */
  clientGone(): void {
    if (this.is_over || this.controller === undefined || this.drain_timer !== undefined) return;
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
      this.report(trouble, error);
      this.over.resolve(trouble);
    } catch (failure) {
      this.over.reject(failure);
    }
  }

  private async settleWith(error: Error | undefined): Promise<Trouble | undefined> {
    const { call, answer, refusal } = this;
    if (refusal !== undefined) return { is_uncertain: false, refusal };
    if (answer === undefined) {
      // Without a word until we gave up, the provider may have done its whole work; a plain failure
      // costs nothing.
      if (this.has_given_up) call.outcome = await outcomeOf(call, this.candidate, nothing_measured);
      const is_sent = this.controller !== undefined && error?.name !== 'AppError';
      const { code } = (error ?? {}) as { code?: string };
      const { id } = this.candidate.target;
      call.gateway.log.warn({ target: id, code, err_message: error?.message }, 'a provider failed');
      return { is_uncertain: is_sent, error: upstreamError(error) };
    }
    const measured = await answer.end(error);
    if (measured === undefined) return { is_uncertain: true, error: upstreamError(error) };
    this.translator?.tell(measured);
    call.outcome = await outcomeOf(call, this.candidate, measured);
    const refused_answer = answer.refusal?.();
    if (refused_answer !== undefined && !call.client_is_gone) throw refused_answer;
    return undefined;
  }

  /** What this attempt says of its target. */
  private report(trouble: Trouble | undefined, error: Error | undefined): void {
    const { id, breaker } = this.candidate.target;
    const fail = () => {
      if (breaker.failed())
        this.call.gateway.log.warn({ target: id }, 'a circuit opens: its target fails every time');
    };
    if (this.call.client_is_gone || this.has_given_up) breaker.abandoned();
    // An answer that began and broke off speaks against its target too.
    else if (trouble === undefined && error === undefined) breaker.succeeded();
    else if (trouble === undefined) fail();
    else if (trouble.refusal === undefined || isOfTarget(trouble.refusal.status)) fail();
    else breaker.succeeded();
  }
}
