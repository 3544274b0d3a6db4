import type { Answer } from '../api/client';
import { type Window, windowWords } from '../fields/window-select';
import { moneyText } from '../parts/money';

// What a field of a key that is left empty gives: of a member's own key the most that their
// organization allows.

type Rules = Pick<Answer<'GET /api/member-keys/:id'>, 'allowed_models' | 'max_budget'>;

const NAMED_MAX = 5;

/** @param rules of members' own keys; undefined: none bound this one. */
export function emptyModels(rules: Rules | undefined): string {
  const allowed = rules?.allowed_models ?? null;
  if (allowed === null) return 'None: every model.';
  if (allowed.length === 0) return 'Your organization allows no model for now.';
  const others = allowed.length - NAMED_MAX;
  const named = allowed.slice(0, NAMED_MAX).join(', ');
  return `None: what your organization allows, ${named}${others > 0 ? ` and ${others} more` : ''}.`;
}

/** What a budget bounds, and what an empty one does. */
export function emptyBudget(
  rules: Rules | undefined,
  { window, currency }: { window: Window; currency: string },
): string {
  const most = rules?.max_budget ?? null;
  const empty =
    most === null
      ? 'no bound of its own'
      : `${moneyText(most, currency)}, which your organization allows`;
  return `The most that it may spend ${windowWords(window)}; empty: ${empty}.`;
}
