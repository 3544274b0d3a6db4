import type { Counts } from './fleet';

/** What gateways did in a window: their counts at its end less those at its beginning. */
export type Window = Counts & { gateways: number };

/** Each gateway that was moved has finished so many calls before it is judged. */
export const CALLS_MIN = 100;
/** Reports that one gateway may lose more than the others on average. */
const LOST_MAX = 2;

export const no_counts: Counts = {
  finished: 0,
  own_5xx: 0,
  upstream_5xx: 0,
  refused: 0,
  lost_reports: 0,
};

/** The counts of a window; whoever began anew meanwhile has counted from zero. */
export function since(now: Counts, then: Counts | undefined): Counts {
  if (then === undefined || now.finished < then.finished) return now;
  const less = (name: keyof Counts) => Math.max(0, now[name] - then[name]);
  return {
    finished: less('finished'),
    own_5xx: less('own_5xx'),
    upstream_5xx: less('upstream_5xx'),
    refused: less('refused'),
    lost_reports: less('lost_reports'),
  };
}

/** The windows of several gateways together. */
export function together(all: readonly Counts[]): Window {
  const sum = (name: keyof Counts) => all.reduce((total, counts) => total + counts[name], 0);
  return {
    gateways: all.length,
    finished: sum('finished'),
    own_5xx: sum('own_5xx'),
    upstream_5xx: sum('upstream_5xx'),
    refused: sum('refused'),
    lost_reports: sum('lost_reports'),
  };
}

// What is compared, in which words, and how many times the ratio is allowed: who calls which
// gateway matters more for refusals.
const kinds = [
  ['own_5xx', 'errors of the gateway itself', 1],
  ['upstream_5xx', 'failures of providers', 1],
  ['refused', 'refusals', 5],
] as const;

/**
 * Why the gateways that were moved did worse than the others, in words; undefined if they did not.
 * They may fail `max_error_ratio` more of their calls, and refuse five times that. Fewer calls than
 * are needed for a judgement are taken for that many, so that a few bad ones condemn nobody and
 * many do at once. Where no other gateway has finished a call, none of its calls counts as bad.
 */
export function verdictOn(
  moved: readonly Counts[],
  control: Window | undefined,
  max_error_ratio: number,
): string | undefined {
  const all = together(moved);
  const needed = CALLS_MIN * moved.length;
  for (const [name, words, times] of kinds) {
    const elsewhere = ratio(control?.[name] ?? 0, control?.finished ?? 0);
    if (all[name] > (elsewhere + times * max_error_ratio) * Math.max(all.finished, needed))
      return `${all[name]} of ${all.finished} calls ended in ${words} (${percent(ratio(all[name], all.finished))}), against ${percent(elsewhere)} elsewhere`;
  }
  const lost_elsewhere = ratio(control?.lost_reports ?? 0, control?.gateways ?? 0);
  if (moved.length > 0 && all.lost_reports / moved.length > lost_elsewhere + LOST_MAX)
    return `${all.lost_reports} reports of the gateways that were moved were lost`;
  return undefined;
}

function ratio(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}

/** 0.0213 as "2.1 %". */
export function percent(part: number): string {
  return `${(100 * part).toFixed(1)} %`;
}

/** How many of `living` gateways a stage moves: a number of them, or a share that is rounded up. */
export function targetOf(stage: Stage, living: number): number {
  const wanted =
    typeof stage === 'number' ? stage : Math.ceil((Number.parseInt(stage, 10) * living) / 100);
  return Math.min(wanted, living);
}

/** A number of gateways, or a share such as "25%". */
export type Stage = number | string;

/** Why a list of stages cannot be, in words; undefined if it can, for so many living gateways. */
export function stagesProblem(stages: readonly Stage[], living: number): string | undefined {
  if (stages.at(-1) !== '100%') return 'must end with "100%"';
  if (stages.some((stage) => Number.parseInt(String(stage), 10) === 0))
    return 'has a stage that names no gateway';
  const grows = (kind: 'number' | 'string') => {
    const own = stages
      .filter((stage) => typeof stage === kind)
      .map((stage) => Number.parseInt(String(stage), 10));
    return own.every((count, at) => at === 0 || count > (own[at - 1] ?? 0));
  };
  if (!grows('number') || !grows('string')) return 'must grow from stage to stage';
  const targets = stages.map((stage) => targetOf(stage, living));
  const falls = targets.some((target, at) => at > 0 && target < (targets[at - 1] ?? 0));
  return falls
    ? `must grow from stage to stage, also for the ${living} gateways there are`
    : undefined;
}
