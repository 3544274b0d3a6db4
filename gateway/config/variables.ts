/** What is wrong where a configuration names a variable that this gateway lacks. */
export function notSet(path: string, name: string): string {
  return `${path}: the environment variable ${name} is not set. Set it where this gateway is started, or name another one.`;
}
