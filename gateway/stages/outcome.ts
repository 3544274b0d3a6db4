import type { Outcome, Usage } from '../../domain/ledger/calls';
import type { Funded } from '../call/call';
import type { Price } from '../control-plane/client';
import { encodingOf } from '../counting/tokenizer';
import { DEFAULT_MAX_COMPLETION_TOKENS } from '../families/caps';
import { withFees } from '../families/fees';
import type { Measured } from '../families/reader';
import { nothing_used } from '../families/usage';
import type { Candidate } from '../upstreams/targets';

/** The upstream refused or never answered: everything held goes back. */
export const refused: Outcome = {
  outcome: 'failed',
  usage: nothing_used,
  usage_source: 'upstream',
};

/**
 * What an answer is settled at: the upstream's usage, else an estimate, never nothing. A model that
 * reasons unseen may have used all that was held for it; for the others the prompt and the
 * delivered text are counted. Text counts as far as it goes, also above the request's cap, as
 * somebody got it; bytes that nobody could read are worth no more than the cap.
 */
export async function outcomeOf(
  call: Funded,
  candidate: Candidate,
  measured: Measured,
): Promise<Outcome> {
  const outcome = await tokensOf(call, candidate, measured);
  if (outcome === refused || outcome.usage === undefined) return outcome;
  return { ...outcome, usage: withFees(outcome.usage, measured, call.demand) };
}

async function tokensOf(call: Funded, candidate: Candidate, measured: Measured): Promise<Outcome> {
  const { usage, text } = measured;
  const audio_output_tokens = Math.ceil(measured.audio_tokens);
  const is_silent = text === '' && audio_output_tokens === 0;
  // It failed before it had said anything, so it did not bill for it either.
  if (measured.has_failed && is_silent && usage === undefined) return refused;
  const is_told = usage !== undefined && !measured.is_usage_partial;
  if (is_told && (usage.completion_tokens > 0 || is_silent)) {
    return { outcome: 'completed', usage: spoken(call, usage), usage_source: 'upstream' };
  }
  const prompt_tokens = usage?.prompt_tokens ?? call.estimated_prompt_tokens;
  const estimated = await estimatedCompletion(call, candidate, measured, audio_output_tokens);
  const completion_tokens = Math.max(usage?.completion_tokens ?? 0, estimated);
  const counted = {
    ...nothing_used,
    ...usage,
    prompt_tokens,
    completion_tokens,
    audio_output_tokens,
  };
  return {
    outcome: 'completed',
    usage: spoken(call, counted, measured),
    usage_source: 'estimated',
  };
}

// A second of speech at the lowest rates that are in use.
const SOUND_BYTES_LEAST = 500;

/**
 * Adds the units that are priced besides tokens. The length of a sound counts only if the provider
 * reports no tokens of it.
 */
function spoken({ units, request, family }: Funded, usage: Usage, untold?: Measured): Usage {
  if (units === undefined) return usage;
  const { characters, seconds: at_most } = units;
  if (untold === undefined) return { ...usage, characters };
  const heard = untold.bytes > 0 ? family.secondsIn?.(request.body, untold.bytes) : undefined;
  const seconds = untold.is_usage_partial ? at_most : (heard ?? at_most);
  // A model may write any time; no sound is longer than its bytes can hold.
  const least = Math.min(untold.seconds_least, request.raw.length / SOUND_BYTES_LEAST);
  return { ...usage, characters, seconds: Math.max(seconds, least) };
}

/**
 * The completion that the hold was made for: as the reserve said, else what a control plane that
 * does not say assumes.
 */
export function completionCeiling({ request, reservation }: Funded, price?: Price): number {
  const held = reservation.max_completion_tokens ?? request.max_completion_tokens;
  return held ?? Math.min(price?.max_output_tokens ?? Infinity, DEFAULT_MAX_COMPLETION_TOKENS);
}

async function estimatedCompletion(
  call: Funded,
  { target, model }: Candidate,
  { text, is_unread }: Measured,
  audio_tokens: number,
): Promise<number> {
  const { gateway, family } = call;
  if (!family.has_output) return 0;
  const text_tokens = await gateway.tokenizer.count([text], encodingOf(model));
  const counted = Math.ceil(text_tokens * target.token_factor) + audio_tokens;
  const prices = await gateway.control_plane.prices();
  const price = prices && bestMatch(prices, target.provider, model);
  // Without a price list, the model may be one that reasons.
  const may_reason = prices === undefined || price?.reasoning === true;
  if (!may_reason && !is_unread) return counted;
  const ceiling = completionCeiling(call, price);
  const within = is_unread ? Math.min(counted, ceiling) : counted;
  return may_reason ? Math.max(within, ceiling) : within;
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
