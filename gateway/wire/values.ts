export type Body = Record<string, unknown>;

/**
 * A count as providers write it, as a number or as text; a part of one counts as one. 0 for
 * anything that is no count; what is too large for one is the largest.
 */
export function countOf(value: unknown): number {
  const is_text = typeof value === 'string' && /^\d{1,32}(?:\.\d+)?$/.test(value);
  const count = Math.ceil(is_text ? Number(value) : typeof value === 'number' ? value : 0);
  return count > 0 ? Math.min(count, Number.MAX_SAFE_INTEGER) : 0;
}

/** The text; an empty one for anything that is no text. */
export function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** The objects of a list; an empty list for anything that is no list. */
export function listOf(value: unknown): Body[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** A value as JSON; an empty text for one that is nested more deeply than can be written. */
export function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return '';
  }
}

export function isObject(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The object that a JSON text holds; undefined if it holds none or is no JSON. */
export function objectIn(text: string): Body | undefined {
  try {
    const value = JSON.parse(text.startsWith('\ufeff') ? text.slice(1) : text) as unknown;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A header's text. Node gives a character a byte: clients write UTF-8, and some Latin-1. */
export function headerText(given: string): string {
  try {
    return utf8.decode(Buffer.from(given, 'latin1'));
  } catch {
    return given;
  }
}
