import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../runtime/root';
import { families } from './families/table';
import { factsOf } from './family-table';
import { harmless } from './providers/harmless';
import type { Kind, Place, Shape, Wire } from './providers/kind';
import { kinds } from './providers/table';
import { serves } from './upstreams/target';

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
  const { drop_empty = [], rename = {}, refuses = [], lacks = [], betas } = wire;
  const named = [...droppedBy(wire), ...drop_empty.map((name) => `empty ${name}`)];
  const renamed = Object.entries(rename).map(([from, to]) => `${from} → ${to}`);
  const refused = [...lacks, ...refuses].map((name) => `422: ${name}`);
  const written = Object.keys(wire.with_files ?? {}).map((name) => `with files: ${name}`);
  const moved = wire.marks_blocks === true ? ['cache_control → the last block'] : [];
  const listed = betas instanceof Map ? ['betas that it does not know'] : [];
  return (
    [...named, ...renamed, ...written, ...moved, ...refused, ...listed].join(', ') || 'nothing'
  );
}

/** Why members are left out, one row each, with the kinds that do so. */
export function harmlessTable(): string {
  const rows = Object.entries(harmless).map(([name, reason]) => {
    const wires = everyWire().filter(({ wire }) => droppedBy(wire).includes(name));
    return `| \`${name}\` | ${reason} | ${namesOf(wires)} |`;
  });
  return ['| Left out | Because it | By |', '|---|---|---|', ...rows].join('\n');
}

/** The members that a wire leaves out, those inside of others included. */
export function droppedBy({ drop = [], drop_anywhere = [], drop_inside = {} }: Wire): string[] {
  const inner = Object.entries(drop_inside).flatMap(([name, all]) =>
    all.map((one) => `${name}.${one}`),
  );
  return [...drop, ...drop_anywhere, ...inner];
}

/** What is governed, streamed and priced, one row a family, with the kinds that serve it. */
export function servedTable(): string {
  const rows = families.map((family) => {
    const wires = everyWire().filter(({ shape, wire }) => serves({ shape, wire }, family));
    const { governed, streams, words } = factsOf(family);
    return `| \`${family.name}\` | ${namesOf(wires)} | ${governed} | ${streams} | ${words} |`;
  });
  const head = '| Family | Kinds | Policy packs look at | Streamed | Priced by |';
  return [head, '|---|---|---|---|---|', ...rows].join('\n');
}

/** Each way into each kind. */
export function everyWire(): { name: string; shape: Shape; wire: Wire }[] {
  return [...kinds.values()].flatMap((kind) =>
    Object.entries(kind.wires).flatMap(([shape, wire]) =>
      placesOf(kind).map((place) => ({
        name: kind.name,
        shape: shape as Shape,
        wire: wire(place),
      })),
    ),
  );
}

/** The kinds of ways, with the shape of those that are not a kind's first. */
function namesOf(wires: readonly { name: string; shape: Shape }[]): string {
  const names = wires.map(({ name, shape }) => {
    const [first] = Object.keys(kinds.get(name)?.wires ?? {});
    return shape === first ? name : `${name} (${shape})`;
  });
  return [...new Set(names)].join(', ') || 'none';
}

const tables: readonly [name: string, table: () => string][] = [
  ['kinds', kindTable],
  ['left out', harmlessTable],
  ['families', servedTable],
];

/** The document with the tables in their places. */
export function withKindTable(text: string): string {
  return tables.reduce((document, [name, table]) => {
    const markers = new RegExp(`(<!-- ${name}: npm run kinds -->\\n).*?(<!-- end -->)`, 's');
    return document.replace(markers, (_, before, after) => `${before}${table()}\n${after}`);
  }, text);
}

/** Run as a program: writes the tables into their document. */
export function main(): void {
  const file = path.join(root, 'docs/providers.md');
  writeFileSync(file, withKindTable(readFileSync(file, 'utf8')));
}
