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
