import type { Funded } from '../call/call';
import type { Price } from '../control-plane/client';
import { priceFor } from '../control-plane/prices';
import { hasCap, legacyChoices } from '../families/caps';
import type { Measured, Told } from '../families/reader';
import { withinTotals } from '../families/usage';
import type { Candidate } from '../upstreams/targets';

// What was sent and delivered bounds what a provider can have used. Above these bounds its figures
// are a fault or a break-in, and the client is not charged for those.

const PROMPT_FACTOR = 4;
const PROMPT_TOKENS = 10_000;
// A second of speech at the lowest rates that are in use.
export const SOUND_BYTES_LEAST = 500;
// Some providers bill a sound as longer than it is, up to a length.
const SECONDS_BILLED = 60;
// Far above what models write of a sound, or speak in a second.
const SOUND_FACTOR = 4;
const SPOKEN_TOKENS_PER_SECOND = 200;
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
  const seconds = secondsWithin(call, told);
  const is_within =
    prompt_tokens === told.prompt_tokens &&
    completion_tokens === told.completion_tokens &&
    seconds === told.seconds;
  if (is_within) return figures;
  const charged: Told = withinTotals({ ...figures, prompt_tokens, completion_tokens });
  if (seconds !== undefined) charged.seconds = seconds;
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
  const sounds = soundBound(call);
  if (sounds !== undefined) return Math.min(completion_tokens, sounds);
  const cap = request.max_completion_tokens;
  // Without a cap of its own, a request of several choices has one for its hold only; a legacy
  // completion has the provider's.
  if (cap !== null && (hasCap(request.body) || family.choices === legacyChoices)) {
    return Math.min(completion_tokens, cap * rounds + uncapped_tokens);
  }
  const { price, may_reason } = await priceOf(call, candidate);
  if (price?.max_output_tokens != null) {
    const choices = family.choices?.(request.body) ?? 1;
    return Math.min(completion_tokens, price.max_output_tokens * choices);
  }
  // No token is shorter than a byte, unless it is one that nobody sees.
  const seen = told.reasoning_tokens + told.audio_output_tokens + bytes;
  return may_reason ? completion_tokens : Math.min(completion_tokens, seen);
}

/** The most output where the length of a sound, and no cap, says how much there can be. */
function soundBound({ family, request, units }: Funded): number | undefined {
  if (family.read !== undefined) {
    return SOUND_FACTOR * (request.max_completion_tokens ?? 0) + PROMPT_TOKENS;
  }
  if (family.has_output) return undefined;
  // Embeddings and moderations have none.
  return units === undefined ? 0 : Math.ceil(units.seconds * SPOKEN_TOKENS_PER_SECOND);
}

/** The told length of a sound, within what its bytes can hold. */
function secondsWithin({ request, units }: Funded, { seconds }: Told): number | undefined {
  if (seconds === undefined || units === undefined) return seconds;
  const most = Math.max(units.seconds, request.raw.length / SOUND_BYTES_LEAST) + SECONDS_BILLED;
  return Math.min(seconds, most);
}

/** The price of what served, and whether the model may reason unseen. */
export async function priceOf(
  { gateway }: Funded,
  { target, model }: Candidate,
): Promise<{ price: Price | undefined; may_reason: boolean }> {
  const prices = await gateway.control_plane.prices();
  const price = prices && priceFor(prices, { provider: target.provider, model });
  // Without a price list, the model may be one that reasons.
  return { price, may_reason: prices === undefined || price?.reasoning === true };
}
