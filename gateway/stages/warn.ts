import type { BudgetWarning, Warning } from '../../domain/ledger/calls';
import { withArticle } from '../../domain/texts';
import type { Wire } from '../../runtime/wire';
import type { ClientSide } from '../call/client-side';

const HEADER = 'x-svc-warning';

type Told = Wire<BudgetWarning> | Wire<Warning>;

/** Tells the client, in a header each, what its hold has come near to. */
export function warn(ctx: ClientSide, warnings: readonly Told[]): void {
  if (warnings.length > 0) ctx.set(HEADER, warnings.map(words));
}

function words(warning: Told): string {
  if ('warning_type' in warning) {
    const { owner_type, id, threshold_pct, limit, window, used, resets_at } = warning;
    const of = window === 'life' ? `${limit} in all` : `${limit} ${withArticle(window)}`;
    const end = resets_at === null ? '' : `; it begins anew at ${resets_at}`;
    return `budget ${id} of the ${owner_type} has reached ${threshold_pct} % of ${of}: ${used} used or held${end}`;
  }
  const { id, constraint_type, max_value, interval, resets_at } = warning;
  return `usage constraint ${id} is exceeded: ${max_value} ${constraint_type} ${withArticle(interval)}; it begins anew at ${resets_at}`;
}
