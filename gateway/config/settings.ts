import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import { z } from 'zod';
import { ConfigError } from '../../runtime/config';
import { identitySettings } from './identity';
import { limitProblem, limitSections, storeValueProblem } from './limits';
import { mcpSettings } from './mcp';
import { packName, policiesSettings, policyProblem, policySettings } from './policies';
import { beyondReach, keptVariables, type Reach } from './reach';
import { orgShare } from './shares';
import { socketSettings } from './sockets';
import { target } from './targets';
import { endpointValueProblem, observabilitySettings, telemetryProblem } from './telemetry';
import {
  ambientProblems,
  circuitBreaker,
  fallback,
  missingKeys,
  modelGroup,
  repeatedId,
  timeouts,
  unlikeFactors,
  unservedModel,
} from './upstreams';

const MEBIBYTE = 1_048_576;
// 20 MiB of content and a little for the JSON around it.
const BODY_LIMIT_BYTES = 20 * MEBIBYTE + 16_384;
// 25 MB, as the providers take, and the form around it.
const AUDIO_LIMIT_BYTES = 26 * MEBIBYTE;
/** The longest time, in ms, that a call may be held for money. */
export const HOLD_MS_MAX = 600_000;

const costTickets = z.strictObject({
  /**
   * How long a call that no wallet covers is held; a request's x-svc-hold-ms wins, 0 holds nothing.
   */
  hold_ms: z.int().min(0).max(HOLD_MS_MAX).default(45_000),
  /** More calls than these are answered with their ticket at once. */
  held_max: z.int().min(0).max(100_000).default(1_000),
  held_per_org_max: orgShare,
  held_per_key_max: z.int().min(0).max(100_000).default(50),
  /** Of the bodies of all of them together, which are kept while they wait. */
  held_limit_bytes: z
    .int()
    .min(1_024)
    .max(65_536 * MEBIBYTE)
    .default(256 * MEBIBYTE),
});

const estimates = z.strictObject({
  /**
   * Held for each piece of input that only the provider sees: an earlier response, a stored file, a
   * tool that it runs.
   */
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
  /**
   * A request may name only what its organization's calls have made at a provider; `pass` lets it
   * name anything that the provider's account keeps.
   */
  stored_ids: z.enum(['bound', 'pass']).default('bound'),
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
  /** Of all bodies and frames together that have begun to arrive and are not whole yet. */
  arriving_limit_bytes: z
    .int()
    .min(1_024)
    .max(65_536 * MEBIBYTE)
    .default(256 * MEBIBYTE),
});

export type Settings = z.infer<typeof settingsSchema>;

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
  return checked(shaped(text, file), file);
}

/**
 * The control plane's configuration, which may name no more than the reach of this gateway.
 * Looked at before any variable is read: the refusal does not tell which ones are set.
 */
export function parseGiven(
  config: object,
  name: string,
  { file, reach }: { file: Settings; reach: Reach },
): Settings {
  const settings = shaped(JSON.stringify(config), name);
  const problems = beyondReach(settings, file, reach);
  if (problems.length > 0) throw new ConfigError(`${name}: ${problems.join('\n  ')}`);
  return checked(settings, name);
}

/** A key of a configuration that is wrong: `providers.targets[0].weight`, and why. */
export interface Problem {
  path: string;
  message: string;
}

/**
 * All that can be said of a configuration without the environment of a gateway: its settings if it
 * is good, else what is wrong with it. Which variables are set, it neither asks nor tells.
 */
export function checkConfig(
  config: object,
): { settings: Settings; problems: [] } | { settings?: never; problems: Problem[] } {
  const parsed = settingsSchema.safeParse(config);
  if (!parsed.success) return { problems: parsed.error.issues.flatMap(described) };
  const { data: settings } = parsed;
  const problems = [...keptVariables(settings), ...contradictions(settings)].map(problemOf);
  return problems.length > 0 ? { problems } : { settings, problems: [] };
}

function shaped(text: string, file: string): Settings {
  const parsed = settingsSchema.safeParse(yaml(text, file) ?? {});
  if (!parsed.success) {
    const problems = parsed.error.issues
      .flatMap(described)
      .map(({ path, message }) => `  ${path}: ${message}`);
    throw new ConfigError(`${file} is not a gateway configuration:\n${problems.join('\n')}`);
  }
  const problems = keptVariables(parsed.data);
  if (problems.length > 0) throw new ConfigError(`${file}: ${problems.join('\n  ')}`);
  return parsed.data;
}

function checked(settings: Settings, file: string): Settings {
  const values = [missingKeys, ambientProblems, storeValueProblem, endpointValueProblem];
  const unset = values.flatMap((check) => check(settings) ?? []);
  const problems = [...contradictions(settings), ...unset];
  if (problems.length > 0) throw new ConfigError(`${file}: ${problems.join('\n  ')}`);
  return settings;
}

/** What does not fit together, a line each. */
function contradictions(settings: Settings): string[] {
  const checks = [
    repeatedId,
    unlikeFactors,
    unservedModel,
    policyProblem,
    limitProblem,
    telemetryProblem,
  ];
  return checks.flatMap((check) => check(settings) ?? []);
}

function problemOf(line: string): Problem {
  const end = line.indexOf(': ');
  return { path: line.slice(0, end), message: line.slice(end + 2) };
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

function described(issue: z.core.$ZodIssue): Problem[] {
  const { path, message } = issue;
  if (issue.code === 'invalid_union') {
    // What was meant: the form of the value's own type.
    const meant = issue.errors.find((all) =>
      all.every(({ path: inner, code }) => inner.length > 0 || code === 'unrecognized_keys'),
    );
    if (meant !== undefined && meant.length > 0)
      return meant.flatMap((inner) => described({ ...inner, path: [...path, ...inner.path] }));
  }
  if (issue.code !== 'unrecognized_keys') return [{ path: pathOf(path), message }];
  return issue.keys.map((key) => ({
    path: pathOf([...path, key]),
    message: 'there is no such key',
  }));
}

function pathOf(path: PropertyKey[]): string {
  const text = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`));
  return text.join('').replace(/^\./, '') || '(top)';
}

/** Names a configuration by its content, as gateways report it: 16 hexadecimal digits. */
export function hashOf(settings: Settings): string {
  return createHash('sha256').update(stable(settings)).digest('hex').slice(0, 16);
}

/** JSON whose names are sorted: the database keeps the order of no object. */
function stable(settings: Settings): string {
  return JSON.stringify(settings, (_, value: unknown) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
}
