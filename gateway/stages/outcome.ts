import type { Outcome, Usage } from '../../domain/ledger/calls';
import { type Amount, amountOf } from '../../domain/ledger/price-lists';
import type { Funded } from '../call/call';
import type { Price } from '../control-plane/client';
import { encodingOf } from '../counting/tokenizer';
import { DEFAULT_MAX_COMPLETION_TOKENS } from '../families/caps';
import { withFees } from '../families/charged-fees';
import type { Demand } from '../families/demand';
import { isAnswer, type Measured, type Told } from '../families/reader';
import { nothing_used } from '../families/usage';
import type { Candidate } from '../upstreams/target';
import { bounded, priceOf, SOUND_BYTES_LEAST } from './bounds';
import { noteCost } from './cost';
import { noteAnswered } from './other-models';

/** The upstream refused or never answered: everything held goes back. */
export const refused: Outcome = {
  outcome: 'failed',
  usage: nothing_used,
  usage_source: 'upstream',
};

/**
 * What an answer is settled at: the upstream's usage, else an estimate, never nothing. A model that
 * reasons unseen may have used all that was held for it; for the others, and where the provider
 * says that it failed, the prompt and the delivered text are counted. Text counts as far as it
 * goes, also above the request's cap, as somebody got it; bytes that nobody could read are worth no
 * more than the cap. Nothing is charged where the provider failed before it delivered anything;
 * `gave_up` says that this gateway stopped it, for a client that had gone.
 */
export async function outcomeOf(
  call: Funded,
  candidate: Candidate,
  measured: Measured,
  gave_up: boolean,
): Promise<Outcome> {
  noteAnswered(call, candidate, measured.model);
  noteCost(call, candidate, measured.cost_told);
  const heard = heardBy(candidate, call.demand);
  const usage = measured.usage && byLife(measured.usage, heard);
  const outcome = await tokensOf(call, candidate, { ...measured, usage }, gave_up);
  if (outcome === refused || outcome.usage === undefined) return outcome;
  return { ...outcome, usage: withFees(outcome.usage, measured, heard) };
}

/** What a request asks for as its provider heard it: not of what its kind leaves out. */
function heardBy({ target }: Candidate, demand: Demand): Demand {
  const { service_tier, cache_life, ...asked } = demand;
  if (service_tier === undefined && cache_life === undefined) return demand;
  return {
    ...asked,
    service_tier: hears(target, 'service_tier') ? service_tier : undefined,
    cache_life: hears(target, 'cache_control') ? cache_life : undefined,
  };
}

/** False for a kind that leaves out this member, at the top or wherever it stands. */
export function hears({ wire }: Candidate['target'], member: string): boolean {
  const { drop = [], drop_anywhere = [] } = wire;
  return !drop.includes(member) && !drop_anywhere.includes(member);
}

async function tokensOf(
  call: Funded,
  candidate: Candidate,
  measured: Measured,
  gave_up: boolean,
): Promise<Outcome> {
  const { text } = measured;
  const audio_output_tokens = Math.ceil(measured.audio_tokens);
  const is_silent = text === '' && audio_output_tokens === 0;
  const has_failed = measured.failed !== undefined;
  // A client that has gone may have left a part of an answer.
  const has_come = isAnswer(measured) || gave_up || (call.client_is_gone && text !== '');
  if (has_failed ? is_silent && !measured.has_content : !has_come) return refused;
  const outcome = has_failed ? 'failed' : 'completed';
  const told = measured.usage && sharesOf(measured.usage, call);
  const usage = told && (await bounded(call, candidate, told, measured));
  if (usage && !measured.is_usage_partial && (usage.completion_tokens > 0 || is_silent)) {
    const is_whole = usage.prompt_tokens > 0 || usage.seconds !== undefined;
    if (!is_whole) usage.prompt_tokens = call.estimated_prompt_tokens;
    const lacks_length = usage.seconds === undefined && (await isByLength(call, candidate));
    const is_told = is_whole && !lacks_length && told === measured.usage;
    const usage_source = is_told ? 'upstream' : 'estimated';
    return {
      outcome,
      usage: spoken(call, usage, lacks_length ? measured : undefined),
      usage_source,
    };
  }
  const estimated = await estimatedCompletion(call, candidate, measured, audio_output_tokens);
  const counted = {
    ...nothing_used,
    ...usage,
    prompt_tokens: usage?.prompt_tokens || call.estimated_prompt_tokens,
    completion_tokens: Math.max(usage?.completion_tokens ?? 0, estimated),
    audio_output_tokens,
  };
  return { outcome, usage: spoken(call, counted, measured), usage_source: 'estimated' };
}

