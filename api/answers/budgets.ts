import { z } from 'zod';
import { id, money, time } from './shared';

const ownerType = z.enum(['key', 'user', 'team', 'organization']);
const window = z.enum(['hour', 'day', 'week', 'month', 'life']);

export const budget = z.strictObject({
  id,
  org_id: id,
  owner_type: ownerType,
  owner_id: id,
  owner_name: z.string(),
  limit: money,
  window,
  on_exceed: z.enum(['refuse', 'ticket']),
  thresholds: z.array(z.int()),
  raised: money.describe('What approvals have added to this window.'),
  spent: money.describe('What the calls of this window have cost.'),
  held: money.describe('What open calls of this window hold.'),
  remaining: money,
  currency: id,
  starts_at: time,
  resets_at: time.nullable().describe('null: never.'),
  is_max_budget: z.boolean().describe('The max_budget of a key, which is changed with it.'),
  created_by: id.nullable(),
  created_at: time,
  updated_at: time,
});

/** A budget that has no room for a call. */
export const shortBudget = z.strictObject({
  id,
  owner_type: ownerType,
  owner_id: id,
  window,
  limit: money.describe('What it allows in this window, raises included.'),
  used: money.describe('What is spent and held of it.'),
  missing: money.describe('What an approval adds to it.'),
  resets_at: time.nullable(),
});

/** The same as a ticket keeps it once it is decided. */
export const ticketBudget = shortBudget.extend({
  missing: money.describe('What was missing: now, or as the ticket was opened or decided.'),
  raised: money
    .optional()
    .describe(
      'By how much approvals of this ticket raised it in that window; absent: they did not.',
    ),
});

/** What a call hears of a budget that has reached one of its thresholds. */
export const budgetWarning = z.strictObject({
  id,
  warning_type: z.literal('budget'),
  owner_type: ownerType,
  owner_id: id,
  window,
  threshold_pct: z.int(),
  limit: money,
  used: money,
  resets_at: time.nullable(),
});

export const approvalRule = z.strictObject({
  id,
  org_id: id,
  name: z.string(),
  team_id: id.nullable().describe('null: of every team, and of none.'),
  max_per_call: money,
  max_per_day: money,
  source: z.enum(['team', 'organization']),
  approved_today: money,
  approvals_today: z.int(),
  day_ends_at: time,
  currency: id,
  created_by: id.nullable(),
  created_at: time,
  updated_at: time,
});
