import { z } from 'zod';
import { isClosed } from '../../runtime/outgoing';
import type { Kind, Shape, Wire } from '../providers/kind';
import { alphabets, place_names, placeOf } from '../providers/place';
import { kinds } from '../providers/table';
import { milliseconds, name, routing_headers, serverUrl } from './addresses';
import { auth, authProblem } from './auth';
import { calledOtherwise, droppable, memberProblems, renamable } from './members';

/** The kind of targets that name none: a server that speaks one of the two wires. */
const OTHERWISE = 'compatible';

const place = (name: keyof typeof alphabets) =>
  z.string().regex(alphabets[name].pattern, alphabets[name].rule).optional();

// It may stand in a path, where these would lead elsewhere.
const modelName = name.regex(/^(?!\.{1,2}$)/, 'is a step in a path, and no name');

/** A model that its provider calls otherwise, or that has another one's price. */
const renamedModel = z.strictObject({
  /** The name that clients call it by. */
  name: modelName,
  /** The provider's own: a deployment, a profile, a path. */
  upstream: modelName.regex(/^\S+$/, 'has a space, which no provider has in a name').optional(),
  /** The model in the price list and on the bill; `name` if absent. */
  price_as: name.optional(),
});

/** Which names of a provider's own list are served. */
const discovery = z.strictObject({
  /** Names, in which a star stands for any letters; all if absent. */
  match: z.array(z.string().min(1).max(256)).min(1).max(100).optional(),
  /** A list with more names than these is not taken. */
  models_max: z.int().min(1).max(10_000).default(500),
});

// Of the gateway itself.
const kept_headers =
  /^(?:authorization|x-api-key|api-key|x-goog-api-key|(?:set-)?cookie|x-method-override|accept-encoding|user-agent|x-amz-.*)$/i;
const header_name = z
  .string()
  .regex(/^[\w-]{1,64}$/, 'must be the name of a header')
  .refine((name) => !isKept(name.replaceAll('_', '-')), {
    error: 'is a header of the gateway itself; a credential is named in auth',
  });
// Some servers take a line for a hyphen.
function isKept(name: string): boolean {
  return kept_headers.test(name) || routing_headers.test(name);
}

const header_value = z.string().regex(/^[\x20-\x7e]{1,1000}$/, 'must be a line of ASCII');

const fields = z.strictObject({
  /** No longer than the ids that the API takes, which a settlement names it by. */
  id: name.max(200),
  /** Who serves; `compatible` if absent, which names its own `base_url`. */
  kind: z.string().min(1).optional(),
  /** The provider's name in the price list; that of its kind if absent. */
  provider: name.optional(),
  /** Whose wire it speaks; the first of its kind if absent. */
  shape: z.enum(['openai', 'anthropic', 'gemini', 'converse']).optional(),
  resource: place('resource'),
  region: place('region'),
  project: place('project'),
  location: place('location'),
  api_version: place('api_version'),
  endpoint: z.enum(['runtime', 'mantle']).optional(),
  /**
   * As that provider's official SDK takes it: OpenAI's with `/v1`, Anthropic's without; that of the
   * kind if absent.
   */
  base_url: serverUrl.optional(),
  /** Absent for servers that take no key. The same as `auth: { key_env }`. */
  api_key_env: z.string().min(1).optional(),
  auth: auth.optional(),
  models: z
    .array(z.union([modelName, renamedModel]))
    .min(1)
    .optional(),
  /** Serves what its own list of models names, beside `models`. */
  discover: z.union([z.literal(true), discovery]).optional(),
  /** Sent along with each request. */
  query: z.record(z.string().min(1).max(100), z.string().max(1_000)).optional(),
  headers: z.record(header_name, header_value).optional(),
  /** Members of a body that are left out, beside those of the kind. */
  drop: z.array(droppable).optional(),
  /** Members of a body that this server calls otherwise. */
  rename: z.record(calledOtherwise, renamable).optional(),
  /** What its prices are multiplied by when they are imported; 1 if absent. */
  price_factor: z
    .number()
    .min(0)
    .max(100)
    .refine((factor) => /^\d+(?:\.\d{1,12})?$/.test(String(factor)), {
      error: 'may have at most 6 zeros in front and 12 digits behind the point',
    })
    .optional(),
  /** Its share among the targets that serve a model. */
  weight: z.number().positive().default(1),
  /** To the first byte of an answer; `timeouts.first_byte_ms` if absent. */
  timeout_ms: milliseconds.optional(),
  /** False for upstreams that refuse `stream_options`: their streams are then billed by count. */
  stream_usage: z.boolean().optional(),
  /**
   * How many of its tokens the gateway takes for one that it counts; 1.2 for the shape `anthropic`,
   * else 1.
   */
  token_factor: z.number().min(0.1).max(10).optional(),
});

