import { z } from 'zod';
import { id, money, time } from './shared';

const figures = {
  cost: money.describe(
    'The sum of what calls were settled at, to the nano below 8,388,608; above that the nearest number that JSON readers have, and Accept: text/csv has every digit.',
  ),
  requests: z.int().describe('Calls that were settled.'),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cached_tokens: z.int(),
};

const group = z
  .record(z.string(), id.nullable())
  .describe('What the figures are of, by dimension; null: calls that have none.');

const head = {
  currency: id,
  time_zone: id.describe('Whose calendar days and hours are of.'),
  as_of: time.describe('What was settled until then is in.'),
  from: time,
  to: time,
  totals: z.strictObject(figures).describe('Of all groups, also of those that are left out.'),
  truncated: z.boolean().describe('Groups that spent less than these are left out.'),
};

export const spend = z.strictObject({
  interval: z.enum(['hour', 'day', 'month']),
  ...head,
  buckets: z.array(
    z.strictObject({
      start: time,
      local: z.string().describe('The hour, day or month by the calendar of time_zone.'),
      group,
      ...figures,
    }),
  ),
});

export const top = z.strictObject({
  by: z.string(),
  ...head,
  groups: z.array(z.strictObject({ group, ...figures })),
});
