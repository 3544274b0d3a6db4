import { readFileSync, statSync } from 'node:fs';
import { z } from 'zod';
import { ambientAuth, namedVariable } from '../../runtime/config';
import { isObject } from '../wire/values';
import { milliseconds, name } from './addresses';
import { ambientOf, keyIn, variablesOf, wayOf } from './auth';
import { discoveryOf, providerOf, servedModels, type TargetSettings, urlOf } from './targets';
import { notSet } from './variables';

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
  name,
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

/** Two targets of one provider whose prices would be imported at different factors. */
export function unlikeFactors({ providers }: UpstreamSections): string[] {
  const factors = new Map<string, number>();
  return providers.targets.flatMap((row, at) => {
    const provider = providerOf(row);
    const factor = row.price_factor ?? 1;
    const before = factors.get(provider) ?? factor;
    factors.set(provider, before);
    return before === factor
      ? []
      : [
          `providers.targets[${at}].price_factor: the provider "${provider}" has the factor ` +
            `${before} at another target, and one price list. Give this target a "provider" of its own.`,
        ];
  });
}

/** The variables and files of keys that are not there, all of them. */
export function missingKeys({ providers, mcp }: UpstreamSections): string[] {
  return [
    ...providers.targets.flatMap((row, at) => [...unsetIn(row, at), ...unreadableIn(row, at)]),
    ...missingIn('mcp.servers', mcp.servers),
  ];
}

function unsetIn(row: TargetSettings, at: number): string[] {
  return variablesOf(row).flatMap(({ at: part, variable }) =>
    troubleIn(`providers.targets[${at}].${part}`, variable, {
      // The path of a file may have blanks.
      is_key: part !== 'auth.google.credentials_file_env',
    }),
  );
}

function unreadableIn(row: TargetSettings, at: number): string[] {
  const way = wayOf(row);
  const path = `providers.targets[${at}].auth`;
  if (way.form === 'key' && way.file !== undefined)
    return fileTrouble(`${path}.key_file`, way.file, (text) =>
      keyIn(text) === undefined ? 'holds no key: write the key alone, in one line.' : undefined,
    );
  const variable = way.form === 'google' ? way.google.credentials_file_env : undefined;
  const file = variable === undefined ? undefined : namedVariable(variable);
  return file ? fileTrouble(`${path}.google.credentials_file_env`, file, googleTrouble) : [];
}

/** What is wrong with a file that holds a secret, in words that repeat nothing of it. */
function fileTrouble(
  path: string,
  file: string,
  troubleOf: (text: string) => string | undefined,
): string[] {
  const at = `${path}: the file ${file}`;
  try {
    // What is no file may never end, or never begin.
    if (!statSync(file).isFile()) return [`${at} is no file.`];
    const trouble = troubleOf(readFileSync(file, 'utf8'));
    return trouble === undefined ? [] : [`${at} ${trouble}`];
  } catch {
    return [`${at} cannot be read.`];
  }
}

/** What each type of a credential of Google cannot do without. */
const google_parts: Readonly<Record<string, readonly string[]>> = {
  service_account: ['client_email', 'private_key'],
  authorized_user: ['client_id', 'client_secret', 'refresh_token'],
  external_account: ['audience', 'subject_token_type', 'token_url', 'credential_source'],
  impersonated_service_account: ['service_account_impersonation_url', 'source_credentials'],
};

function googleTrouble(text: string): string | undefined {
  const given = objectIn(text);
  const type = String(given?.type);
  const parts = Object.hasOwn(google_parts, type) ? google_parts[type] : undefined;
  if (given === undefined || parts === undefined)
    return `holds no credential of Google: write the JSON of one, whose "type" is one of ${Object.keys(google_parts).join(', ')}.`;
  const missing = parts.filter((name) => !given[name]);
  return missing.length === 0
    ? undefined
    : `is not whole: a credential of the type ${type} has ${missing.join(' and ')} too.`;
}

function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const given: unknown = JSON.parse(text);
    return isObject(given) ? given : undefined;
  } catch {
    return undefined;
  }
}

function missingIn(section: string, servers: readonly Keyed[]): string[] {
  return servers.flatMap(({ api_key_env }, at) =>
    api_key_env === undefined
      ? []
      : troubleIn(`${section}[${at}].api_key_env`, api_key_env, { is_key: true }),
  );
}

/** What is wrong with the value of a variable: it is not there, or cannot be what it is. */
function troubleIn(path: string, variable: string, { is_key }: { is_key: boolean }): string[] {
  const value = namedVariable(variable);
  if (!value) return [notSet(path, variable)];
  if (/\p{Cc}/u.test(value))
    return [
      `${path}: the value of ${variable} has a line break or another control character in it.`,
    ];
  return is_key && keyIn(value) !== value
    ? [
        `${path}: the value of ${variable} has a blank or another letter that no key has: set the key alone.`,
      ]
    : [];
}

/**
 * Identities of the machine that the process does not allow, and tokens that would go to another
 * host than their kind's.
 */
export function ambientProblems({ providers }: UpstreamSections): string[] {
  const { identities, origins } = ambientAuth();
  return providers.targets.flatMap((row, at) => {
    const way = wayOf(row);
    const path = `providers.targets[${at}]`;
    const ambient = ambientOf(way);
    if (ambient !== undefined && !identities.includes(ambient))
      return [
        `${path}.auth: the identity of this machine is used only if the gateway's variable ` +
          `GATEWAY_AMBIENT_AUTH names ${ambient}; or name a credential of its own here.`,
      ];
    const is_own = row.base_url === undefined || origins.includes(urlOf(row).origin);
    if (ambient === undefined && way.form !== 'google' && way.form !== 'entra') return [];
    if (!is_own)
      return [
        `${path}.base_url: a token goes to the host of its kind alone: leave base_url out, or name ` +
          `${urlOf(row).origin} in the gateway's variable GATEWAY_AMBIENT_ORIGINS.`,
      ];
    return row.headers === undefined
      ? []
      : [
          `${path}.headers: beside a token of this kind no header of one's own is sent: leave them out.`,
        ];
  });
}

/** Groups and fallbacks name models that some target serves. */
export function unservedModel({ providers, model_groups }: UpstreamSections): string | undefined {
  const served = new Set(
    providers.targets.flatMap((row) => servedModels(row).map(({ name }) => name)),
  );
  const discovered = providers.targets.flatMap((row) => discoveryOf(row) ?? []);
  const isServed = (name: string) =>
    served.has(name) || discovered.some(({ takes }) => takes(name));
  const groups = new Set<string>();
  for (const [at, { name, models }] of model_groups.entries()) {
    if (groups.has(name)) {
      return `model_groups[${at}].name: "${name}" is already the name of a group.`;
    }
    groups.add(name);
    const unknown = models.find((model) => !isServed(model));
    if (unknown) return `model_groups[${at}].models: no target serves "${unknown}".`;
  }
  for (const [name, models] of Object.entries(providers.fallback.models)) {
    const unknown = models.find((model) => !isServed(model));
    if (!isServed(name) && !groups.has(name)) {
      return `providers.fallback.models: "${name}" is no model that a target serves, and no group.`;
    }
    if (unknown) return `providers.fallback.models.${name}: no target serves "${unknown}".`;
  }
  return undefined;
}
