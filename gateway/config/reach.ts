import { kinds } from '../providers/table';
import { isOpenedByKey, variablesOf, wayOf } from './auth';
import { isAtHome, kindOf, providerOf, type TargetSettings, urlOf } from './targets';
import { shownVariable } from './variables';

/** The sections that name addresses, variables or files. */
interface Sections {
  providers: { targets: readonly TargetSettings[] };
  mcp: { servers: readonly { url: string; api_key_env?: string | undefined }[] };
  identity: { jwks_url?: string | undefined };
  distributed_rate_limit: { store_url_env?: string | undefined };
  observability: { otlp: { endpoint_env?: string | undefined } };
}

/** A place of a configuration that names an address, a variable of the process, or both. */
interface Place {
  /** Where it stands: `providers.targets[0]`. */
  path: string;
  /** What is asked there. A key that the file names for a model is none for a tool's server. */
  kind: 'target' | 'mcp' | 'keys' | 'store' | 'receiver';
  /** The address that is asked. Absent if the variable holds it. */
  url?: string | undefined;
  /** The variable whose value is sent there, or holds the address. */
  variable?: string | undefined;
  /** The file whose content is sent there. */
  file?: string | undefined;
  /** The name of the sealed key that is sent there, unless it is the host of the kind itself. */
  sealed?: string | undefined;
}

/** What a configuration of the control plane may name. The gateway's own process decides it. */
export interface Reach {
  /** `GATEWAY_ORIGINS` */
  origins: readonly string[];
  /**
   * `GATEWAY_SECRET_ENVS`; of one without an origin the value is an address itself. `sealed:NAME`
   * is a sealed key of the platform, `own:PROVIDER` the organizations' own keys of a provider.
   */
  variables: readonly { name: string; origin: string | undefined }[];
}

// Of the product's own processes: they sign, seal, and open the ledger.
const kept = /^(CONTROL_PLANE|SVC|DATABASE|JWT)_/i;

/**
 * Every address and variable that settings name. A member that names one must be here; a test walks
 * the schema for them.
 */
export function placesOf(settings: Sections): Place[] {
  const { providers, mcp, identity, distributed_rate_limit, observability } = settings;
  return [
    ...providers.targets.flatMap(targetPlaces),
    ...mcp.servers.map(({ url, api_key_env }, at) => ({
      path: `mcp.servers[${at}]`,
      kind: 'mcp' as const,
      url,
      variable: api_key_env,
    })),
    { path: 'identity.jwks_url', kind: 'keys', url: identity.jwks_url },
    {
      path: 'distributed_rate_limit.store_url_env',
      kind: 'store',
      variable: distributed_rate_limit.store_url_env,
    },
    {
      path: 'observability.otlp.endpoint_env',
      kind: 'receiver',
      variable: observability.otlp.endpoint_env,
    },
  ];
}

/** One for each variable or file that proves who asks; one at least. */
function targetPlaces(row: TargetSettings, at: number): Place[] {
  const place = { path: `providers.targets[${at}]`, kind: 'target' as const, url: urlOf(row).href };
  const way = wayOf(row);
  if (way.form === 'key' && way.file !== undefined) return [{ ...place, file: way.file }];
  if (way.form === 'key' && way.sealed !== undefined)
    return [isAtHome(row) ? place : { ...place, sealed: way.sealed }];
  const variables = variablesOf(row);
  return variables.length === 0
    ? [place]
    : variables.map(({ variable }) => ({ ...place, variable }));
}

/** The variables that no configuration may name, a line each. */
export function keptVariables(settings: Sections): string[] {
  return placesOf(settings).flatMap(({ path, variable }) =>
    variable !== undefined && kept.test(variable)
      ? [`${path}: ${variable} is a variable of the product's own; no configuration may name it.`]
      : [],
  );
}

/**
 * What a configuration of the control plane names beyond its reach, a line each: it goes where the
 * process's own variables and file say, with the secrets that they bind to that origin. The lines
 * are the same whether a variable is set or not.
 */
