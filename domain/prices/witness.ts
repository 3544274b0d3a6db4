import type { Catalog, ListedPrice } from './catalogs/catalog';
import { compared, times } from './decimals';

// A new price all of whose figures slip together agrees with itself. What is known of its model, or
// of the others that its seller sells, tells.

// No model of the catalogs is so far from the dearest and the cheapest of its seller, but for those
// that make pictures or embeddings.
const FAR = '10';
const sides = ['input_per_1m', 'output_per_1m'] as const;

type Side = (typeof sides)[number];

interface Known {
  cheapest: string;
  dearest: string;
  of: string;
}

/** Tells of a seller's model, and of its price, what is far from all that a catalog lists. */
export type Witness = (seller: string, model: string, price: ListedPrice) => string[];

export function witnessOf(catalog: Catalog): Witness {
  // By seller, as a plan may have thousands of rows.
  const ranges = new Map<string, { [side in Side]?: Known }>();
  const rangesOf = (seller: string) => {
    const made = ranges.get(seller) ?? rangesIn(catalog, seller);
    ranges.set(seller, made);
    return made;
  };
  return (seller, model, { amounts }) =>
    sides.flatMap((side) => {
      const amount = amounts[side] ?? '0';
      const own = catalog.of(seller).get(model)?.price.amounts[side] ?? '0';
      const known =
        own === '0' ? rangesOf(seller)[side] : { cheapest: own, dearest: own, of: 'this model' };
      return amount === '0' || known === undefined ? [] : farFrom(side, amount, known, catalog);
    });
}

/** What a seller's models of text cost at least and at most: those that take and give tokens. */
function rangesIn(catalog: Catalog, seller: string): { [side in Side]?: Known } {
  const texts = [...catalog.of(seller).values()]
    .map(({ price }) => price.amounts)
    .filter((amounts) => sides.every((side) => (amounts[side] ?? '0') !== '0'));
  const found: { [side in Side]?: Known } = {};
  for (const side of sides) {
    const [cheapest, ...others] = texts.map((amounts) => amounts[side] as string).sort(compared);
    if (cheapest === undefined) continue;
    found[side] = { cheapest, dearest: others.at(-1) ?? cheapest, of: `any model of ${seller}` };
  }
  return found;
}

function farFrom(side: Side, amount: string, known: Known, { source }: Catalog): string[] {
  const { cheapest, dearest, of } = known;
  const listed = (end: string) => `${source.catalog} lists for ${of} (${end})`;
  if (compared(amount, times(dearest, FAR)) > 0)
    return [`${side} (${amount}) is more than ${FAR} times what ${listed(dearest)}`];
  if (compared(times(amount, FAR), cheapest) < 0)
    return [`${side} (${amount}) is less than a ${FAR}th of what ${listed(cheapest)}`];
  return [];
}
