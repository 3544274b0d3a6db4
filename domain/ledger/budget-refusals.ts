import { AppError } from '../errors';
import { decimalText } from '../money';
import { type Db, maybe } from '../sql';
import { withArticle } from '../texts';

/** The budget that refuses a hold. Amounts are decimal text of nanos. */
export interface RefusingBudget {
  /** Null for the max_budget of a key in its life, which is no budget of a list. */
  id: string | null;
  owner_type: 'key' | 'user' | 'team' | 'organization';
  owner_id: string;
  window: 'hour' | 'day' | 'week' | 'month' | 'life';
  limit_nanos: string;
  used_nanos: string;
  /** Absent for the max_budget of a key in its life. */
  missing_nanos?: string;
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
  const more =
    id === null ? ' Use another key, or ask for a larger max_budget.' : ' Ask for a larger one.';
  const when = resets_at === null ? '' : ` Repeat it after ${resets_at}, or ask for a larger one.`;
  return new AppError(
    'key_budget_exceeded',
    `The budget of ${owners[owner_type]}${id === null ? '' : ` (${id})`} allows ${limit} ${currency} ${window === 'life' ? 'in all' : withArticle(window)}, of which ${used} are used or held: that does not cover the estimated cost.${when || more}`,
    { extra: { budget } },
  );
}

/**
 * The refusal (403) of a hold that the max_budget of a key does not allow in its life, with what it
 * has spent and holds by now; undefined if it has none any more.
 */
export async function lifeBudgetExceeded(
  db: Db,
  { org_id, key_id }: { org_id: string; key_id: string },
): Promise<AppError | undefined> {
  const found = await maybe<{ limit_nanos: string; used_nanos: string; currency: string }>(
    db,
    `select k.max_budget_nanos::text as limit_nanos, (k.spent_nanos::numeric + k.held_nanos)::text as used_nanos, o.currency
     from tokens k join organizations o on o.id = k.org_id
     where k.id = :key_id and k.org_id = :org_id and k.max_budget_nanos is not null`,
    { org_id, key_id },
  );
  if (found === undefined) return undefined;
  const owner = { id: null, owner_type: 'key', owner_id: key_id } as const;
  return budgetExceeded({ ...owner, ...found, window: 'life', resets_at: null });
}
