import type { Answer } from '../api/client';

export type Kind = Answer<'GET /api/setup/provider-kinds'>['kinds'][number];
export type PlaceName = Kind['needs'][number];
type Shape = Kind['wires'][number]['shape'];

/** What is typed of a target; which of it counts depends on its kind. */
export interface Typed {
  kind: Kind;
  shape: Shape;
  provider: string;
  place: Partial<Record<PlaceName, string>>;
  base_url: string;
  variable: string;
  models: string;
}

/** How the provider is told who asks: by one variable, or by what the machine is. */
export function authOf({ auth }: Kind, variable: string): { auth?: unknown } {
  if (auth.includes('key')) {
    if (variable !== '') return { auth: { key_env: variable } };
    return auth.includes('none') ? { auth: 'none' } : {};
  }
  if (auth.includes('google'))
    return { auth: { google: variable === '' ? {} : { credentials_file_env: variable } } };
  return auth.includes('none') ? { auth: 'none' } : {};
}

/** The target that gateways are given; undefined while something is missing. */
export function targetOf({ kind, shape, provider, place, base_url, variable, models }: Typed) {
  const names = models.split(/[\s,]+/).filter(Boolean);
  const named = variable.trim();
  const wire = kind.wires.find((one) => one.shape === shape);
  const said = kind.needs.map((part) => [part, (place[part] ?? '').trim()] as const);
  const needs_key = kind.auth.includes('key') && !kind.auth.includes('none');
  const is_missing =
    names.length === 0 ||
    (needs_key && named === '') ||
    said.some(([, text]) => text === '') ||
    (wire?.base_url === null && (base_url.trim() === '' || provider.trim() === ''));
  if (is_missing) return undefined;
  return {
    kind: kind.kind,
    ...(kind.wires[0]?.shape === shape ? {} : { shape }),
    ...(provider.trim() === '' ? {} : { provider: provider.trim() }),
    ...Object.fromEntries(said),
    ...(base_url.trim() === '' ? {} : { base_url: base_url.trim() }),
    ...authOf(kind, named),
    models: names,
  };
}

/** Where requests of a target go, without a path; undefined while it is not known. */
export function originOf({ kind, shape, place, base_url }: Typed): string | undefined {
  const template = kind.wires.find((one) => one.shape === shape)?.base_url ?? '';
  const filled = template.replace(/\{(\w+)\}/g, (_, part: PlaceName) => place[part] ?? '');
  const url = base_url.trim() || filled;
  return URL.canParse(url) ? new URL(url).origin : undefined;
}

type Config = Record<string, unknown>;

const listedIn = (config: Config | null) =>
  (config as { providers?: { targets?: { id: string; kind?: string }[] } } | null)?.providers
    ?.targets ?? [];

/** The ids of a configuration's targets of a kind. */
export function idsOf(config: Config | null, { kind }: { kind: string }): string[] {
  return listedIn(config).flatMap((one) => (one.kind === kind ? [one.id] : []));
}

/** An id that no target of a configuration has: that of its kind, or `openai-2` and so on. */
export function freeId(config: Config | null, { kind }: { kind: string }): string {
  const taken = new Set(listedIn(config).map(({ id }) => id));
  for (let n = 1; ; n += 1) {
    const id = n === 1 ? kind : `${kind}-${n}`;
    if (!taken.has(id)) return id;
  }
}

/** The configuration with a target under an id: in place of the one that has it, or the last. */
export function withTarget(config: Config | null, target: { kind: string }, id: string) {
  const now: Config = config ?? { identity: { modes: ['gateway_key'] } };
  const others = listedIn(config);
  const named = { id, ...target };
  const targets = others.some((one) => one.id === id)
    ? others.map((one) => (one.id === id ? named : one))
    : [...others, named];
  return { ...now, providers: { ...(now.providers as object | undefined), targets } };
}
