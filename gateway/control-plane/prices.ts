import type { Price } from './client';

/**
 * The price of a provider's model, as the ledger finds it: its own, else that of the longest
 * pattern.
 */
export function priceFor(
  prices: readonly Price[],
  { provider, model }: { provider: string; model: string },
): Price | undefined {
  const rows = prices.filter((row) => row.provider === provider);
  const own = rows.find((row) => row.model === model);
  if (own !== undefined) return own;
  const matching = rows.filter((row) => matches(row.model, model));
  return matching.sort((a, b) => b.model.length - a.model.length)[0];
}

function matches(pattern: string, model: string): boolean {
  return pattern.endsWith('*') && model.startsWith(pattern.slice(0, -1));
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
