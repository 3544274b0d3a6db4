import type { Listing } from './catalogs/catalog';
import { namesOf } from './sellers';

// Some sellers ask more at some places: Vertex for newer models anywhere but at `global`, OpenAI
// where it processes within one region. Lists give one figure.

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
  // Somebody has decided.
  if (factor !== undefined && factor !== '1') return [];
  const { plain_places } = namesOf(seller);
  const dear = [...new Set(places)].filter((place) => plain_places?.includes(place) !== true);
  return dear.flatMap((place) => {
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

function upliftAt({ uplifts = {} }: Listing, place: string): string | undefined {
  const found = uplifts[place] ?? uplifts.regional;
  return found === '1' ? undefined : found;
}