/** What was written to a cache is kept for as long as the answer says, else as was asked for. */
function byLife(
  { cache_write_untold_tokens: untold, ...told }: Told,
  { cache_life }: Demand,
): Told {
  if (untold === undefined || cache_life !== '1h') return told;
  const cache_write_tokens = told.cache_write_tokens - untold;
  const cache_write_1h_tokens = (told.cache_write_1h_tokens ?? 0) + untold;
  return { ...told, cache_write_tokens, cache_write_1h_tokens };
}

/** The usage as told; of a total of which nothing else was told, its shares. */
function sharesOf(usage: Told, { family, estimated_prompt_tokens }: Funded): Told {
  const { total_tokens: total, ...told } = usage;
  if (!total) return usage;
  const prompt_tokens = family.has_output ? Math.min(estimated_prompt_tokens, total) : total;
  return { ...told, prompt_tokens, completion_tokens: total - prompt_tokens };
}

/**
 * Adds the units that are priced besides tokens. The length of a sound counts only if the provider
 * reports no tokens of it.
 */
function spoken({ units, request, family }: Funded, usage: Usage, untold?: Measured): Usage {
  if (units === undefined) return usage;
  const { characters, seconds: at_most } = units;
  if (untold === undefined) return { ...usage, characters };
  const bytes = untold.sound_bytes ?? untold.bytes;
  const heard = bytes > 0 ? family.secondsIn?.(request.body, bytes, untold.head) : undefined;
  const seconds = untold.is_usage_partial ? at_most : (heard ?? at_most);
  // A model may write any time; no sound is longer than its bytes can hold.
  const least = Math.min(untold.seconds_least, request.raw.length / SOUND_BYTES_LEAST);
  return { ...usage, characters, seconds: Math.max(seconds, least) };
}

/** True for a sound that is priced by its length alone: tokens that are told cost nothing. */
async function isByLength(call: Funded, candidate: Candidate): Promise<boolean> {
  if (call.units === undefined) return false;
  const { price } = await priceOf(call, candidate);
  if (price === undefined) return false;
  const isPriced = (amount: Amount) => Number(amountOf(price, amount) ?? 0) > 0;
  return isPriced('per_minute') && !by_tokens.some(isPriced);
}

const by_tokens = [
  'input_per_1m',
  'audio_input_per_1m',
  'output_per_1m',
  'audio_output_per_1m',
] as const;

/**
 * The completion that the hold was made for: as the reserve said, else what a control plane that
 * does not say assumes.
 */
export function completionCeiling({ request, reservation }: Funded, price?: Price): number {
  const held = reservation.max_completion_tokens ?? request.max_completion_tokens;
  if (held !== null) return held;
  const one = Math.min(price?.max_output_tokens ?? Infinity, DEFAULT_MAX_COMPLETION_TOKENS);
  return one * (request.uncapped_choices ?? 1);
}

async function estimatedCompletion(
  call: Funded,
  candidate: Candidate,
  { text, is_unread, failed }: Measured,
  audio_tokens: number,
): Promise<number> {
  const { gateway, family } = call;
  const { target, model } = candidate;
  if (!family.has_output) return 0;
  const text_tokens = await gateway.tokenizer.count([text], encodingOf(model));
  const counted = Math.ceil(text_tokens * target.token_factor) + audio_tokens;
  const { price, may_reason } = await priceOf(call, candidate);
  if (!may_reason && !is_unread) return counted;
  const ceiling = completionCeiling(call, price);
  const within = is_unread ? Math.min(counted, ceiling) : counted;
  return may_reason && failed === undefined ? Math.max(within, ceiling) : within;
}
