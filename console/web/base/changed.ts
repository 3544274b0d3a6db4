/**
 * What a form changes of what it was filled with: only that is sent, so that what somebody else has
 * changed meanwhile stays.
 */
export function changedIn<Fields extends object>(
  now: Fields,
  before: { readonly [Name in keyof Fields]: unknown },
): Partial<Fields> {
  const names = Object.keys(now) as (keyof Fields)[];
  const changed = names.filter(
    (name) => JSON.stringify(now[name]) !== JSON.stringify(before[name]),
  );
  return Object.fromEntries(changed.map((name) => [name, now[name]])) as Partial<Fields>;
}
