import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../runtime/root';
import type { Kind, Place, Shape, Wire } from './providers/kind';
import { kinds } from './providers/table';

// Stands in the place of what a target says of its own place.
const shown: Required<Place> = {
  resource: '‹resource›',
  region: '‹region›',
  project: '‹project›',
  location: '‹location›',
  api_version: '‹api_version›',
  endpoint: 'runtime',
};

/** The ways into each kind, one row each: some have a second one by another part of their place. */
function placesOf({ takes = [] }: Kind): Place[] {
  const { api_version: _, endpoint: __, ...plain } = shown;
  if (takes.includes('api_version')) return [plain, shown];
  return takes.includes('endpoint') ? [plain, { ...plain, endpoint: 'mantle' }] : [plain];
}

/** The table of the kinds in docs/providers.md, read off their rows. */
export function kindTable(): string {
  const lines = [...kinds.values()].flatMap((kind) =>
    Object.entries(kind.wires).flatMap(([shape, wire]) => {
      const rows = placesOf(kind).map((place) => rowOf(kind, shape as Shape, wire(place), place));
      return [...new Set(rows)];
    }),
  );
  const head = '| Kind | `shape` | Address | Auth | Serves | Left out, or renamed |';
  return [head, '|---|---|---|---|---|---|', ...lines].join('\n');
}

function rowOf(kind: Kind, shape: Shape, wire: Wire, place: Place): string {
  const url = wire.base_url === undefined ? 'its own `base_url`' : `\`${addressOf(wire, place)}\``;
  const auth = kind.auth.map((form) => (form === 'key' ? `key (${headerOf(wire)})` : form));
  const serves = wire.families?.join(', ') ?? `all of the shape ${shape}`;
  return `| ${kind.name} | ${shape} | ${url} | ${auth.join(', ')} | ${serves} | ${changesOf(wire)} |`;
}

/** With the path of a model where that stands in it. */
function addressOf(wire: Wire, place: Place): string {
  const base = wire.base_url?.(place) ?? '';
  const asked = { path: '/…', model: 'MODEL', is_stream: false, betas: [] };
  const path = wire.path?.(asked).replace('MODEL', '‹upstream›') ?? '';
  const query = new URLSearchParams(wire.query?.(place)).toString();
  return decodeURIComponent(`${base}${path}${query === '' ? '' : `?${query}`}`);
}

function headerOf({ key }: Wire): string {
  return key === 'bearer' ? 'bearer' : `\`${key}\``;
}

function changesOf(wire: Wire): string {
  const { drop = [], drop_empty = [], drop_inside = {}, rename = {}, refuses = [], betas } = wire;
  const inner = Object.entries(drop_inside).flatMap(([name, all]) =>
    all.map((one) => `${name}.${one}`),
  );
  const named = [...drop, ...drop_empty.map((name) => `empty ${name}`), ...inner];
  const renamed = Object.entries(rename).map(([from, to]) => `${from} → ${to}`);
  const refused = refuses.map((name) => `422: ${name}`);
  const listed = Array.isArray(betas) ? ['betas that it does not know'] : [];
  return [...named, ...renamed, ...refused, ...listed].join(', ') || 'nothing';
}

const markers = /(<!-- kinds: npm run kinds -->\n).*(\n<!-- end -->)/s;

/** The document with the table in its place. */
export function withKindTable(text: string): string {
  return text.replace(markers, (_, before, after) => before + kindTable() + after);
}

/** Run as a program: writes the table into its document. */
export function main(): void {
  const file = path.join(root, 'docs/providers.md');
  writeFileSync(file, withKindTable(readFileSync(file, 'utf8')));
}
