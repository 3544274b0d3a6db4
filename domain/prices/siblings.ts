import type { Amount } from '../ledger/price-lists';
import type { ListedPrice } from './catalogs/catalog';
import { compared, times } from './decimals';
import type { AmountChange } from './doubts';
import { flat, parents } from './listed';

// A figure that is listed for the first time has no old one to be compared with: a slip of units
// shows beside the other figures of its price.

/** Multiples of a sibling, or USD; outside of them is no price of the catalogs' models. */
interface Range {
  least: string;
  most: string;
}

// Sound and video cost up to seventy times as much as text, pictures forty times.
const medium = { least: '0.1', most: '100' };
const ranges: { [name in Amount]?: Range } = {
  // None costs more than what it spares.
  cached_input_per_1m: { least: '0.005', most: '1' },
  cache_write_per_1m: { least: '0.05', most: '4' },
  cache_write_1h_per_1m: { least: '0.05', most: '4' },
  audio_input_per_1m: medium,
  image_input_per_1m: medium,
  video_input_per_1m: medium,
  audio_output_per_1m: medium,
  image_output_per_1m: medium,
  video_output_per_1m: medium,
  output_per_1m: medium,
};
// Long prompts and tiers of service, beside the price that they are of.
const of_base = { least: '0.05', most: '20' };
// USD a unit: fees have no siblings, but no model's is far from the others'.
const fees: { [name in Amount]?: Range } = {
  per_web_search: { least: '0.0005', most: '1' },
  per_file_search: { least: '0.0002', most: '1' },
  per_tool_call: { least: '0.0002', most: '1' },
  per_request: { least: '0.0001', most: '4' },
  per_minute: { least: '0.0001', most: '0.5' },
  per_page: { least: '0.00005', most: '0.25' },
  per_container: { least: '0.001', most: '10' },
};

/** Figures that a price has not had so far, and that are far from its others. */
export function outOfLine(changes: readonly AmountChange[], price: ListedPrice): string[] {
  const all = flat(price);
  return changes.flatMap(({ amount, was, now }) => {
    if (was !== null || now === null || now === '0') return [];
    const at = amount.lastIndexOf(': ');
    const list = at < 0 ? '' : amount.slice(0, at + 2);
    const name = amount.slice(list.length) as Amount;
    const fee = fees[name];
    if (list === '' && fee !== undefined) return isWithin(now, '1', fee) ? [] : unlike(amount, now);
    const found = siblingsOf(name, list).find(
      ({ name: sibling, range }) => !isWithin(now, all.get(sibling), range),
    );
    return found === undefined ? [] : unlike(amount, now, found.name, all.get(found.name));
  });
}

interface Sibling {
  name: string;
  range: Range;
}

/** What an amount of a list is compared with: another one of the list, and the same of the base. */
function siblingsOf(name: Amount, list: string): Sibling[] {
  const range = ranges[name];
  const of = name === 'output_per_1m' ? ['input_per_1m'] : parentsOf(name);
  const beside = range === undefined ? [] : of.map((one) => ({ name: list + one, range }));
  return list === '' ? beside : [...beside, { name, range: of_base }];
}

function parentsOf(name: Amount): readonly string[] {
  return name in parents ? parents[name as keyof typeof parents] : [];
}

/** True also where there is nothing to compare with. */
function isWithin(amount: string, of: string | undefined, { least, most }: Range): boolean {
  if (of === undefined || of === '0') return true;
  return compared(amount, times(of, least)) >= 0 && compared(amount, times(of, most)) <= 0;
}

function unlike(amount: string, now: string, sibling?: string, value?: string): string[] {
  const beside = sibling === undefined ? '' : ` beside ${sibling} (${value})`;
  return [`${amount} (${now}) is new, and far from what models cost${beside}`];
}
