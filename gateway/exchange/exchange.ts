import type { Dispatcher } from 'undici';
import { AppError } from '../../domain/errors';
import { createDeferred } from '../../runtime/deferred';
import type { Funded } from '../call/call';
import type { Cost } from '../call/cost';
import { isAnswer, type Measured, nothing_measured } from '../families/reader';
import type { Unframer } from '../providers/kind';
import { outcomeOf, refused } from '../stages/outcome';
import { clockHint } from '../upstreams/credentials/hints';
import { withoutTokens } from '../upstreams/credentials/outbound';
import { upstreamError } from '../upstreams/errors';
import { failureInside, speaksAgainst } from '../upstreams/failures';
import type { Candidate } from '../upstreams/target';
import { jsonOf } from '../wire/values';
import type { Head, Headers, NoAnswer } from './answer';
import { charged } from './charge';
import { failed_early, Incoming } from './incoming';
import { ownRefusal, type Refusal, type Refused, readRefusal, withoutSecrets } from './refusals';
import { Valve } from './valve';

// How long and how much is read on behalf of a client that has gone, for the usage at the answer's
// end.
const DRAIN_MS = 30_000;
const DRAIN_BYTES = 1_048_576;
// How much of an error is read, and for how long.
const REFUSAL_MAX_BYTES = 1_048_576;
const REFUSAL_MS = 5_000;

const endless = new Error('The error of the provider does not end.');
const gone = new Error('The client has gone.');
type Controller = Dispatcher.DispatchController;

/** What came in the place of an answer. */
export type Trouble = {
  /** The provider may have answered: the request was sent, and its end was not heard. */
  is_uncertain: boolean;
  /** The provider refused a credential that has been renewed since. */
  is_stale?: boolean;
} & ({ error: AppError; failure?: never; refusal?: never } | ({ error?: never } & Refused));

/** What a target's kind has of its own. */
interface Ways {
  /** Says whether a refusal is one of a credential that another attempt has anew. */
  isStale: (refusal: Refusal) => boolean;
  openUnframer: (() => Unframer) | undefined;
  /** What proves who asks, of which no client reads. */
  secrets: () => readonly string[];
}

