import type { Funded } from '../call/call';
import type { Price } from '../control-plane/client';
import { priceFor } from '../control-plane/prices';
import type { Measured, Told } from '../families/reader';
import { withinTotals } from '../families/usage';
import type { Candidate } from '../upstreams/target';

// What was sent and delivered bounds what a provider can have used. Above these bounds its figures
// are a fault or a break-in, and the client is not charged for those.

const PROMPT_FACTOR = 4;
const PROMPT_TOKENS = 10_000;
// Some models make as many of one picture as others of thirty.
const PICTURE_TOKENS = 40_000;
// Some providers bill a sound as longer than it is, up to a length.
const SECONDS_BILLED = 60;
// A second of speech at the lowest rates that are in use.
export const SOUND_BYTES_LEAST = 500;
// The sound at an address, which no request shows: more than models listen to.
const SECONDS_UNSEEN = 86_400;
// Two readers of a file may differ about its length.
const READING_SLACK = 1.1;
// Far above what models write of a sound, or speak in a second.
const SOUND_FACTOR = 4;
const SPOKEN_TOKENS_PER_SECOND = 200;
// How often a model speaks within one request, what it writes to shorten a conversation, and what
// it thinks unseen, at most.
const ROUNDS_MAX = 100;
const UNCAPPED_MAX = 20_000;
const THOUGHTS_MAX = 16_384;
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
  const prompt_tokens = promptWithin(call, candidate, told);
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
function promptWithin(call: Funded, { target }: Candidate, told: Told): number {
  const { estimated_prompt_tokens, has_unseen_input, pictures } = call;
  const { cached_tokens, cache_write_tokens, cache_write_1h_tokens = 0 } = told;
  // Some wires count them beside the prompt, whatever was sent now; the others within it.
  const is_beside = target.shape === 'anthropic' || target.shape === 'converse';
  const kept = is_beside ? cached_tokens + cache_write_tokens + cache_write_1h_tokens : 0;
  const sent = PROMPT_FACTOR * estimated_prompt_tokens + PROMPT_TOKENS + pictures * PICTURE_TOKENS;
  const bound = has_unseen_input ? Math.max(sent, CONTEXT_TOKENS) : sent;
  return Math.min(told.prompt_tokens - kept, bound) + Math.min(kept, CONTEXT_TOKENS);
}

async function completionWithin(
  call: Funded,
  candidate: Candidate,
  told: Told,
  { bytes }: Measured,
): Promise<number> {
  const { completion_tokens } = told;
  const rounds = Math.min(told.rounds ?? 1, ROUNDS_MAX);
  const uncapped_tokens = Math.min(told.uncapped_tokens ?? 0, UNCAPPED_MAX);
  const sounds = soundBound(call);
  if (sounds !== undefined) return Math.min(completion_tokens, sounds);
  const cap = capSent(call, candidate);
  if (cap !== null) return Math.min(completion_tokens, cap * rounds + uncapped_tokens);
  const { price, may_reason } = await priceOf(call, candidate);
  if (price?.max_output_tokens != null) {
    const choices = call.request.uncapped_choices ?? 1;
    return Math.min(completion_tokens, price.max_output_tokens * choices);
  }
  // No token is shorter than a byte, unless it is one that nobody sees.
  const seen = Math.min(told.reasoning_tokens, THOUGHTS_MAX) + told.audio_output_tokens + bytes;
  return may_reason ? completion_tokens : Math.min(completion_tokens, seen);
}

/**
 * The cap that the provider was told, for all choices; null if it was told none. A legacy
 * completion has the provider's own, and another wire's may have one from its translation.
 */
function capSent({ family, request }: Funded, { target }: Candidate): number | null {
  return request.max_completion_tokens ?? family.translations?.[target.shape]?.default_cap ?? null;
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

/** The told length of a sound, within the length that what was sent may have. */
function secondsWithin(call: Funded, { seconds }: Told): number | undefined {
  if (seconds === undefined) return undefined;
  const { units, family, request } = call;
  const sent = family.mostSeconds?.(request.body) ?? units?.seconds ?? secondsSent(call);
  const most = sent * READING_SLACK + SECONDS_BILLED;
  return Math.min(seconds, most);
}

/** How long the sounds of a conversation may be at most. */
function secondsSent({ has_unseen_input, request }: Funded): number {
  return has_unseen_input ? SECONDS_UNSEEN : request.raw.length / SOUND_BYTES_LEAST;
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
