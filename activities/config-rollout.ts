import { type StepResult, step } from '../domain/gateways/rollout-steps';
import { type Db, withRetry } from '../domain/sql';

export type ConfigActivities = ReturnType<typeof createConfigActivities>;

/** The activities of configuration rollouts. */
export function createConfigActivities({ db }: { db: Db }) {
  return {
    /** Takes a rollout as far as it can go now. A repeat finds done what was done. */
    stepRollout: ({ rollout_id }: { rollout_id: string }): Promise<StepResult> =>
      withRetry(() => step(db, rollout_id)),
  };
}
