import { randomUUID } from 'node:crypto';
import type { Budget } from '../../../domain/ledger/budget-lists';
import * as budgets from '../../../domain/ledger/budgets';
import type { Db } from '../../../domain/sql';
import { TOKEN } from '../../support/ledger';

/** A budget of so many tokens at the test price: of the organization, a month, unless told. */
export function makeBudget(
  db: Db,
  { org_id }: { org_id: string },
  tokens: number,
  more: Partial<Parameters<typeof budgets.create>[1]> = {},
): Promise<Budget> {
  return budgets.create(db, {
    org_id,
    owner_type: 'organization',
    owner_id: org_id,
    limit_nanos: BigInt(tokens) * TOKEN,
    window: 'month',
    on_exceed: 'refuse',
    thresholds: [50, 80, 100],
    created_by: 'test',
    ...more,
  });
}

/** A body hash of its own, so that each refused call has a ticket of its own. */
export function ownBody() {
  return { request_body_hash: `sha256:${randomUUID().replaceAll('-', '').repeat(2)}` };
}

/** Five that count each call of the user, team and key; their limits grow with `scale`. */
export async function makeFiveBudgets(
  db: Db,
  { org_id, user_id, team_id }: { org_id: string; user_id: string; team_id: string },
  key_id: string,
  scale: number,
): Promise<void> {
  const owners = [
    ['key', key_id, 4, 'refuse', 'month'],
    ['user', user_id, 3, 'ticket', 'month'],
    ['team', team_id, 3, 'ticket', 'week'],
    ['organization', org_id, 6, 'refuse', 'day'],
    ['organization', org_id, 5, 'ticket', 'life'],
  ] as const;
  for (const [owner_type, owner_id, hundreds, on_exceed, window] of owners)
    await makeBudget(db, { org_id }, hundreds * scale, { owner_type, owner_id, on_exceed, window });
}
