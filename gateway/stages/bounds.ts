import type { Funded } from '../call/call';
import type { Price } from '../control-plane/client';
import type { Measured, Told } from '../families/reader';
import { withinTotals } from '../families/usage';
import type { Candidate } from '../upstreams/targets';

// What was sent and delivered bounds what a provider can have used. Above these bounds its figures
// are a fault or a break-in, and the client is not charged for those.

const PROMPT_FACTOR = 4;
const PROMPT_TOKENS = 10_000;
// The longest context in use, for input that the provider adds: of its tools, out of what it keeps,
// from what it fetches.
const CONTEXT_TOKENS = 2_000_000;

/**
 * The told usage within what the request allowed and the answer delivered. What is above is told in
 * an event, for a person, and not charged.
 */
export async function bounded(
  call: Funded,
  candidate: Candidate,
  told: Told,
  measured: Measured,
): Promise<Told> {
  const { rounds: _, uncapped_tokens: __, ...figures } = told;
  const prompt_tokens = promptWithin(call, told);
  const completion_tokens = await completionWithin(call, candidate, told, measured);
  if (prompt_tokens === told.prompt_tokens && completion_tokens === told.completion_tokens) {
    return figures;
  }
  const charged = withinTotals({ ...figures, prompt_tokens, completion_tokens });
  const { target, model } = candidate;
  call.gateway.log.warn({ target: target.id, told, charged }, 'usage above what is possible');
  call.gateway.events.emit(call, {
    type: 'request.bounded',
    payload: { target: target.id, provider: target.provider, model, told, charged },
  });
  return charged;
}

/** What was sent bounds what was read; what a provider keeps in its cache, no request shows. */
function promptWithin({ estimated_prompt_tokens, has_unseen_input }: Funded, told: Told): number {
  const { cached_tokens, cache_write_tokens, cache_write_1h_tokens = 0 } = told;
  const kept = cached_tokens + cache_write_tokens + cache_write_1h_tokens;
  const sent = PROMPT_FACTOR * estimated_prompt_tokens + PROMPT_TOKENS;
  const bound = has_unseen_input ? Math.max(sent, CONTEXT_TOKENS) : sent;
  return Math.min(told.prompt_tokens - kept, bound) + Math.min(kept, CONTEXT_TOKENS);
}

async function completionWithin(
  call: Funded,
  candidate: Candidate,
  told: Told,
  { bytes }: Measured,
): Promise<number> {
  const { family, request } = call;
  const { completion_tokens, rounds = 1, uncapped_tokens = 0 } = told;
  // The lengths of sounds are no caps that a provider was told.
  if (!family.has_output || family.read !== undefined) return completion_tokens;
  const cap = request.max_completion_tokens;
  if (cap !== null) return Math.min(completion_tokens, cap * rounds + uncapped_tokens);
  const { price, may_reason } = await priceOf(call, candidate);
  if (price?.max_output_tokens != null) {
    return Math.min(completion_tokens, price.max_output_tokens);
  }
  // No token is shorter than a byte, unless it is one that nobody sees.
  const seen = told.reasoning_tokens + told.audio_output_tokens + bytes;
  return may_reason ? completion_tokens : Math.min(completion_tokens, seen);
}

/** The price of what served, and whether the model may reason unseen. */
export async function priceOf(
  { gateway }: Funded,
  { target, model }: Candidate,
): Promise<{ price: Price | undefined; may_reason: boolean }> {
  const prices = await gateway.control_plane.prices();
  const price = prices && bestMatch(prices, target.provider, model);
  // Without a price list, the model may be one that reasons.
  return { price, may_reason: prices === undefined || price?.reasoning === true };
}

/** The price that counts for a model: the longest match, as the ledger finds it. */
export function bestMatch<Row extends { provider: string; model: string }>(
  rows: readonly Row[],
  provider: string,
  model: string,
): Row | undefined {
  const matching = rows.filter((row) => row.provider === provider && matches(row.model, model));
  return matching.sort((a, b) => b.model.length - a.model.length)[0];
}

function matches(pattern: string, model: string): boolean {
  return pattern.endsWith('*') ? model.startsWith(pattern.slice(0, -1)) : pattern === model;
}
