import { readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import { z } from 'zod';
import { ConfigError, namedVariable } from '../config';
import { HOLD_MS_MAX } from './held-calls';
import { identitySettings } from './identity-settings';
import { limitProblem, limitSections } from './limit-settings';
import { mcpSettings } from './mcp-settings';
import { packName, policiesSettings, policyProblem, policySettings } from './policy-settings';
import { socketSettings } from './socket-settings';
import { observabilitySettings, telemetryProblem } from './telemetry-settings';

const MEBIBYTE = 1_048_576;
// 20 MiB of content and a little for the JSON around it.
const BODY_LIMIT_BYTES = 20 * MEBIBYTE + 16_384;

// 25 MB, as the providers take, and the form around it.
const AUDIO_LIMIT_BYTES = 26 * MEBIBYTE;

const milliseconds = z.int().min(1).max(3_600_000);

const target = z.strictObject({
  id: z.string().min(1),
  /** The provider's name in the price list. */
  provider: z.string().min(1),
  /** Whose wire it speaks. */
  shape: z.enum(['openai', 'anthropic']),
  /** As that provider's official SDK takes it: OpenAI's with `/v1`, Anthropic's without. */
  base_url: z.url({ protocol: /^https?$/ }),
  api_key_env: z.string().min(1),
  models: z.array(z.string().min(1)).min(1),
  /** Its share among the targets that serve a model. */
  weight: z.number().positive().default(1),
  /** To the first byte of an answer; `timeouts.first_byte_ms` where absent. */
  timeout_ms: milliseconds.optional(),
  /** False for upstreams that refuse `stream_options`: their streams are then billed by count. */
  stream_usage: z.boolean().default(true),
  /** How many of its tokens one of ours is, where the gateway counts; 1.2 for the shape `anthropic`, else 1. */
  token_factor: z.number().min(0.1).max(10).optional(),
});

const names = z.array(z.string().min(1)).min(1);

const fallback = z.strictObject({
  /** How often one target is asked again, before the next one is. */
  retries: z.int().min(0).max(5).default(0),
  /** Before a target is asked again; doubles each time. */
  backoff_ms: milliseconds.default(200),
  /**
   * Also after a failure that may have been an answer: a request that was sent and broke off, or timed out. The provider may
   * bill for both; the client is charged for the one that answers.
   */
  after_uncertain: z.boolean().default(false),
  /** Models that stand in for a model, or a group, in this order. */
  models: z.record(z.string().min(1), names).default({}),
});

const circuitBreaker = z.strictObject({
  enabled: z.boolean().default(true),
  /** So many failures of a target one after the other open its circuit. */
  failures: z.int().min(1).max(1_000).default(5),
  /** How long nothing is sent there then; after it one request tries. */
  open_ms: milliseconds.default(30_000),
});

const modelGroup = z.strictObject({
  /** What clients call it; no model has this name. */
  name: z.string().min(1),
  description: z.string().optional(),
  /** Tried in this order. */
  models: names,
});

const timeouts = z.strictObject({
  connect_ms: milliseconds.default(5_000),
  /** A reasoning model that does not stream may think for minutes. */
  first_byte_ms: milliseconds.default(300_000),
  /** Between two chunks of an answer, and for a client that does not read. */
  idle_ms: milliseconds.default(120_000),
  /** How long SIGTERM waits for answers under way. */
  drain_ms: milliseconds.default(30_000),
});

const costTickets = z.strictObject({
  /** How long a call that no wallet covers is held; a request's x-svc-hold-ms wins, 0 holds nothing. */
  hold_ms: z.int().min(0).max(HOLD_MS_MAX).default(45_000),
  /** More calls than these are answered with their ticket at once. */
  held_max: z.int().min(0).max(100_000).default(1_000),
  held_per_key_max: z.int().min(0).max(100_000).default(50),
});

const estimates = z.strictObject({
  /** Held for each piece of input that only the provider sees: an earlier response, a stored file, a tool that it runs. */
  unseen_input_tokens: z.int().min(0).max(10_000_000).default(4_096),
});

// One row a section.
export const settingsSchema = z.strictObject({
  providers: z.strictObject({
    targets: z.array(target).min(1),
    fallback: fallback.prefault({}),
  }),
  circuit_breaker: circuitBreaker.prefault({}),
  model_groups: z.array(modelGroup).default([]),
  timeouts: timeouts.prefault({}),
  cost_tickets: costTickets.prefault({}),
  estimates: estimates.prefault({}),
  identity: identitySettings.prefault({}),
  sockets: socketSettings.prefault({}),
  mcp: mcpSettings.prefault({}),
  /** Names this set of policies in refusals and events. */
  pack: packName.optional(),
  policies: policiesSettings.prefault({}),
  policy: policySettings.prefault({}),
  ...limitSections,
  observability: observabilitySettings.prefault({}),
  body_limit_bytes: z
    .int()
    .min(1_024)
    .max(256 * MEBIBYTE)
    .default(BODY_LIMIT_BYTES),
  /** Of forms that hold a sound file. */
  audio_limit_bytes: z
    .int()
    .min(1_024)
    .max(256 * MEBIBYTE)
    .default(AUDIO_LIMIT_BYTES),
});

export type Settings = z.infer<typeof settingsSchema>;
export type TargetSettings = z.infer<typeof target>;

/** Reads the gateway's YAML file; stops with the path of every key that is unknown or wrong. */
export function loadSettings(file: string): Settings {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    throw new ConfigError(`The gateway's configuration file ${file} cannot be read.`);
  }
  return parseSettings(text, file);
}

