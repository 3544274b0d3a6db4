import { parseDocument, stringify } from 'yaml';
import type { Answer } from '../api/client';
import type { Gateway, Version } from './words';

export type Configuration = Record<string, unknown>;

/** A configuration as the files of gateways say it. */
export const configurationText = (config: Configuration): string =>
  stringify(config, { lineWidth: 0 });

/** What a text says, or why it is no configuration; JSON is YAML too. Nothing of an empty text. */
export function configurationIn(text: string): { config?: Configuration; problem?: string } {
  if (text.trim() === '') return {};
  try {
    const document = parseDocument(text);
    const [problem] = [...document.errors, ...document.warnings];
    if (problem !== undefined) return { problem: problem.message };
    const config = document.toJS() as unknown;
    if (typeof config === 'object' && config !== null && !Array.isArray(config))
      return { config: config as Configuration };
  } catch (error) {
    return { problem: (error as Error).message };
  }
  return { problem: 'This has no members, such as providers:' };
}

type Current = Answer<'GET /api/gateway-config'>;

/**
 * The version that most gateways are to run, which need not be the one for all where a rollout has
 * ended; the one for all while there are no gateways. Undefined: they run their own files.
 */
export function inForce(
  current: Current,
  gateways: readonly Gateway[],
  versions: readonly Version[],
): Version | undefined {
  const counts = new Map<number | null, number>();
  for (const { desired_version: version } of gateways)
    counts.set(version, (counts.get(version) ?? 0) + 1);
  const [most] = [...counts].sort(([, n], [, m]) => m - n)[0] ?? [current.version];
  const found = versions.find(({ version }) => version === most);
  return found?.config ? found : undefined;
}
