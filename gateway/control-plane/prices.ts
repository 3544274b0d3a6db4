import type { Price } from './client';

/** Prices by their exact names, and patterns by provider, the longest first. */
interface Index {
  exact: ReadonlyMap<string, Price>;
  patterns: ReadonlyMap<string, readonly Price[]>;
}

// A price list is asked for each model that is served, and replaced as a whole.
const indexes = new WeakMap<readonly Price[], Index>();

/**
 * The price of a provider's model, as the ledger finds it: its own, else that of the longest
 * pattern.
 */
export function priceFor(
  prices: readonly Price[],
  { provider, model }: { provider: string; model: string },
): Price | undefined {
  const { exact, patterns } = indexOf(prices);
  return (
    exact.get(nameOf(provider, model)) ??
    patterns.get(provider)?.find((row) => model.startsWith(row.model.slice(0, -1)))
  );
}

function indexOf(prices: readonly Price[]): Index {
  const known = indexes.get(prices);
  if (known !== undefined) return known;
  const patterns = new Map<string, Price[]>();
  for (const row of prices.filter(({ model }) => model.endsWith('*')))
    patterns.set(row.provider, [...(patterns.get(row.provider) ?? []), row]);
  for (const rows of patterns.values()) rows.sort((a, b) => b.model.length - a.model.length);
  const exact = new Map(prices.map((row) => [nameOf(row.provider, row.model), row]));
  const index = { exact, patterns };
  indexes.set(prices, index);
  return index;
}

function nameOf(provider: string, model: string): string {
  return `${provider}\n${model}`;
}

/**
 * The dearest price of several ways to serve a model, by a million tokens in and out; undefined if
 * none has a price.
 */
export function dearestOf(
  prices: readonly Price[],
  ways: readonly { provider: string; model: string }[],
): Price | undefined {
  const rows = ways.flatMap((way) => priceFor(prices, way) ?? []);
  const sumOf = ({ input_per_1m, output_per_1m }: Price) => input_per_1m + output_per_1m;
  return rows.reduce<Price | undefined>(
    (dearest, row) => (dearest === undefined || sumOf(row) > sumOf(dearest) ? row : dearest),
    undefined,
  );
}
