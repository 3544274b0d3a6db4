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

/** What is paid of a price's amounts, exact. */
export interface Share {
  factor: string;
  /** Of its price per request, which no own key changes. */
  request_factor: string;
}

/** A price of the list, and what is paid of it. */
export interface Paid extends Share {
  price: Price;
}

/**
 * What is paid at most of several ways to serve a model, by a million tokens in and out; undefined
 * if none has a price. `sharesOf` says how calls of a provider may be charged.
 */
export function dearestOf(
  prices: readonly Price[],
  ways: readonly { provider: string; model: string }[],
  sharesOf: (provider: string) => readonly Share[],
): Paid | undefined {
  const all = ways.flatMap((way) => {
    const price = priceFor(prices, way);
    return price === undefined
      ? []
      : sharesOf(way.provider).map((share): Paid => ({ ...share, price }));
  });
  // Compared alone: what is shown is multiplied exactly.
  const sumOf = ({ price, factor }: Paid) =>
    (price.input_per_1m + price.output_per_1m) * Number(factor);
  return all.reduce<Paid | undefined>(
    (dearest, one) => (dearest === undefined || sumOf(one) > sumOf(dearest) ? one : dearest),
    undefined,
  );
}
