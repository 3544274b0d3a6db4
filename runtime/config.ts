import { homedir } from 'node:os';
import path from 'node:path';
import type { z } from 'zod';
import { variables } from './variables';

type Variables = typeof variables;

/**
 * Reads one process's configuration; stops with the names of the variables that are missing or
 * wrong.
 */
export function loadConfig<Process extends keyof Variables>(
  process_name: Process,
  env: NodeJS.ProcessEnv = process.env,
): Readonly<z.infer<Variables[Process]>> {
  // An empty variable is none: that is how files of containers leave one out.
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = variables[process_name].safeParse(given);
  if (parsed.success) return Object.freeze(parsed.data) as Readonly<z.infer<Variables[Process]>>;
  const problems = parsed.error.issues.map(
    ({ path, message }) => `  ${String(path[0])} ${message}`,
  );
  throw new ConfigError(
    `The ${process_name} cannot start; set these environment variables:\n${problems.join('\n')}`,
  );
}

/**
 * A start that cannot go on. Its message is for the person at the terminal; run.cjs prints it and
 * exits with 1.
 */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

// Where a process runs, and how it reaches the network.
const ambient =
  /^(PATH|HOME|USER|LOGNAME|SHELL|TERM|TMPDIR|TZ|LANG|LANGUAGE|LC_\w+|XDG_\w+|NODE_\w+|SSL_CERT_\w+|\w+_PROXY|LOG_LEVEL)$/i;

/**
 * The variables to hand to a process that this one starts: those of its surroundings, those that a
 * process of ours reads, and the named ones. No other secret reaches it.
 */
export function childVariables(
  { process_name, named = [] }: { process_name?: keyof Variables; named?: readonly string[] } = {},
  env: NodeJS.ProcessEnv = process.env,
): Record<string, string> {
  const read = process_name === undefined ? [] : Object.keys(variables[process_name].shape);
  const wanted = new Set([...read, ...named]);
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] =>
        entry[1] !== undefined && (ambient.test(entry[0]) || wanted.has(entry[0])),
    ),
  );
}

/** The variables of Temporal's SDK that are set: address, TLS, keys. */
export function temporalVariables(env: NodeJS.ProcessEnv = process.env): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[0].startsWith('TEMPORAL_') && !!entry[1],
    ),
  );
}

/**
 * The value of a variable that a configuration file names (provider keys); undefined if it is not
 * set.
 */
export function namedVariable(name: string): string | undefined {
  return process.env[name];
}

/**
 * The identities of the machine that targets of the gateway may stand on, and the origins beside
 * their own hosts to which tokens may go.
 */
export function ambientAuth(env: NodeJS.ProcessEnv = process.env): {
  identities: readonly string[];
  origins: readonly string[];
} {
  const { GATEWAY_AMBIENT_AUTH, GATEWAY_AMBIENT_ORIGINS } = variables.gateway.shape;
  return {
    identities: GATEWAY_AMBIENT_AUTH.parse(env.GATEWAY_AMBIENT_AUTH || undefined),
    origins: GATEWAY_AMBIENT_ORIGINS.parse(env.GATEWAY_AMBIENT_ORIGINS || undefined),
  };
}

/**
 * The folder for files that can be fetched or made again: outside DATA_DIR, so that a new data
 * directory finds it again.
 */
export function cacheFolder(): string {
  return path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'svc');
}

/**
 * The client of object stores warns of the age of Node, as text between the lines of the log: not
 * in this process.
 */
export function quietObjectStores(): void {
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED = 'true';
}

/** What this process builds is for use, without the checks that packages add for developers. */
export function buildForUse(): void {
  process.env.NODE_ENV = 'production';
}
