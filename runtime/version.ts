export const API_VERSION = '1.5.0';

/**
 * Which gateways and consoles an API works with, by minor versions (specification: Versioning, rule
 * 2); the newest API first.
 */
export const version_table = [
  { api: '1.5', gateways: ['1.4', '1.5'], consoles: ['1.4', '1.5'], status: 'current' },
  { api: '1.4', gateways: ['1.3', '1.4'], consoles: ['1.3', '1.4'], status: 'supported' },
  { api: '1.3', gateways: ['1.2', '1.3'], consoles: ['1.2', '1.3'], status: 'end of life' },
] as const;

type Row = (typeof version_table)[number];

/** The row of an API's version; undefined for one that the table does not have. */
export function rowOf(api_version: string): Row | undefined {
  return version_table.find(({ api }) => api === minorOf(api_version));
}

const own = rowOf(API_VERSION) as Row;

/**
 * True if a gateway, a console or a worker of this version works with this API: of its own minor
 * version or the one before.
 */
export function fitsWithApi(version: string, kind: 'gateways' | 'consoles' = 'gateways'): boolean {
  return (own[kind] as readonly string[]).includes(minorOf(version));
}

/** Why one does not, for the person who runs it. */
export function unfitWords(kind: 'gateways' | 'consoles' | 'workers', version: string): string {
  return `API ${own.api} works with ${kind} ${own.gateways.join(' and ')}, not with ${version}.`;
}

/** The two first numbers; empty for what is no version. */
function minorOf(version: string): string {
  return /^(\d+\.\d+)\.\d+/.exec(version)?.[1] ?? '';
}