export function beyondReach(settings: Sections, file: Sections, reach: Reach): string[] {
  const own = placesOf(file);
  const origins = new Set([...reach.origins, ...own.flatMap(({ url }) => originOf(url) ?? [])]);
  const listed = new Set(reach.variables.map(({ name, origin }) => pairOf(name, origin)));
  const named = new Set(
    own.map(({ kind, variable, url }) => `${kind} ${pairOf(variable ?? '', originOf(url))}`),
  );
  const files = new Set(
    own.flatMap(({ file: name, url }) => (name ? pairOf(name, originOf(url)) : [])),
  );
  const sealed_named = new Set(own.flatMap(({ sealed, url }) => sealedPair(sealed, url) ?? []));
  return placesOf(settings).flatMap(({ path, kind, url, variable, file: key_file, sealed }) => {
    const origin = originOf(url);
    if (origin !== undefined && !origins.has(origin))
      return [
        `${path}: ${origin} is neither in GATEWAY_ORIGINS nor in the file of this gateway, so the ` +
          'control plane cannot send it anything.',
      ];
    if (key_file !== undefined && !files.has(pairOf(key_file, origin)))
      return [
        `${path}: the control plane cannot use the file ${key_file} here. Name it so in the file of this gateway.`,
      ];
    const sealed_pair = sealedPair(sealed, url);
    if (sealed_pair !== undefined && !listed.has(sealed_pair) && !sealed_named.has(sealed_pair))
      return [
        `${path}: the control plane cannot send the sealed key ${sealed} to this address. List it ` +
          `as ${sealed_pair} in the gateway's variable GATEWAY_SECRET_ENVS, or name it so in its file.`,
      ];
    if (variable === undefined) return [];
    const pair = pairOf(variable, origin);
    if (listed.has(pair) || named.has(`${kind} ${pair}`)) return [];
    const shown = shownVariable(variable);
    const entry = origin === undefined ? shown : `${shown}@${origin}`;
    return [
      `${path}: the control plane cannot use ${shown} here. List it as ${entry} in the ` +
        "gateway's variable GATEWAY_SECRET_ENVS, or name it so in its file.",
    ];
  });
}

/**
 * Which targets of a configuration of the control plane organizations' own keys may go to: those at
 * the host of the provider's own kind, and those whose address and provider the file has with a
 * key, or the process lists together. Whoever may store a configuration must not carry them out.
 */
export function ownKeyReach(
  file: Pick<Sections, 'providers'>,
  reach: Reach,
): (row: TargetSettings) => boolean {
  const allowed = new Set([
    ...reach.variables.map(({ name, origin }) => pairOf(name, origin)),
    ...file.providers.targets.filter(isOpenedByKey).map(ownPair),
  ]);
  return (row) => isOfItsKind(row) || allowed.has(ownPair(row));
}

/**
 * The ids of the targets that a key opens and own keys do not go to, and the entries of
 * `GATEWAY_SECRET_ENVS` that would allow it; undefined if there are none.
 */
export function closedToOwnKeys(
  { providers }: Pick<Sections, 'providers'>,
  takesOwnKeys: (row: TargetSettings) => boolean,
): { targets: string[]; entries: string[] } | undefined {
  const closed = providers.targets.filter((row) => isOpenedByKey(row) && !takesOwnKeys(row));
  if (closed.length === 0) return undefined;
  return { targets: closed.map(({ id }) => id), entries: [...new Set(closed.map(ownPair))] };
}

/** As the variable lists the own keys that a target gets: `own:openai@https://api.openai.com`. */
function ownPair(row: TargetSettings): string {
  return pairOf(`own:${providerOf(row)}`, urlOf(row).origin);
}

/** True at the host of its kind, unless the keys that it would get are another kind's. */
function isOfItsKind(row: TargetSettings): boolean {
  const provider = providerOf(row);
  return isAtHome(row) && (provider === kindOf(row).name || !kinds.has(provider));
}

function sealedPair(sealed: string | undefined, url: string | undefined): string | undefined {
  return sealed === undefined ? undefined : pairOf(`sealed:${sealed}`, originOf(url));
}

function originOf(url: string | undefined): string | undefined {
  return url === undefined ? undefined : new URL(url).origin;
}

function pairOf(variable: string, origin: string | undefined): string {
  return `${variable}@${origin ?? ''}`;
}
