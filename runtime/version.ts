export const API_VERSION = '1.5.0';

const [major = 0, minor = 0] = API_VERSION.split('.').map(Number);

/**
 * True if a gateway or worker of this version works with this API: of its own minor version or the
 * one before (specification: Versioning, rules 2 and 3).
 */
export function fitsWithApi(version: string): boolean {
  const [, of_major, of_minor] = /^(\d+)\.(\d+)\.\d+/.exec(version) ?? [];
  return Number(of_major) === major && [minor, minor - 1].includes(Number(of_minor));
}
