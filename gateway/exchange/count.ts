import type { Limited } from '../call/call';
import { inCallSpan } from '../call/spans';
import { serveBy } from '../stages/choose';
import { namesOthers } from '../stages/stored';
import { answerTo, secretsIn } from '../upstreams/credentials/outbound';
import { refusedBody, upstreamError } from '../upstreams/errors';
import { type Candidate, serves } from '../upstreams/target';
import { isObject } from '../wire/values';
import { sentTo } from './outgoing';
import { answerRefusal, type Refusal, type Refused, readRefusal, withoutSecrets } from './refusals';

// What the client has to mend. All else says more of the provider than of the request.
const of_client = new Set([400, 413, 422]);
// Providers that count what a message has.
export const counted_there = { name: 'messages_count_tokens', shapes: ['anthropic'] } as const;
// A count is one number; what is longer is none.
const ANSWER_MAX_BYTES = 65_536;

/** What a provider answered, and what proved to it who asks. */
interface Told extends Refusal {
  secrets: readonly string[];
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
    const { breaker } = candidate.target;
    if (!countsThere(call, candidate.target) || !breaker.mayPass()) continue;
    const told = await askOf(call, candidate, over.signal);
    if (over.signal.aborted) {
      breaker.abandoned();
      break;
    }
    const input_tokens = told && countIn(told);
    if (input_tokens !== undefined) {
      breaker.succeeded();
      return answer(call, input_tokens);
    }
    const refused = told && refusedBy(told);
    // A provider that cannot count may well answer: what it says here is nothing of its messages.
    if (refused === undefined) breaker.failed();
    else breaker.abandoned();
    const is_mistake = of_client.has(refused?.refusal.status ?? 0);
    if (refused?.failure.blame === 'client' && is_mistake) return answerRefusal(call, refused);
  }
  if (call.client_is_gone) return;
  over.signal.throwIfAborted();
  answer(call, call.estimated_prompt_tokens);
}

/** True if a provider counts, and takes what the request does not do without. */
function countsThere({ request }: Limited, target: Candidate['target']): boolean {
  const { needs_betas, lost_in_counts = [] } = target.wire;
  const needed = needs_betas?.(request.body) ?? [];
  return serves(target, counted_there) && !needed.some((beta) => lost_in_counts.includes(beta));
}

function answer({ ctx, asks_cost }: Limited, input_tokens: number): void {
  // A count is priced in no currency.
  if (asks_cost) ctx.set('x-svc-cost', '0');
  ctx.body = { input_tokens };
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
  const { path, headers, body } = sentTo(call, candidate);
  return answerTo(target.credential, { method: 'POST', path, body }, async (signed) => {
    const answer = await target.pool.request({
      origin: target.origin,
      method: 'POST',
      path,
      headers: { ...headers, ...signed },
      body,
      headersTimeout: target.first_byte_ms,
      bodyTimeout: target.first_byte_ms,
      signal,
    });
    const { statusCode: status, headers: told } = answer;
    const secrets = secretsIn({ ...target.credential.headers, ...signed }, target.secrets);
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of answer.body) {
      bytes += (chunk as Buffer).length;
      if (bytes <= ANSWER_MAX_BYTES) {
        chunks.push(chunk as Buffer);
        continue;
      }
      // Some servers repeat what they refuse, so the length of an error is the client's doing.
      if (status >= 400) return { status, headers: {}, body: Buffer.alloc(0), secrets };
      throw new Error('Its answer is too long for a count.');
    }
    return { status, headers: told, body: Buffer.concat(chunks), secrets };
  });
}

function refusedBy({ secrets, ...refusal }: Told): Refused {
  return withoutSecrets(readRefusal(refusal), secrets);
}

/** The count that an answer gives; undefined if it is none. */
function countIn({ status, headers, body }: Refusal): number | undefined {
  if (status !== 200) return undefined;
  const read = refusedBody(body, headers['content-encoding']);
  const { input_tokens } = isObject(read?.json) ? read.json : {};
  return Number.isSafeInteger(input_tokens) && (input_tokens as number) >= 0
    ? (input_tokens as number)
    : undefined;
}
