import { setTimeout as sleep } from 'node:timers/promises';
import { AppError, isAppError } from '../../domain/errors';
import type { Funded } from '../call/call';
import { inCallSpan, noteTrouble } from '../call/spans';
import { serveBy } from '../stages/choose';
import { refused } from '../stages/outcome';
import { clockHint } from '../upstreams/credentials/hints';
import { refusesCredential, secretsIn, withoutTokens } from '../upstreams/credentials/outbound';
import type { Candidate } from '../upstreams/target';
import { Exchange, type Trouble } from './exchange';
import { type Sent, sentTo } from './outgoing';
import { answerRefusal, type Refusal } from './refusals';

/**
 * The stage that sends the request upstream and streams the answer back; it ends when both sides
 * are done. Until a byte of an answer has come, what fails goes to the next candidate: the client
 * is charged for the one that answers, once.
 */
export async function forward(call: Funded): Promise<void> {
  const { retries, backoff_ms } = call.snapshot.settings.providers.fallback;
  let trouble: Trouble | undefined;
  for (const candidate of call.candidates) {
    const { breaker } = candidate.target;
    const sent = sentTo(call, candidate);
    for (let tried = 0; tried <= retries; tried += 1) {
      if (call.client_is_gone || !breaker.mayPass()) break;
      serveBy(call, candidate);
      call.attempts += 1;
      trouble = await attempt(call, candidate, sent);
      // Nothing of an answer has come, and its client is there: nothing is charged.
      if (trouble !== undefined && !call.client_is_gone) call.outcome = refused;
      if (trouble === undefined || !mayGoOn(call, trouble)) return conclude(call, trouble);
      if (tried < retries) await pause(call, backoff_ms * 2 ** tried);
    }
  }
  if (trouble === undefined && !call.client_is_gone) throw allOpen(call);
  return conclude(call, trouble);
}

/** One exchange, in a span of its own if the call is traced. */
function attempt(call: Funded, candidate: Candidate, sent: Sent): Promise<Trouble | undefined> {
  if (call.span === undefined) return exchange(call, candidate, sent);
  const { target, model } = candidate;
  const attributes = { provider: target.provider, model, target: target.id };
  return inCallSpan(call, 'upstream', attributes, async () => {
    const trouble = await exchange(call, candidate, sent);
    if (trouble !== undefined) noteTrouble(call, trouble.error ?? trouble.failure);
    return trouble;
  });
}

/**
 * One attempt: undefined if the client has got its answer, or has gone. A credential that the
 * provider no longer takes is renewed within it, once.
 */
async function exchange(
  call: Funded,
  candidate: Candidate,
  sent: Sent,
): Promise<Trouble | undefined> {
  const trouble = await exchangeOnce(call, candidate, sent, true);
  if (trouble?.is_stale !== true || call.client_is_gone) return trouble;
  call.outcome = refused;
  return exchangeOnce(call, candidate, sent, false);
}

async function exchangeOnce(
  call: Funded,
  candidate: Candidate,
  { path, headers, body }: Sent,
  may_renew: boolean,
): Promise<Trouble | undefined> {
  const { origin, pool, credential, first_byte_ms, wire, secrets: of_settings } = candidate.target;
  let signed: Readonly<Record<string, string>> | undefined;
  const isStale = (refusal: Refusal) =>
    may_renew &&
    signed !== undefined &&
    refusesCredential(refusal) &&
    credential.refuse?.(signed) === true;
  const openUnframer = call.request.is_stream ? await wire.loadUnframer?.() : undefined;
  const secrets = () => secretsIn({ ...credential.headers, ...signed }, of_settings);
  const exchanged = new Exchange(call, candidate, { isStale, openUnframer, secrets });
  call.abort = (reason) => exchanged.abort(reason);
  let error: AppError | undefined;
  if (credential.headersFor !== undefined) {
    try {
      signed = await credential.headersFor({ method: 'POST', path, body });
    } catch (cause) {
      error = noCredential(call, candidate, cause);
    }
  }
  if (error !== undefined) exchanged.fail(error);
  else {
    pool.dispatch(
      {
        origin,
        method: 'POST',
        path,
        headers: signed === undefined ? headers : { ...headers, ...signed },
        body,
        headersTimeout: first_byte_ms,
      },
      exchanged,
    );
  }
  return exchanged.done;
}

/** Nothing can be sent; why is for the log alone, without what looks like a token. */
function noCredential(call: Funded, { target }: Candidate, cause: unknown): AppError {
  const { message = '' } = cause as Partial<Error>;
  if (isAppError(cause)) return cause;
  call.gateway.log.warn(
    { target: target.id, err_message: withoutTokens(message) },
    `there is no credential for a provider${clockHint(message)}`,
  );
  return new AppError('upstream_failed', 'The provider could not be asked.');
}

/**
 * True if another attempt may help: nothing of an answer has come, and nobody can have billed for
 * it.
 */
function mayGoOn(call: Funded, trouble: Trouble): boolean {
  if (call.client_is_gone || call.gateway.is_draining) return false;
  if (trouble.failure !== undefined) return trouble.failure.blame !== 'client';
  return !trouble.is_uncertain || call.snapshot.settings.providers.fallback.after_uncertain;
}

/** Answers the client with what the last attempt came to. */
async function conclude(call: Funded, trouble: Trouble | undefined): Promise<void> {
  if (trouble === undefined || call.client_is_gone) return;
  if (trouble.error !== undefined) throw trouble.error;
  const { code, type } = trouble.failure;
  call.provider_failure = { status: trouble.refusal.status, code: code ?? type };
  await answerRefusal(call, trouble);
}

/** Waits, but no longer than the client is there. */
async function pause({ onClientGone }: Funded, ms: number): Promise<void> {
  const gone = new AbortController();
  onClientGone(() => gone.abort());
  await sleep(ms, undefined, { signal: gone.signal }).catch(() => undefined);
}

function allOpen({ candidates, request }: Funded): AppError {
  const refusals = candidates.flatMap(({ target }) => target.troubles?.refusal ?? []);
  // Where another one merely fails, a repeat may help.
  if (refusals[0] !== undefined && refusals.length === candidates.length) return refusals[0];
  const soonest = Math.min(...candidates.map(({ target }) => target.breaker.opensIn()));
  return new AppError(
    'unavailable',
    `Every provider of the model "${request.model}" fails at present. Repeat the request shortly.`,
    { retry_after: Math.ceil(soonest / 1_000) },
  );
}
