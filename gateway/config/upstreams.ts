import { z } from 'zod';
import { namedVariable } from '../../runtime/config';
import { notSet } from './variables';

/**
 * The address of a server. Its query goes along with every request; what nobody would be sent is
 * refused.
 */
export const serverUrl = z
  .url({ protocol: /^https?$/ })
  .refine((text) => !hasUser(text), {
    error: 'names a user or a password: credentials are named in api_key_env',
  })
  .refine((text) => !text.includes('#'), { error: 'has a fragment (#...), which is never sent' });

function hasUser(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username !== '' || password !== '';
}

const milliseconds = z.int().min(1).max(3_600_000);

export const target = z.strictObject({
  id: z.string().min(1),
  /** The provider's name in the price list. */
  provider: z.string().min(1),
  /** Whose wire it speaks. */
  shape: z.enum(['openai', 'anthropic']),
  /** As that provider's official SDK takes it: OpenAI's with `/v1`, Anthropic's without. */
  base_url: serverUrl,
  /** Absent for servers that take no key. */
  api_key_env: z.string().min(1).optional(),
  models: z.array(z.string().min(1)).min(1),
  /** Its share among the targets that serve a model. */
  weight: z.number().positive().default(1),
  /** To the first byte of an answer; `timeouts.first_byte_ms` if absent. */
  timeout_ms: milliseconds.optional(),
  /** False for upstreams that refuse `stream_options`: their streams are then billed by count. */
  stream_usage: z.boolean().default(true),
  /**
   * How many of its tokens the gateway takes for one that it counts; 1.2 for the shape `anthropic`,
   * else 1.
   */
  token_factor: z.number().min(0.1).max(10).optional(),
});

const names = z.array(z.string().min(1)).min(1);

export const fallback = z.strictObject({
  /** How often one target is asked again, before the next one is. */
  retries: z.int().min(0).max(5).default(0),
  /** Before a target is asked again; doubles each time. */
  backoff_ms: milliseconds.default(200),
  /**
   * Also after a failure that may have been an answer: a request that was sent and broke off, or
   * timed out. The provider may bill for both; the client is charged for the one that answers.
   */
  after_uncertain: z.boolean().default(false),
  /** Models that stand in for a model, or a group, in this order. */
  models: z.record(z.string().min(1), names).default({}),
});

export const circuitBreaker = z.strictObject({
  enabled: z.boolean().default(true),
  /** So many failures of a target one after the other open its circuit. */
  failures: z.int().min(1).max(1_000).default(5),
  /** How long nothing is sent there then; after it one request tries. */
  open_ms: milliseconds.default(30_000),
});

export const modelGroup = z.strictObject({
  /** The name that clients call it by; it goes before a model of this name. */
  name: z.string().min(1),
  description: z.string().optional(),
  /** Tried in this order. */
  models: names,
});

export const timeouts = z.strictObject({
  connect_ms: milliseconds.default(5_000),
  /** A reasoning model that does not stream may think for minutes. */
  first_byte_ms: milliseconds.default(300_000),
  /** Between two chunks of an answer, and for a client that does not read. */
  idle_ms: milliseconds.default(120_000),
  /** How long SIGTERM waits for answers under way. */
  drain_ms: milliseconds.default(30_000),
});
export type TargetSettings = z.infer<typeof target>;

/** The settings of a server that may want a key. */
interface Keyed {
  api_key_env?: string | undefined;
}

/** The sections that say who serves what. */
interface UpstreamSections {
  mcp: { servers: readonly Keyed[] };
  providers: { targets: readonly TargetSettings[]; fallback: z.infer<typeof fallback> };
  model_groups: readonly z.infer<typeof modelGroup>[];
}

/**
 * The key that a server's settings name; present if they name one, because they do not load
 * without it.
 */
export function serverKey({ api_key_env }: Keyed): string | undefined {
  return api_key_env === undefined ? undefined : namedVariable(api_key_env);
}

export function repeatedId({ providers }: UpstreamSections): string | undefined {
  const ids = providers.targets.map(({ id }) => id);
  const at = ids.findIndex((id, index) => ids.indexOf(id) !== index);
  return at < 0 ? undefined : `providers.targets[${at}].id: "${ids[at]}" is used twice.`;
}

/** The variables of keys that are not set, all of them. */
export function missingKeys({ providers, mcp }: UpstreamSections): string[] {
  return [
    ...missingIn('providers.targets', providers.targets),
    ...missingIn('mcp.servers', mcp.servers),
  ];
}

function missingIn(section: string, servers: readonly Keyed[]): string[] {
  return servers.flatMap((server, at) =>
    server.api_key_env === undefined || serverKey(server)
      ? []
      : notSet(`${section}[${at}].api_key_env`, server.api_key_env),
  );
}

/** Groups and fallbacks name models that some target serves. */
export function unservedModel({ providers, model_groups }: UpstreamSections): string | undefined {
  const served = new Set(providers.targets.flatMap(({ models }) => models));
  const groups = new Set<string>();
  for (const [at, { name, models }] of model_groups.entries()) {
    if (groups.has(name)) {
      return `model_groups[${at}].name: "${name}" is already the name of a group.`;
    }
    groups.add(name);
    const unknown = models.find((model) => !served.has(model));
    if (unknown) return `model_groups[${at}].models: no target serves "${unknown}".`;
  }
  for (const [name, models] of Object.entries(providers.fallback.models)) {
    const unknown = models.find((model) => !served.has(model));
    if (!served.has(name) && !groups.has(name)) {
      return `providers.fallback.models: "${name}" is no model that a target serves, and no group.`;
    }
    if (unknown) return `providers.fallback.models.${name}: no target serves "${unknown}".`;
  }
  return undefined;
}

/** Whose wire a family or a target speaks. */
export type Shape = TargetSettings['shape'];