/**
 * One request to an upstream and its answer to the client. undici calls the `on` methods as things
 * happen.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  private readonly over = createDeferred<Trouble | undefined>();
  readonly done = this.over.promise;
  private readonly call: Funded;
  private readonly candidate: Candidate;
  private refusal: Head | undefined;
  private refused_chunks: Buffer[] = [];
  private refused_bytes = 0;
  private refusal_timer: NodeJS.Timeout | undefined;
  private controller: Controller | undefined;
  private aborted: Error | undefined;
  private has_given_up = false;
  private is_over = false;
  private head: Head | undefined;
  private incoming: Incoming | undefined;
  private is_charged = false;
  private drained_bytes = 0;
  private drain_timer: NodeJS.Timeout | undefined;
  private readonly ways: Ways;

  constructor(call: Funded, candidate: Candidate, ways: Ways) {
    this.call = call;
    this.candidate = candidate;
    this.ways = ways;
    call.onClientGone(() => this.clientGone());
  }

  onRequestStart(controller: Controller): void {
    this.controller = controller;
    // Gone while the connection was made: nothing has been sent, so nothing is owed.
    if (this.call.client_is_gone) controller.abort(gone);
    else if (this.aborted !== undefined) controller.abort(this.aborted);
    else this.call.outcome = refused;
  }

  onResponseStart(controller: Controller, status: number, headers: Headers): void {
    if (status < 200) return;
    if (status >= 300) {
      this.refusal = { status, headers };
      // Nobody waits for the end of an error.
      this.refusal_timer = setTimeout(() => this.abort(endless), REFUSAL_MS);
    } else {
      this.head = { status, headers };
      const valve = new Valve(this.call, controller);
      const options = {
        onOutput: () => this.answered(),
        stop: (error: Error) => controller.abort(error),
        onBlocked: () => this.clientGone(),
        openUnframer: this.ways.openUnframer,
        secrets: this.ways.secrets,
        charge: this.call.asks_cost ? (measured: Measured) => this.charge(measured) : undefined,
      };
      this.incoming = new Incoming(this.call, this.candidate, { head: this.head, valve, options });
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.refusal !== undefined) this.collect(chunk);
    this.incoming?.push(chunk);
    if (!this.call.client_is_gone && !this.incoming?.isRefused()) return;
    this.drained_bytes += chunk.length;
    if (this.drained_bytes > DRAIN_BYTES || this.isMeasured()) this.giveUp();
  }

  onResponseEnd(): void {
    void this.finish(undefined);
  }

  onResponseError(_controller: Controller, error: Error): void {
    void this.finish(error);
  }

  /** It cannot be sent. */
  fail(error: AppError): void {
    void this.finish(error);
  }

  private collect(chunk: Buffer): void {
    this.refused_chunks.push(chunk);
    this.refused_bytes += chunk.length;
    if (this.refused_bytes > REFUSAL_MAX_BYTES) this.abort(endless);
  }

  /** All that a settlement needs is known. */
  private isMeasured(): boolean {
    return this.refusal !== undefined || this.incoming?.isMeasured() === true;
  }

  /** The beginning of an answer has come: the target works. */
  private answered(): void {
    const { id, breaker } = this.candidate.target;
    if (breaker.answered()) this.call.gateway.log.info({ target: id }, 'a circuit is closed again');
  }

  /**
   * The client went away, or gets no more: what the upstream still says is read for its usage,
   * within bounds.
   */
  clientGone(): void {
    if (this.is_over || this.drain_timer !== undefined) return;
    // Of what has not been sent nothing is owed.
    if (this.controller === undefined) void this.finish(gone);
    else if (this.isMeasured()) this.giveUp();
    else {
      this.drain_timer = setTimeout(() => this.giveUp(), DRAIN_MS);
      this.controller.resume();
    }
  }

  private giveUp(): void {
    this.has_given_up = true;
    this.abort(gone);
  }

  /** Ends the request, also one that still waits for a credential or a connection. */
  abort(reason: Error): void {
    this.aborted ??= reason;
    if (this.controller === undefined) void this.finish(reason);
    else this.controller.abort(reason);
  }

  private async finish(error: Error | undefined): Promise<void> {
    if (this.is_over) return;
    this.is_over = true;
    clearTimeout(this.drain_timer);
    clearTimeout(this.refusal_timer);
    try {
      this.over.resolve(await this.settleWith(error));
    } catch (failure) {
      // Whatever went wrong here, another request may try the target.
      this.candidate.target.breaker.abandoned();
      this.over.reject(failure);
    }
  }

  private async settleWith(error: Error | undefined): Promise<Trouble | undefined> {
    const { refusal } = this;
    if (refusal !== undefined) {
      const body = Buffer.concat(this.refused_chunks);
      return this.failedBy(readRefusal({ ...refusal, body }));
    }
    // What failed early said so itself; that it was broken off then is nobody's fault.
    const broken = error === failed_early ? undefined : error;
    const ended = await this.incoming?.end(broken);
    if (ended === undefined) return this.broke(broken);
    const { call, candidate } = this;
    if (ended.nothing !== undefined) return this.noAnswer(ended.nothing);
    const { measured, refusal: withheld } = ended;
    if (!this.is_charged)
      call.outcome = await outcomeOf(call, candidate, measured, this.has_given_up);
    const is_broken = broken !== undefined || measured.failed !== undefined;
    if (call.client_is_gone || this.has_given_up) candidate.target.breaker.abandoned();
    // An answer that began and broke off speaks against its target too.
    else if (is_broken || !isAnswer(measured)) this.countFailure();
    else this.countSuccess();
    if (withheld !== undefined && !call.client_is_gone) throw withheld;
    return undefined;
  }

  /** Settles the call ahead of its end, for a client that is told the cost with its answer. */
  private async charge(measured: Measured): Promise<Cost | undefined> {
    const { call, candidate } = this;
    this.is_charged = true;
    call.outcome = await outcomeOf(call, candidate, measured, this.has_given_up);
    return charged(call);
  }

  /** It failed before anything of an answer came. */
  private async broke(error: Error | undefined): Promise<Trouble> {
    const { call, candidate } = this;
    // Without a word until we gave up, the provider may have done its whole work; a plain failure
    // costs nothing.
    if (this.has_given_up) {
      call.outcome = await outcomeOf(call, candidate, nothing_measured, true);
    }
    const is_sent = this.controller !== undefined && error?.name !== 'AppError';
    const { code } = (error ?? {}) as { code?: string };
    const { id, breaker, troubles } = candidate.target;
    if (troubles) troubles.refusal = undefined;
    call.gateway.log.warn({ target: id, code, err_message: error?.message }, 'a provider failed');
    if (call.client_is_gone || this.has_given_up) breaker.abandoned();
    else this.countFailure();
    return { is_uncertain: is_sent, error: upstreamError(error) };
  }

  /** What came is no answer, whatever its status says. */
  private noAnswer({ said, error }: NoAnswer): Trouble {
    if (this.call.client_is_gone) this.call.outcome = refused;
    if (said === undefined) {
      if (this.call.client_is_gone) this.candidate.target.breaker.abandoned();
      else this.countFailure();
      return error === undefined
        ? { is_uncertain: false, error: emptyAnswer() }
        : { is_uncertain: true, error: upstreamError(error) };
    }
    const failure = failureInside(said);
    const { status, headers } = this.head as Head;
    const body = Buffer.from(jsonOf(said));
    return this.failedBy({ failure, refusal: { status, headers, body } });
  }

  private failedBy(given: Refused): Trouble {
    const refused_by = withoutSecrets(given, this.ways.secrets());
    const { blame } = refused_by.failure;
    if (this.refusal !== undefined && this.ways.isStale(refused_by.refusal)) {
      this.candidate.target.breaker.abandoned();
      return { is_uncertain: false, is_stale: true, ...refused_by };
    }
    const { troubles } = this.candidate.target;
    if (troubles) troubles.refusal = ownRefusal(this.candidate.target, refused_by);
    // A limit of a minute is no operator's matter, however it is worded.
    const is_of_option = refused_by.failure.is_retold && refused_by.failure.status !== 429;
    if (blame === 'account' || (blame === 'moment' && is_of_option)) this.noteAccount(refused_by);
    if (this.call.client_is_gone || this.has_given_up) this.candidate.target.breaker.abandoned();
    else if (speaksAgainst(blame)) this.countFailure();
    else this.countSuccess();
    return { is_uncertain: false, ...refused_by };
  }

  /** What no client is told is for the operator. */
  private noteAccount({ failure, refusal }: Refused): void {
    const message = failure.original ?? failure.message;
    const { id: target, own_key_id: provider_key_id } = this.candidate.target;
    const whose = provider_key_id === undefined ? "this gateway's own account" : 'an own key';
    this.call.gateway.log.warn(
      { target, provider_key_id, status: refusal.status, err_message: withoutTokens(message) },
      `a provider refuses ${whose}${clockHint(message)}`,
    );
  }

  private countFailure(): void {
    const { id, breaker } = this.candidate.target;
    if (breaker.failed())
      this.call.gateway.log.warn({ target: id }, 'a circuit opens: its target fails every time');
  }

  private countSuccess(): void {
    this.answered();
    const { breaker, troubles } = this.candidate.target;
    if (troubles) troubles.refusal = undefined;
    breaker.succeeded();
  }
}

function emptyAnswer(): AppError {
  return new AppError('upstream_failed', 'The provider answered with nothing that is an answer.');
}
