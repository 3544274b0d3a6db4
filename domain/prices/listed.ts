import type { Amount } from '../ledger/price-lists';
import type { Listed, ListedPrice, ListedTier } from './catalogs/catalog';
import { compared, over, times } from './decimals';

// What can be asked of a listed price, wherever it comes from.

/** All its amounts by name: `input_per_1m`, `above 200000: input_per_1m`, `priority: …`. */
export function flat(price: ListedPrice | undefined): Map<string, string> {
  const found = new Map<string, string>();
  if (price === undefined) return found;
  addAll(found, '', price.amounts);
  for (const tier of price.tiers) addAll(found, `above ${tier.above_prompt_tokens}: `, tier);
  for (const [name, list] of Object.entries(price.service_tiers)) {
    addAll(found, `${name}: `, list.amounts);
    for (const tier of list.tiers)
      addAll(found, `${name}, above ${tier.above_prompt_tokens}: `, tier);
  }
  return found;
}

function addAll(found: Map<string, string>, before: string, list: Listed): void {
  for (const [name, amount] of Object.entries(list) as [string, unknown][])
    if (typeof amount === 'string') found.set(before + name, amount);
}

/** True if it charges something: a least length of sound alone does not. */
export function isBillable(price: ListedPrice): boolean {
  return [...flat(price)].some(
    ([name, amount]) => amount !== '0' && !/minimum_seconds$/.test(name),
  );
}

// What an amount is that a price does not say: its parent's, as billed_figures charges it.
export const parents = {
  cached_input_per_1m: ['input_per_1m'],
  cache_write_per_1m: ['input_per_1m'],
  cache_write_1h_per_1m: ['cache_write_per_1m', 'input_per_1m'],
  audio_input_per_1m: ['input_per_1m'],
  image_input_per_1m: ['input_per_1m'],
  video_input_per_1m: ['input_per_1m'],
  audio_output_per_1m: ['output_per_1m'],
  image_output_per_1m: ['output_per_1m'],
  video_output_per_1m: ['output_per_1m'],
} as const;

/**
 * True if all that both say is the same, and they say anything of this at all, and `b` says nothing
 * that `a` would charge otherwise: an amount that it alone lists is a fee, or another one than what
 * stands in for it. One that has tiers of long prompts says otherwise than one without; tiers of
 * service are not known to each catalog.
 */
export function agree(a: ListedPrice, other: ListedPrice): boolean {
  const b = withStartsOf(a, other);
  if (a.tiers.length !== b.tiers.length) return false;
  const lengths = new Set(a.tiers.map((tier) => tier.above_prompt_tokens));
  if (!b.tiers.every((tier) => lengths.has(tier.above_prompt_tokens))) return false;
  const said = flat(b);
  const common = [...flat(a)].filter(([name]) => said.has(name));
  return (
    common.some(([, amount]) => amount !== '0') &&
    common.every(([name, amount]) => compared(amount, said.get(name) as string) === 0) &&
    Object.entries(b.amounts).every(
      ([name, amount]) => compared(amount, chargedAs(a, name as Amount)) === 0,
    )
  );
}

/**
 * A price whose tiers start where those of another do, if at most a token is between them: some
 * catalogs write `from 272,000` and `above 272,000` as one threshold.
 */
function withStartsOf(a: ListedPrice, b: ListedPrice): ListedPrice {
  const moved = (tiers: readonly ListedTier[], to: readonly ListedTier[] = []) =>
    tiers.map((tier) => {
      const start = tier.above_prompt_tokens;
      const near = to.find((one) => Math.abs(one.above_prompt_tokens - start) <= 1);
      return near === undefined ? tier : { ...tier, above_prompt_tokens: near.above_prompt_tokens };
    });
  const service_tiers = Object.entries(b.service_tiers).map(([name, list]) => [
    name,
    { ...list, tiers: moved(list.tiers, a.service_tiers[name]?.tiers) },
  ]);
  return {
    amounts: b.amounts,
    tiers: moved(b.tiers, a.tiers),
    service_tiers: Object.fromEntries(service_tiers),
  };
}

/** What a price charges for an amount, listed or not. */
function chargedAs({ amounts }: ListedPrice, name: Amount): string {
  const chain: readonly Amount[] = name in parents ? parents[name as keyof typeof parents] : [];
  const found = [name, ...chain].find((one) => amounts[one] !== undefined);
  return (found && amounts[found]) ?? '0';
}

/** What it says, for a person who compares it with another one. */
export function wordsOf({ amounts, tiers }: ListedPrice, other?: ListedPrice): string {
  const all = flat({ amounts, tiers, service_tiers: {} });
  const said = [...all].map(([name, amount]) => `${name} ${amount}`).join(', ') || 'nothing';
  const has_one_length = tiers.length === 0 && (other?.tiers.length ?? 0) > 0;
  return has_one_length ? `${said}, for prompts of any length` : said;
}

/** Each amount × `factor`, exactly as far as a price can say it: rounded at its last place. */
export function multiplied(price: ListedPrice, factor: string): ListedPrice {
  const all = <T extends object>(given: T): T =>
    Object.fromEntries(
      Object.entries(given).map(([name, amount]) => [
        name,
        typeof amount === 'string' ? over(times(amount, factor), 1) : amount,
      ]),
    ) as T;
  return {
    amounts: all(price.amounts),
    tiers: price.tiers.map(all),
    service_tiers: Object.fromEntries(
      Object.entries(price.service_tiers).map(([name, list]) => [
        name,
        { amounts: all(list.amounts), tiers: list.tiers.map(all) },
      ]),
    ),
  };
}
