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
