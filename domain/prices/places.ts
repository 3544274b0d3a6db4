import type { Metadata } from '../ledger/price-lists';
import type { Listing } from './catalogs/catalog';
import { type AmountChange, percentOf } from './doubts';
import { namesOf } from './sellers';

// Some sellers ask more at some places: Vertex for newer models anywhere but at `global`, OpenAI
// where it processes within one region. Lists give one figure.

const UPLIFTS_MAX = 16;

interface Sold {
  provider: string;
  seller: string;
  /** What the amounts were multiplied with, if somebody said it. */
  factor: string | undefined;
}

/** Why a listed price may be too low for where a model is served. */
export function placeDoubts(
  { provider, seller, factor }: Sold,
  places: readonly string[],
  found: readonly { listing: Listing; label: string }[],
): string[] {
  const { plain_places } = namesOf(seller);
  return dearAmong({ provider, seller, factor }, places).flatMap((place) => {
    const saying = found.find(({ listing }) => upliftAt(listing, place) !== undefined);
    const uplift = saying && upliftAt(saying.listing, place);
    if (saying !== undefined)
      return [
        `it is served at ${place}, where ${saying.label} says a factor of ${uplift}: give the targets of ${provider} price_factor: ${uplift} (or say --factor ${provider}=${uplift}), under a provider of their own if it is served elsewhere too`,
      ];
    const is_known = found.some(({ listing }) => listing.uplifts !== undefined);
    if (is_known || plain_places === undefined) return [];
    return [
      `it is served at ${place}, where ${seller} may ask more than the list says, as 10 per cent for newer models: look it up, and give the targets of ${provider} a price_factor if it does`,
    ];
  });
}

/**
 * The places where a model is served at a plain price and some list says a factor, each with it:
 * `eu: 1.1`. They are kept with the price, so that one that appears later is told of, once.
 */
export function upliftsAt(
  sold: Sold,
  places: readonly string[],
  found: readonly { listing: Listing }[],
): string[] {
  const told = dearAmong(sold, places).flatMap((place) => {
    const factor = found.map(({ listing }) => upliftAt(listing, place)).find(Boolean);
    return factor === undefined ? [] : [`${place}: ${factor}`];
  });
  return told.sort().slice(0, UPLIFTS_MAX);
}

/** Such factors of a price that are not what they were. */
export function upliftChanges(was: Metadata | null, now: Metadata): AmountChange[] {
  const known = factorsBy(was?.uplifts);
  return [...factorsBy(now.uplifts)].flatMap(([place, factor]) => {
    const old = known.get(place) ?? null;
    if (old === factor) return [];
    const percent = percentOf(old ?? '1', factor);
    return [{ amount: `factor at ${place}`, was: old, now: factor, percent }];
  });
}

function factorsBy(uplifts: readonly string[] = []): Map<string, string> {
  return new Map(uplifts.map((one) => one.split(': ') as [string, string]));
}

/** The places where a seller may ask more, unless somebody has decided about them. */
function dearAmong({ seller, factor }: Sold, places: readonly string[]): string[] {
  if (factor !== undefined && factor !== '1') return [];
  const { plain_places } = namesOf(seller);
  return [...new Set(places)].filter((place) => plain_places?.includes(place) !== true);
}

function upliftAt({ uplifts = {} }: Listing, place: string): string | undefined {
  const found = uplifts[place] ?? uplifts.regional;
  return found === '1' ? undefined : found;
}
