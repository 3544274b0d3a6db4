import type { ListedPrice } from './catalogs/catalog';
import { compared, over, shifted, times } from './decimals';
import { flat } from './listed';

// What makes a proposed price doubtful, so that a person has to say yes to this very row.

/** One amount that an import would change; null where a side says nothing. */
export interface AmountChange {
  /** `input_per_1m`, `above 200000: input_per_1m`, `priority: input_per_1m`. */
  amount: string;
  was: string | null;
  now: string | null;
  /** `+25.0`; null without both. */
  percent: string | null;
}

const RISE_PERCENT = 25;
const FALL_PERCENT = 50;
// USD per million, and per unit: what no model has cost yet.
const DEAREST = '10000';
const DEAREST_UNIT = '100';
// Slips of units: a token for a million, cents for dollars.
const SLIPS = ['10', '1000', '1000000'];
// Charged beside tokens: one that appears raises each call.
const fee = /per_(request|minute|1m_characters|page|tool_call)$/;

/** What differs between two prices, amount by amount; nothing and zero are the same. */
export function changesOf(was: ListedPrice | undefined, now: ListedPrice): AmountChange[] {
  const before = flat(was);
  const after = flat(now);
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names.flatMap((amount) => {
    const old = before.get(amount) ?? null;
    const fresh = after.get(amount) ?? null;
    if ((old ?? '0') === (fresh ?? '0')) return [];
    return [{ amount, was: old, now: fresh, percent: percentOf(old, fresh) }];
  });
}

function percentOf(was: string | null, now: string | null): string | null {
  if (was === null || now === null || was === '0') return null;
  const change = (Number(now) / Number(was) - 1) * 100;
  return `${change < 0 ? '' : '+'}${change.toFixed(1)}`;
}

/** Changes of a price that are more likely a slip than a new price. */
export function leaps(changes: readonly AmountChange[]): string[] {
  return changes.flatMap(({ amount, was, now, percent }) => {
    if (was === null) return fee.test(amount) ? [`${amount} (${now}) is new`] : [];
    if (now === null) return [`${amount} (${was}) is no longer listed`];
    if (was === '0') return [`${amount} was 0 and is ${now}`];
    const slip = SLIPS.find(
      (factor) => isNear(now, times(was, factor)) || isNear(was, times(now, factor)),
    );
    if (slip !== undefined) return [`${amount} moves by a factor near ${slip}: ${was} to ${now}`];
    const change = Number(percent);
    if (change > RISE_PERCENT || change < -FALL_PERCENT)
      return [`${amount} moves by ${percent} per cent: ${was} to ${now}`];
    return [];
  });
}

/** Within one per cent. */
function isNear(a: string, b: string): boolean {
  if (b === '0') return a === '0';
  return (
    compared(a, over(times(b, '99'), 100)) >= 0 && compared(a, shifted(times(b, '101'), -2)) <= 0
  );
}

/** Amounts that no model has, and ways to charge that would both be charged. */
export function absurd(price: ListedPrice): string[] {
  const all = flat(price);
  const dear = [...all].flatMap(([name, amount]) => {
    const is_per_million = /_per_1m|per_1m_/.test(name);
    if (/minimum_seconds$/.test(name)) return [];
    return compared(amount, is_per_million ? DEAREST : DEAREST_UNIT) > 0
      ? [`${name} is ${amount} USD`]
      : [];
  });
  const { per_minute = '0', input_per_1m = '0' } = price.amounts;
  const is_twice = per_minute !== '0' && input_per_1m !== '0';
  return is_twice ? [...dear, 'tokens and minutes would both be charged'] : dear;
}
