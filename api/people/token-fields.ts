import { z } from 'zod';
import { AppError } from '../../domain/errors';
import { id, name } from '../http/fields';

// The fields of keys, which admins and members name alike.

// A star stands for any end of a name; in another place it would match nothing.
const allowedModel = id.refine((one) => !one.slice(0, -1).includes('*'), {
  error: 'may have a star at its end only',
});
export const allowedModels = z.array(allowedModel).max(1_000).nullish();

/**
 * A name that an address can carry: `.` and `..` are steps within an address for every client of
 * the web, in these spellings too.
 */
export const keyName = name.refine(
  (given) => !/^(\.|%2e){1,2}$/i.test(given),
  'may not be . or .., which no address can carry as a name',
);

export const status = z.enum(['active', 'expired', 'revoked']);

/** The window of max_budget; without it, or `life`, the key in its life. */
export const budgetWindow = z.enum(['hour', 'day', 'week', 'month', 'life']).nullish();

const limit = z.int().min(1).max(1_000_000_000).nullish();
/** Limits of a key alone, in place of those that a gateway's configuration has for every key. */
export const ownLimits = { rpm: limit, tpm: limit, max_parallel_requests: limit };

/** Whether gateways tell what calls with the key cost. */
export const includeCost = z
  .boolean()
  .optional()
  .describe(
    "Gateways add the cost of a call to its answer's usage, unless the call says otherwise.",
  );

/** How long the value before a rotation works on. */
export const overlapSeconds = z.int().min(0).max(2_592_000).default(0);

/** Refuses (422) an end that is over. */
export function requireFuture(expires_at: Date | null | undefined): void {
  if (!expires_at || expires_at.getTime() > Date.now()) return;
  throw new AppError('invalid_field', 'expires_at must be in the future.', { param: 'expires_at' });
}

/** Refuses (422) a window without a budget. */
export function requireBudget(
  window: string | null | undefined,
  max_budget_nanos: bigint | null,
): void {
  if (!window || window === 'life' || max_budget_nanos !== null) return;
  throw new AppError('invalid_field', 'budget_window needs a max_budget.', {
    param: 'budget_window',
  });
}

/** What only gateway keys have. */
export const gatewayFields = [
  'allowed_models',
  'max_budget',
  'budget_window',
  'rpm',
  'tpm',
  'max_parallel_requests',
  'include_cost',
] as const;
