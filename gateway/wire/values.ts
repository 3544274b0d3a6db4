export type Body = Record<string, unknown>;

/**
 * A count as providers write it, as a number or as text; a part of one counts as one. 0 for
 * anything that is no count, or none that anybody could mean.
 */
export function countOf(value: unknown): number {
  const is_text = typeof value === 'string' && /^\d{1,16}(?:\.\d+)?$/.test(value);
  const count = Math.ceil(is_text ? Number(value) : typeof value === 'number' ? value : 0);
  return Number.isSafeInteger(count) && count > 0 ? count : 0;
}

/** The text; an empty one for anything that is no text. */
export function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The objects of a list; an empty list for anything that is no list. */
export function listOf(value: unknown): Body[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

export function isObject(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object that a JSON text holds; undefined if it holds none or is no JSON. */
export function objectIn(text: string): Body | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
