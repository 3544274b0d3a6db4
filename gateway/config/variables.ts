/**
 * A variable as a message names it. What does not look like one may be a key that was written in
 * its place, and is not repeated.
 */
export function shownVariable(name: string): string {
  return /^[A-Z_][A-Z0-9_]*$/.test(name) ? name : '(not shown, as it may be a key)';
}

/** What is wrong where a configuration names a variable that this gateway lacks. */
export function notSet(path: string, name: string): string {
  return `${path}: the environment variable ${shownVariable(name)} is not set. Set it where this gateway is started, or name another one.`;
}
