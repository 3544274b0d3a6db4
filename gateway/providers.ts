import { Pool } from 'undici';
import { providerKey, type Settings, type TargetSettings } from './settings';

/** Whose wire a family or a target speaks. */
export type Shape = TargetSettings['shape'];

/** One upstream: where it is, what it serves, and the connections to it. */
export interface Target {
  id: string;
  provider: string;
  shape: Shape;
  models: readonly string[];
  weight: number;
  stream_usage: boolean;
  /** Its tokens for one of ours. */
  token_factor: number;
  /** The path of the base URL, without a slash at its end. */
  base_path: string;
  /** The gateway's own credential and name; a client's never goes upstream. */
  headers: Readonly<Record<string, string>>;
  first_byte_ms: number;
  pool: Pool;
}

export interface Providers {
  /** A target that serves the model in this shape, by weight; undefined where none does. */
  find(model: string, shape: Shape): Target | undefined;
  /** Every model that some route reaches, with its provider, in the file's order. */
  models(shapes: ReadonlySet<Shape>): { model: string; provider: string }[];
  close(): Promise<void>;
}

const USER_AGENT = 'svc-gateway';
// For clients that name none; the provider refuses a request without.
const ANTHROPIC_VERSION = '2023-06-01';
// Anthropic's tokenizer is not public; measured by its users, it makes up to a fifth more tokens of a text.
const token_factors: Record<Shape, number> = { openai: 1, anthropic: 1.2 };

/** The upstream table. `random` gives [0, 1). */
export function openProviders(settings: Settings, random: () => number = Math.random): Providers {
  const targets = settings.providers.targets.map((row) => open(row, settings));
  return {
    find(model, shape) {
      const serving = targets.filter((row) => row.shape === shape && row.models.includes(model));
      return serving.length < 2 ? serving[0] : byWeight(serving, random());
    },
    models(shapes) {
      const reachable = targets.filter(({ shape }) => shapes.has(shape));
      const pairs = reachable.flatMap(({ models, provider }) =>
        models.map((model): [string, string] => [model, provider]),
      );
      return [...new Map(pairs.reverse())]
        .reverse()
        .map(([model, provider]) => ({ model, provider }));
    },
    async close() {
      await Promise.all(targets.map(({ pool }) => pool.destroy()));
    },
  };
}

function open(row: TargetSettings, { timeouts }: Settings): Target {
  const url = new URL(row.base_url);
  // Each HTTP/1.1 stream holds a connection, so their number is not limited here.
  const pool = new Pool(url.origin, {
    connect: { timeout: timeouts.connect_ms },
    bodyTimeout: timeouts.idle_ms,
  });
  const { id, provider, shape, models, weight, stream_usage } = row;
  return {
    ...{ id, provider, shape, models, weight, stream_usage, pool },
    token_factor: row.token_factor ?? token_factors[shape],
    base_path: url.pathname.replace(/\/+$/, ''),
    headers: { ...credential(row), 'user-agent': USER_AGENT, 'accept-encoding': 'identity' },
    first_byte_ms: row.timeout_ms ?? timeouts.first_byte_ms,
  };
}

function credential(row: TargetSettings): Record<string, string> {
  const key = providerKey(row);
  if (row.shape === 'openai') return { authorization: `Bearer ${key}` };
  return { 'x-api-key': key, 'anthropic-version': ANTHROPIC_VERSION };
}

function byWeight(serving: Target[], at: number): Target | undefined {
  const total = serving.reduce((sum, { weight }) => sum + weight, 0);
  let left = at * total;
  for (const target of serving) {
    left -= target.weight;
    if (left < 0) return target;
  }
  return serving.at(-1);
}
