import { z } from 'zod';

// The schemas of the routes' answers, for the OpenAPI page; tests check every answer against them.
// Money is in major units.

export const time = z.iso.datetime();
export const id = z.string();
export const money = z.number();

export const nothing = z.strictObject({});

/** A list's envelope: `{<name>: [...], has_more, total}`. */
export function list<Item extends z.ZodType>(named: Record<string, Item>) {
  const [name = '', item] = Object.entries(named)[0] ?? [];
  return z.strictObject({
    [name]: z.array(item as Item),
    has_more: z.boolean(),
    total: z.int(),
  });
}

/**
 * The envelope of a list with cursors: as that of pages, or, after a cursor, `{<name>: [...],
 * has_more, next}`.
 */
export function parts<Item extends z.ZodType>(named: Record<string, Item>) {
  const [name = '', item] = Object.entries(named)[0] ?? [];
  const part = z.strictObject({
    [name]: z.array(item as Item),
    has_more: z.boolean(),
    next: z.string().nullable().describe('The cursor of the next part; null at the end.'),
  });
  return z.union([list(named), part]);
}
