import { traffic_tiers } from '../../providers/traffic';
import { type Body, countOf, isObject, listOf, stringOf } from '../../wire/values';
import type { Told } from '../reader';
import { withinTotals } from '../usage';

/**
 * The largest that the events of a stream tell of each count: what one of them leaves out, another
 * one told. Shares of a count are those of the event that told most of them.
 */
export function largest(known: Body | undefined, told: unknown): Body | undefined {
  if (!isObject(told)) return known;
  const merged: Body = { ...known, ...told };
  for (const name of Object.keys(known ?? {})) {
    if (sizeOf(known?.[name]) > sizeOf(merged[name])) merged[name] = known?.[name];
  }
  return merged;
}

/** A count, or the sum of its shares. */
function sizeOf(value: unknown): number {
  if (!Array.isArray(value)) return countOf(value);
  return listOf(value).reduce((sum, { tokenCount }) => sum + countOf(tokenCount), 0);
}

/** Counts that stand beside or within one another, by what their total says. */
export function geminiUsage(meta: unknown): Told | undefined {
  if (!isObject(meta)) return undefined;
  const prompt_tokens = countOf(meta.promptTokenCount) + countOf(meta.toolUsePromptTokenCount);
  const spoken = countOf(meta.candidatesTokenCount);
  const thoughts = countOf(meta.thoughtsTokenCount);
  const total = countOf(meta.totalTokenCount);
  // On some routes the thoughts stand within the candidates.
  const is_within = thoughts > 0 && spoken >= thoughts && total === prompt_tokens + spoken;
  const output = is_within ? spoken : spoken + thoughts;
  // Thoughts that no count names stand in the total alone.
  const unnamed = Math.max(0, total - prompt_tokens - output);
  if (prompt_tokens + output + unnamed === 0) return undefined;
  const input = sharesIn(meta.promptTokensDetails, meta.toolUsePromptTokensDetails);
  const cached = sharesIn(meta.cacheTokensDetails);
  const made = sharesIn(meta.candidatesTokensDetails);
  const fresh = (kind: string) => Math.max(0, (input.get(kind) ?? 0) - (cached.get(kind) ?? 0));
  return withinTotals({
    prompt_tokens,
    completion_tokens: output + unnamed,
    cached_tokens: countOf(meta.cachedContentTokenCount),
    cache_write_tokens: 0,
    reasoning_tokens: thoughts + unnamed,
    audio_input_tokens: fresh('AUDIO'),
    audio_output_tokens: made.get('AUDIO') ?? 0,
    image_input_tokens: fresh('IMAGE'),
    image_output_tokens: made.get('IMAGE') ?? 0,
    video_input_tokens: fresh('VIDEO'),
    video_output_tokens: made.get('VIDEO') ?? 0,
  });
}

/** How many tokens each modality has. */
function sharesIn(...lists: unknown[]): Map<string, number> {
  const shares = new Map<string, number>();
  for (const { modality, tokenCount } of lists.flatMap(listOf)) {
    const name = stringOf(modality);
    shares.set(name, (shares.get(name) ?? 0) + countOf(tokenCount));
  }
  return shares;
}

export type Headers = Readonly<Record<string, string | string[] | undefined>>;

const standard = /^(?:standard|(?:service_tier_)?unspecified)$/;

/** The tier that served, as a chat names it: told in a header, or with the usage. */
export function servedTier(headers: Headers, meta: unknown): string | undefined {
  const { serviceTier, trafficType }: Body = isObject(meta) ? meta : {};
  const told = stringOf(headers['x-gemini-service-tier']) || stringOf(serviceTier);
  const tier = told.toLowerCase() || traffic_tiers.get(trafficType);
  return tier && standard.test(tier) ? 'default' : tier || undefined;
}