export type TargetSettings = z.infer<typeof fields>;

/** One target, and all that can be said against it alone. */
export const target = fields.superRefine((row, context) => {
  for (const { at, message } of problemsOf(row)) {
    const path = at.split('.').map((step) => (/^\d+$/.test(step) ? Number(step) : step));
    context.addIssue({ code: 'custom', path, message });
  }
});

interface Problem {
  at: string;
  message: string;
}

function problemsOf(row: TargetSettings): Problem[] {
  const kind = kinds.get(row.kind ?? OTHERWISE);
  if (kind === undefined) {
    const message = `"${row.kind}" is no kind of provider. There are ${[...kinds.keys()].join(', ')}.`;
    return [{ at: 'kind', message }];
  }
  const needs_one = !kind.auth.includes('none');
  const has_models = row.models !== undefined || row.discover !== undefined;
  const found = [
    has_models ? undefined : { at: 'models', message: 'is missing: name some, or discover them.' },
    ...shapeProblems(row, kind),
    ...memberProblems(row),
    ...placeProblems(row, kind),
    authProblem(row, { ...kind, needs_one }),
    repeatedModel(row),
  ];
  return found.flatMap((problem) => problem ?? []);
}

function shapeProblems(
  { shape, base_url, provider, kind: named, ...row }: TargetSettings,
  kind: Kind,
): Problem[] {
  const shapes = Object.keys(kind.wires);
  if (named === undefined && shape === undefined)
    return [{ at: 'shape', message: 'is missing: write openai or anthropic, or name a kind.' }];
  if (shape !== undefined && kind.wires[shape] === undefined)
    return [{ at: 'shape', message: `the kind ${kind.name} speaks ${shapes.join(', ')} only.` }];
  const problems: Problem[] = [];
  if (kind.name === OTHERWISE && provider === undefined)
    problems.push({ at: 'provider', message: 'is missing: the name in the price list.' });
  const wire = wireOf({ shape, ...row }, kind);
  if (wire.unspoken_at !== undefined)
    problems.push({ at: wire.unspoken_at, message: 'speaks no such shape: leave it out.' });
  const has_list = wire.list !== undefined || (wire.path === undefined && !wire.lists_deployable);
  if (row.discover !== undefined && !has_list)
    problems.push({
      at: 'discover',
      message: `finds no list on this wire of the kind ${kind.name}: name the "models".`,
    });
  if (base_url !== undefined && URL.canParse(base_url) && isClosed(new URL(base_url).hostname))
    problems.push({
      at: 'base_url',
      message: 'is a link-local or metadata address, to which nothing is sent.',
    });
  if (wire.base_url === undefined && base_url === undefined)
    problems.push({ at: 'base_url', message: 'is missing: no server is known for this kind.' });
  return problems;
}

function placeProblems(row: TargetSettings, kind: Kind): Problem[] {
  const { needs = [], takes = [], name } = kind;
  return place_names.flatMap((part): Problem[] => {
    if (row[part] !== undefined && !needs.includes(part) && !takes.includes(part))
      return [{ at: part, message: `says nothing to the kind ${name}: leave it out.` }];
    // A URL of one's own says where it is, but a resource is nothing else.
    const is_said = row[part] !== undefined || (part === 'resource' && row.base_url !== undefined);
    if (is_said || !needs.includes(part)) return [];
    return [{ at: part, message: `is missing: the kind ${name} is found by it.` }];
  });
}

