import { ApplicationFailure } from '@temporalio/common';
import { isAppError } from '../domain/errors';
import * as reservations from '../domain/reservations';
import { type Db, many, withRetry } from '../domain/sql';

export interface Dependencies {
  db: Db;
}

export type Activities = ReturnType<typeof createActivities>;

/** What workflows may do: activity name to domain function. Each is one idempotent step. */
export function createActivities({ db }: Dependencies) {
  return {
    /** Milliseconds to the organization's next deadline; null where no hold is open. */
    expireHolds: ({ org_id }: { org_id: string }) =>
      refusable(() => withRetry(() => reservations.sweep(db, org_id))),
    /** How many organizations with overdue holds were given their workflow again. */
    adoptOrphanHolds: ({ limit }: { limit: number }) =>
      refusable(() => reservations.adoptOrphans(db, limit)),
    /** Answers under an Idempotency-Key are kept 7 days. */
    forgetStoredAnswers: () => refusable(() => forgetStoredAnswers(db)),
  };
}

async function forgetStoredAnswers(db: Db): Promise<number> {
  const rows = await many(
    db,
    `delete from idempotency_keys where created_at < clock_timestamp() - interval '7 days' returning key`,
  );
  return rows.length;
}

/** The error border: a refusal is final and carries its code as the failure's type; anything else is retried. */
async function refusable<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (isAppError(error) && error.status < 500) {
      throw ApplicationFailure.nonRetryable(error.message, error.code);
    }
    throw error;
  }
}
