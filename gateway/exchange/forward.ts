import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../domain/errors';
import type { Funded } from '../call/call';
import { inCallSpan, noteTrouble } from '../call/spans';
import { serveBy } from '../stages/choose';
import { refused } from '../stages/outcome';
import type { Candidate } from '../upstreams/targets';
import { Exchange, type Trouble } from './exchange';
import { sentTo } from './outgoing';
import { answerRefusal } from './refusals';

// All that goes from the client to the upstream besides the body; its key, cookies and identity
// never do.
const upstream_headers = ['accept', 'openai-beta', 'anthropic-version', 'anthropic-beta'];

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
    const body = sentTo(call, candidate);
    for (let tried = 0; tried <= retries; tried += 1) {
      if (call.client_is_gone || !breaker.mayPass()) break;
      serveBy(call, candidate);
      call.attempts += 1;
      trouble = await attempt(call, candidate, body);
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
function attempt(call: Funded, candidate: Candidate, body: Buffer): Promise<Trouble | undefined> {
  if (call.span === undefined) return exchange(call, candidate, body);
  const { target, model } = candidate;
  const attributes = { provider: target.provider, model, target: target.id };
  return inCallSpan(call, 'upstream', attributes, async () => {
    const trouble = await exchange(call, candidate, body);
    if (trouble !== undefined) noteTrouble(call, trouble.error ?? trouble.failure);
    return trouble;
  });
}

/** One attempt: undefined if the client has got its answer, or has gone. */
async function exchange(
  call: Funded,
  candidate: Candidate,
  body: Buffer,
): Promise<Trouble | undefined> {
  const { target } = candidate;
  const { family, ctx } = call;
  const translation = family.translations?.[target.shape];
  const headers: Record<string, string> = {
    'content-type': call.request.outgoing.content_type ?? 'application/json',
    ...target.headers,
  };
  for (const name of upstream_headers) {
    const value = ctx.req.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  const exchanged = new Exchange(call, candidate);
  call.abort = (reason) => exchanged.abort(reason);
  target.pool.dispatch(
    {
      method: 'POST',
      path: `${target.base_path}${translation?.upstream_path ?? family.upstream_path}${target.query}`,
      headers,
      body,
      headersTimeout: target.first_byte_ms,
    },
    exchanged,
  );
  return exchanged.done;
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
  const soonest = Math.min(...candidates.map(({ target }) => target.breaker.opensIn()));
  return new AppError(
    'unavailable',
    `Every provider of the model "${request.model}" fails at present. Repeat the request shortly.`,
    { retry_after: Math.ceil(soonest / 1_000) },
  );
}
