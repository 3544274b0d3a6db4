import type { AuthForm, Kind, Place, PlaceName, Shape } from '../providers/kind';
import { place_names } from '../providers/place';
import { kinds } from '../providers/table';
import { isObject, stringOf } from '../wire/values';

/** A kind of provider, as far as whoever writes a target must know it. */
export interface ListedKind {
  kind: string;
  /** Parts of its place that a target must say, and that it may. */
  needs: readonly PlaceName[];
  takes: readonly PlaceName[];
  auth: readonly AuthForm[];
  /** The wires that it speaks; the first is the one of targets that name no `shape`. */
  wires: ListedWire[];
}

export interface ListedWire {
  shape: Shape;
  /** Its address, with `{region}` in the place of what a target says; null: each target says it. */
  base_url: string | null;
  /** The families of routes that it serves; null: all of its shape. */
  families: string[] | null;
}

/** All kinds of providers, in the order of the documents. */
export function listedKinds(): ListedKind[] {
  return [...kinds.values()].map((kind) => {
    const { name, needs = [], takes = [], auth } = kind;
    return { kind: name, needs, takes, auth, wires: wiresOf(kind) };
  });
}

/**
 * Why an organization's own key cannot be of use at this provider; undefined if one can. `rows`
 * are the targets that are known, as written; without one of the provider its name is its kind.
 */
export function ownKeyTrouble(provider: string, rows: readonly unknown[]): string | undefined {
  const targets = rows.filter(isObject).map(({ kind, provider: named }) => ({ kind, named }));
  const found = targets.filter(({ kind, named }) => (named ?? kind) === provider);
  const names = found.length === 0 ? [provider] : found.map(({ kind }) => kind ?? 'compatible');
  const troubles = names.map((name) => troubleOf(kinds.get(stringOf(name))));
  return troubles.includes(undefined) ? undefined : troubles[0];
}

function troubleOf(kind: Kind | undefined): string | undefined {
  if (kind === undefined) return undefined;
  const { name, needs = [], auth } = kind;
  if (!auth.includes('key')) return `The provider "${name}" is not asked with a key.`;
  const part = needs.find((one) => one === 'resource' || one === 'project');
  if (part === undefined) return undefined;
  return `The address of "${name}" holds a ${part} of the platform's account, which no key of another account opens.`;
}

/** A wire at the place that targets have which say only what they must. */
function wiresOf({ wires, needs = [] }: Kind): ListedWire[] {
  const said = place_names.filter((part) => needs.includes(part));
  const place: Place = Object.fromEntries(said.map((part) => [part, `{${part}}`]));
  return Object.entries(wires).map(([shape, at]) => {
    const { base_url, families } = at(place);
    const url = base_url === undefined ? null : decodeURIComponent(base_url(place));
    return { shape: shape as Shape, base_url: url, families: families ? [...families] : null };
  });
}
