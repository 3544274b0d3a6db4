import { fromNanos } from '../domain/money';

/** The type of a row's wire form. */
export type Wire<Row> = Row extends Date
  ? string
  : Row extends bigint
    ? number
    : Row extends readonly (infer Item)[]
      ? Wire<Item>[]
      : Row extends object
        ? {
            [member in keyof Row as member extends `${infer Amount}_nanos` ? Amount : member]: Wire<
              Row[member]
            >;
          }
        : Row;

/**
 * The wire form of a row: keys ending `_nanos` lose the suffix and become JSON numbers of major
 * units (BigInt, or its decimal text inside jsonb, or a list of them), dates become ISO 8601 text,
 * nothing else changes.
 */
export function toWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toWire);
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'bigint') return Number(value);
  if (typeof value !== 'object' || value === null) return value;
  const wire: Record<string, unknown> = {};
  for (const [key, member] of Object.entries(value)) {
    if (member === undefined) continue;
    if (key.endsWith('_nanos'))
      wire[key.slice(0, -'_nanos'.length)] = Array.isArray(member)
        ? member.map(unitsOf)
        : unitsOf(member);
    else wire[key] = toWire(member);
  }
  return wire;
}

function unitsOf(nanos: unknown): number | null {
  return nanos === null ? null : fromNanos(BigInt(nanos as bigint | string));
}