/** The same from text. `file` is only named in messages. */
export function parseSettings(text: string, file = 'gateway.yaml'): Settings {
  const parsed = settingsSchema.safeParse(yaml(text, file) ?? {});
  if (!parsed.success) {
    const problems = parsed.error.issues.flatMap(described);
    throw new ConfigError(`${file} is not a gateway configuration:\n${problems.join('\n')}`);
  }
  const checks = [repeatedId, missingKey, unservedModel, policyProblem, limitProblem];
  const problems = [...checks, telemetryProblem].flatMap((check) => check(parsed.data) ?? []);
  if (problems.length > 0) throw new ConfigError(`${file}: ${problems.join('\n  ')}`);
  return parsed.data;
}

/** The provider key that a target names; present, because settings without it do not load. */
export function providerKey({ api_key_env }: TargetSettings): string {
  return namedVariable(api_key_env) ?? '';
}

function yaml(text: string, file: string): unknown {
  try {
    const document = parseDocument(text);
    const [problem] = [...document.errors, ...document.warnings];
    if (problem === undefined) return document.toJS() as unknown;
    throw problem;
  } catch (error) {
    // Also an alias of nothing, or one that makes too much of itself.
    throw new ConfigError(`${file} is not YAML: ${(error as Error).message}`);
  }
}

function described(issue: z.core.$ZodIssue): string[] {
  if (issue.code !== 'unrecognized_keys') return [`  ${pathOf(issue.path)}: ${issue.message}`];
  return issue.keys.map((key) => `  ${pathOf([...issue.path, key])}: there is no such key`);
}

function pathOf(path: PropertyKey[]): string {
  const text = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`));
  return text.join('').replace(/^\./, '') || '(top)';
}

function repeatedId({ providers }: Settings): string | undefined {
  const ids = providers.targets.map(({ id }) => id);
  const at = ids.findIndex((id, index) => ids.indexOf(id) !== index);
  return at < 0 ? undefined : `providers.targets[${at}].id: "${ids[at]}" is used twice.`;
}

function missingKey({ providers }: Settings): string | undefined {
  const at = providers.targets.findIndex(({ api_key_env }) => !namedVariable(api_key_env));
  if (at < 0) return undefined;
  const name = providers.targets[at]?.api_key_env;
  return `providers.targets[${at}].api_key_env: the environment variable ${name} is not set.`;
}

/** Groups and fallbacks name models that some target serves; a group's own name is none of them. */
function unservedModel({ providers, model_groups }: Settings): string | undefined {
  const served = new Set(providers.targets.flatMap(({ models }) => models));
  const groups = new Set<string>();
  for (const [at, { name, models }] of model_groups.entries()) {
    if (served.has(name) || groups.has(name)) {
      return `model_groups[${at}].name: "${name}" is already the name of a model or group.`;
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