function repeatedModel(row: TargetSettings): Problem | undefined {
  const names = servedModels(row).map(({ name }) => name);
  const at = names.findIndex((name, index) => names.indexOf(name) !== index);
  if (at < 0) return undefined;
  return { at: `models.${at}`, message: `"${names[at]}" stands here twice: leave one.` };
}

/** A model that a target serves. */
export interface ServedModel {
  /** As clients call it. */
  name: string;
  /** As the provider does. */
  upstream: string;
  /** As the price list and the bill do. */
  priced: string;
}

/** The models of a target, with all their names. */
export function servedModels({ models = [] }: Pick<TargetSettings, 'models'>): ServedModel[] {
  return models.map((given) => {
    if (typeof given === 'string') return { name: given, upstream: given, priced: given };
    const { name, upstream = name, price_as = name } = given;
    return { name, upstream, priced: price_as };
  });
}

/** The kind of a target whose settings are right. */
export function kindOf({ kind = OTHERWISE }: Pick<TargetSettings, 'kind'>): Kind {
  return kinds.get(kind) as Kind;
}

/** The provider of a target in the price list. */
export function providerOf({ provider, kind }: Pick<TargetSettings, 'provider' | 'kind'>): string {
  return provider ?? (kind as string);
}

/** The shape of a target: its own, else the first of its kind. */
export function shapeOf({ shape, kind }: Pick<TargetSettings, 'shape' | 'kind'>): Shape {
  return shape ?? (Object.keys(kindOf({ kind }).wires)[0] as Shape);
}

function wireOf(row: Partial<TargetSettings>, kind: Kind): Wire {
  const shape = row.shape ?? (Object.keys(kind.wires)[0] as Shape);
  return (kind.wires[shape] as (place: object) => Wire)(placeOf(row));
}

/** How a target is spoken to: its kind's wire, with what its own settings change of it. */
export function spokenBy(row: TargetSettings): Wire {
  const wire = wireOf(row, kindOf(row));
  const { drop = [], rename = {}, headers = {}, stream_usage } = row;
  return {
    ...wire,
    drop: [...(wire.drop ?? []), ...drop],
    rename: { ...wire.rename, ...rename },
    headers: { ...wire.headers, ...lowered(headers) },
    stream_usage: stream_usage ?? wire.stream_usage ?? true,
  };
}

function lowered(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
}

/** True if a target is asked at the host that its kind has by itself. */
export function isAtHome({ base_url, ...row }: TargetSettings): boolean {
  const own = wireOf(row, kindOf(row)).base_url?.(placeOf(row));
  if (own === undefined || base_url === undefined) return own !== undefined;
  return new URL(own).origin === new URL(base_url).origin;
}

/** Where a target is: its base URL, with all of its query. */
export function urlOf(row: TargetSettings): URL {
  const kind = kindOf(row);
  const wire = wireOf(row, kind);
  const place = placeOf(row);
  const url = new URL(row.base_url ?? (wire.base_url as (place: object) => string)(place));
  for (const [name, value] of Object.entries({ ...wire.query?.(place), ...row.query })) {
    url.searchParams.set(name, value);
  }
  return url;
}

/** What a target discovers; undefined if its models are all named. */
export function discoveryOf({ discover }: Pick<TargetSettings, 'discover'>) {
  if (discover === undefined) return undefined;
  const { match = ['*'], models_max = 500 } = discover === true ? {} : discover;
  const patterns = match.map((one) => one.split('*'));
  return { models_max, takes: (name: string) => patterns.some((parts) => fits(name, parts)) };
}

/** True if a name holds the parts of a pattern, between which anything may stand. */
function fits(name: string, parts: readonly string[]): boolean {
  const [first = '', ...rest] = parts;
  const last = rest.pop();
  if (last === undefined) return name === first;
  if (!name.startsWith(first)) return false;
  // Each part at its first place leaves the most for those that follow.
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
