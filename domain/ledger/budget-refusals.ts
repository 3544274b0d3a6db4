import { AppError } from '../errors';
import { decimalText } from '../money';

/** The budget that refuses a hold. Amounts are decimal text of nanos. */
export interface RefusingBudget {
  id: string;
  owner_type: 'key' | 'user' | 'team' | 'organization';
  owner_id: string;
  window: 'hour' | 'day' | 'week' | 'month' | 'life';
  limit_nanos: string;
  used_nanos: string;
  missing_nanos: string;
  resets_at: string | null;
  currency: string;
}

const owners = {
  key: 'this key',
  user: 'this person',
  team: 'this team',
  organization: 'this organization',
};

/** The refusal (403) of a hold that a budget does not allow. */
export function budgetExceeded({ currency, ...budget }: RefusingBudget): AppError {
  const { id, owner_type, window, resets_at } = budget;
  const [limit, used] = [budget.limit_nanos, budget.used_nanos].map((n) => decimalText(BigInt(n)));
  const when = resets_at === null ? '' : ` Repeat it after ${resets_at}, or ask`;
  return new AppError(
    'key_budget_exceeded',
    `The budget of ${owners[owner_type]} (${id}) allows ${limit} ${currency} ${window === 'life' ? 'in all' : `a ${window}`}, of which ${used} are used or held: that does not cover the estimated cost.${when || ' Ask'} for a larger one.`,
    { extra: { budget } },
  );
}
