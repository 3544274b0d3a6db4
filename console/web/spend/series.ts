import { nanosOf } from '../base/decimals';

/** A bucket of the period, also one without calls. */
export interface Slot {
  key: string;
  label: string;
}

export interface Figures {
  cost: number;
  requests: number;
  prompt_tokens: number;
  completion_tokens: number;
}
export interface Bucket extends Figures {
  start: string;
  local: string;
  group: Record<string, string | null>;
}
export type Measure = 'cost' | 'requests' | 'tokens';

/** What of the figures is shown: billionths of the currency, or a count. */
export function measured(figures: Figures, measure: Measure): bigint {
  if (measure === 'cost') return nanosOf(figures.cost);
  if (measure === 'requests') return BigInt(figures.requests);
  return BigInt(figures.prompt_tokens) + BigInt(figures.completion_tokens);
}

/** One bar: what each of the first groups makes of it, all others, and the whole. */
export interface Bar extends Slot {
  parts: bigint[];
  others: bigint;
  total: bigint;
  /** No calls are unlike calls that cost nothing. */
  has_calls: boolean;
}

/**
 * Bars of a period. `sums` are the buckets of all calls: what the first groups leave of them is of
 * the others, also of groups that the server left out. Where groups overlap, as tags do, the others
 * are added up instead.
 */
export function barsOf({
  slots,
  sums,
  buckets,
  first,
  by,
  measure,
  overlaps,
  is_hour,
}: {
  slots: readonly Slot[];
  sums: readonly Bucket[];
  buckets: readonly Bucket[];
  /** Groups in the order in which they are stacked. */
  first: readonly (string | null)[];
  by: string;
  measure: Measure;
  overlaps: boolean;
  is_hour: boolean;
}): Bar[] {
  const keyOf = ({ start, local }: Bucket) => (is_hour ? new Date(start).toISOString() : local);
  const totals = new Map(sums.map((bucket) => [keyOf(bucket), measured(bucket, measure)]));
  const places = new Map(first.map((group, place) => [group, place]));
  const bars = new Map<string, Bar>();
  for (const slot of slots)
    bars.set(slot.key, {
      ...slot,
      parts: first.map(() => 0n),
      others: 0n,
      total: totals.get(slot.key) ?? 0n,
      has_calls: totals.has(slot.key),
    });
  for (const bucket of buckets) {
    const bar = bars.get(keyOf(bucket));
    if (bar === undefined) continue;
    const place = places.get(bucket.group[by] ?? null);
    if (place === undefined) bar.others += measured(bucket, measure);
    else bar.parts[place] = measured(bucket, measure);
  }
  if (!overlaps)
    for (const bar of bars.values())
      bar.others = atLeastNothing(bar.parts.reduce((left, part) => left - part, bar.total));
  return [...bars.values()];
}

/** Calls that end between the two reads are in the groups and not yet in the sum. */
function atLeastNothing(amount: bigint): bigint {
  return amount > 0n ? amount : 0n;
}
