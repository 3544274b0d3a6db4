import type { Limited } from '../call/call';
import { inCallSpan } from '../call/spans';
import { serveBy } from '../stages/choose';
import { checkRefusal } from '../stages/policies';
import { namesOthers } from '../stages/stored';
import { isOfTarget, refusalOf, upstreamError } from '../upstreams/errors';
import type { Candidate } from '../upstreams/targets';
import { objectIn } from '../wire/values';
import { type Headers, picked } from './answers';
import { sentTo } from './outgoing';

// A count is one number; what is longer is none.
const ANSWER_MAX_BYTES = 65_536;
// What the client has to mend. All else says more of the provider than of the request.
const of_client = new Set([400, 413, 422]);
const passed_headers = ['anthropic-version', 'anthropic-beta'];

/** What a provider answered. */
interface Told {
  status: number;
  headers: Headers;
  bytes: Buffer;
}

/**
 * The stage that answers how many tokens a message has: as a provider of Messages counts them, else
 * as they are estimated here.
 */
export async function answerCount(call: Limited): Promise<void> {
  const over = new AbortController();
  call.onClientGone(() => over.abort());
  call.abort = (reason) => over.abort(reason);
  // Whose stored things are, only a reserve asks.
  const candidates = namesOthers(call) ? [] : call.candidates;
  for (const candidate of candidates) {
    const { breaker, shape } = candidate.target;
    if (shape !== 'anthropic' || !breaker.mayPass()) continue;
    const told = await askOf(call, candidate, over.signal);
    if (over.signal.aborted) {
      breaker.abandoned();
      break;
    }
    const input_tokens = told && countIn(told);
    if (input_tokens !== undefined) {
      breaker.succeeded();
      call.ctx.body = { input_tokens };
      return;
    }
    if (told === undefined || isOfTarget(told.status)) breaker.failed();
    else breaker.succeeded();
    if (told !== undefined && of_client.has(told.status)) return refuse(call, told);
  }
  if (call.client_is_gone) return;
  over.signal.throwIfAborted();
  call.ctx.body = { input_tokens: call.estimated_prompt_tokens };
}

/** Asks one candidate; undefined if no whole answer came. */
function askOf(
  call: Limited,
  candidate: Candidate,
  signal: AbortSignal,
): Promise<Told | undefined> {
  const { target, model } = candidate;
  serveBy(call, candidate);
  call.attempts += 1;
  const attributes = { provider: target.provider, model, target: target.id };
  return inCallSpan(call, 'upstream', attributes, async () => {
    try {
      return await ask(call, candidate, signal);
    } catch (error) {
      const { code, message } = upstreamError(error as Error);
      call.gateway.log.warn({ target: target.id, code, err_message: message }, 'a provider failed');
      return undefined;
    }
  });
}

async function ask(call: Limited, candidate: Candidate, signal: AbortSignal): Promise<Told> {
  const { target } = candidate;
  const headers: Record<string, string> = { 'content-type': 'application/json', ...target.headers };
  for (const name of passed_headers) {
    const value = call.ctx.req.headers[name];
    if (typeof value === 'string') headers[name] = value;
  }
  const answer = await target.pool.request({
    method: 'POST',
    path: target.base_path + call.family.upstream_path,
    headers,
    body: sentTo(call, candidate),
    headersTimeout: target.first_byte_ms,
    bodyTimeout: target.first_byte_ms,
    signal,
  });
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer.body) {
    bytes += (chunk as Buffer).length;
    if (bytes > ANSWER_MAX_BYTES) throw new Error('Its answer is too long for a count.');
    chunks.push(chunk as Buffer);
  }
  return { status: answer.statusCode, headers: answer.headers, bytes: Buffer.concat(chunks) };
}

/** The count that an answer gives; undefined if it is none. */
function countIn({ status, bytes }: Told): number | undefined {
  if (status !== 200) return undefined;
  const { input_tokens } = objectIn(bytes.toString('utf8')) ?? {};
  return Number.isSafeInteger(input_tokens) && (input_tokens as number) >= 0
    ? (input_tokens as number)
    : undefined;
}

async function refuse(call: Limited, { status, headers, bytes }: Told): Promise<void> {
  const body = await checkRefusal(call, status, refusalOf(status, headers, bytes));
  call.ctx.set(picked(headers));
  call.ctx.status = status;
  call.ctx.body = body;
}
