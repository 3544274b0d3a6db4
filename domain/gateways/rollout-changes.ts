import { AppError } from '../errors';
import { newId } from '../ids';
import { type Db, many, maybe, one } from '../sql';
import { readAssignments, versionOfGroup } from './assignments';
import { find, lockConfigs } from './configs';
import { type Stage, stagesProblem } from './gates';
import { GroupView, lockRow } from './rollout-view';
import { get, livingGateways, type Rollout, rollout_columns } from './rollouts';

/** A rollout that somebody asks for. */
export interface NewRollout {
  version: number;
  group: string;
  /** Absent: 1, 25 % and all; all at once for a version that is older than what the group runs. */
  stages?: Stage[] | undefined;
  /** Absent: 60 s; none for a version that is older than what the group runs. */
  soak_s?: number | undefined;
  max_wait_s: number;
  apply_s: number;
  max_error_ratio: number;
  note: string | null;
  by: string;
}

const STAGES: readonly Stage[] = [1, '25%', '100%'];
const SOAK_S = 60;

/**
 * Throws invalid_field if a group has no living gateway, or the stages cannot be for those that it
 * has; absent ones are those of a newer version.
 */
export async function requireStages(
  db: Db,
  { group, stages = STAGES }: { group: string; stages?: readonly Stage[] | undefined },
): Promise<void> {
  const living = await livingGateways(db, group);
  if (living.length === 0)
    throw invalid(
      'group',
      `The group ${group} has no living gateway of 1.5 or later. GET /v1/admin/gateways shows the group of each.`,
    );
  const problem = stagesProblem(stages, living.length);
  if (problem !== undefined) throw invalid('stages', `stages ${problem}.`);
}

/**
 * Starts a rollout in the transaction; its workflow begins when that commits. One that goes on in
 * the same group is superseded. Throws not_found if there is no such version, invalid_field if it
 * is none of a configuration, the group has no living gateway, or the stages cannot be.
 */
export async function create(trx: Db, given: NewRollout): Promise<Rollout> {
  await lockConfigs(trx);
  const config = await find(trx, given.version);
  if (config === undefined)
    throw new AppError('not_found', `No configuration has the version ${given.version}.`, {
      param: 'version',
    });
  if (config.config === null)
    throw invalid(
      'version',
      `Version ${given.version} sends gateways back to their own files: DELETE /v1/admin/gateway-config does that for all of them.`,
    );
  const before = versionOfGroup(await readAssignments(trx), given.group);
  const is_back = before !== null && given.version < before;
  const stages = given.stages ?? (is_back ? ['100%'] : STAGES);
  await requireStages(trx, { group: given.group, stages });
  await supersede(trx, given.group, `A rollout of version ${given.version} took its place.`);
  const made = await one<Rollout>(
    trx,
    `insert into config_rollouts as r (id, group_name, version, from_version, as_of_version, stages, soak_s, max_wait_s, apply_s,
       max_error_ratio, note, created_by)
     values (:id, :group, :version, :before, (select max(c.version) from gateway_configs c), :stages, :soak_s, :max_wait_s, :apply_s,
       :max_error_ratio, :note, :by)
     returning ${rollout_columns}`,
    {
      ...given,
      id: newId('rollout'),
      before,
      stages: JSON.stringify(stages),
      soak_s: given.soak_s ?? (is_back ? 0 : SOAK_S),
    },
  );
  await note(trx, made, 'created');
  await tell(trx, made, 'started');
  await wake(trx, made.id);
  return made;
}

/** Ends what goes on in a group, or in all, as something newer takes its place. */
export async function supersede(trx: Db, group: string | null, reason: string): Promise<void> {
  const ended = await many<Rollout>(
    trx,
    `update config_rollouts r set status = 'superseded', reason_code = 'superseded', reason = :reason, ended_at = clock_timestamp()
     where r.status in ('running', 'paused') and (:group::text is null or r.group_name = :group) returning ${rollout_columns}`,
    { group, reason },
  );
  for (const rollout of ended) {
    await tell(trx, rollout, 'superseded');
    await wake(trx, rollout.id);
  }
}

export type RolloutAction = 'pause' | 'resume' | 'abort' | 'promote';

// What each action may be done to, what it makes of it, and how that is told of.
const actions = {
  pause: {
    from: ['running'],
    set: `status = 'paused', reason_code = 'paused_by_person', reason = 'Somebody paused it.'`,
    told: 'paused',
  },
  // The soak of its stage begins again: what came before it is judged no more.
  resume: {
    from: ['paused'],
    set: `status = 'running', reason_code = null, reason = null`,
    told: 'resumed',
  },
  abort: {
    from: ['running', 'paused'],
    set: `status = 'aborted', reason_code = 'aborted_by_person', ended_at = clock_timestamp(),
      reason = 'Somebody aborted it; the gateways that were moved return.'`,
    told: 'aborted',
  },
  promote: {
    from: ['running', 'paused'],
    set: `status = 'running', reason_code = null, reason = null, is_promoted = true`,
    told: 'promoted',
  },
} as const;

/**
 * Pauses, resumes, aborts or promotes a rollout in the transaction. An abort returns all gateways
 * that were moved in this one step, whether Temporal answers or not. Throws rollout_state if it is
 * not in a state for that.
 */
export async function act(trx: Db, id: string, action: RolloutAction): Promise<Rollout> {
  const { from, set, told } = actions[action];
  await lockConfigs(trx);
  const was = await get(trx, id);
  const row = action === 'resume' ? await lockRow(trx, id) : undefined;
  if (row?.status === 'paused') await (await GroupView.read(trx, row)).beginSoakAnew(trx);
  const changed = await maybe<Rollout>(
    trx,
    `update config_rollouts r set ${set} where r.id = :id and r.status = any(:from) returning ${rollout_columns}`,
    { id, from: [...from] },
  );
  if (changed === undefined) {
    throw new AppError('rollout_state', `A rollout that is ${was.status} cannot be: ${action}.`);
  }
  await note(trx, changed, told, was);
  await tell(trx, changed, told);
  await wake(trx, id);
  return changed;
}

/** An event for the platform's admins: `config.rollout_paused`. */
export async function tell(trx: Db, rollout: Rollout, what: string): Promise<void> {
  const { id, group_name, version, from_version, status, stage, stages, reason_code, reason } =
    rollout;
  const payload = {
    rollout_id: id,
    group: group_name,
    version: Number(version),
    from_version: from_version === null ? null : Number(from_version),
    status,
    stage,
    stages,
    reason_code,
    reason,
  };
  await many(trx, `select append_event('platform', :type, :payload::jsonb)`, {
    type: `config.rollout_${what}`,
    payload: JSON.stringify(payload),
  });
}

async function note(trx: Db, rollout: Rollout, what: string, was?: Rollout): Promise<void> {
  await many(trx, 'select write_audit_event(null, :action, :id, :before::jsonb, :after::jsonb)', {
    id: rollout.id,
    action: `config_rollout.${what}`,
    before: was ? JSON.stringify(noted(was)) : null,
    after: JSON.stringify(noted(rollout)),
  });
}

function noted({ group_name: group, version, stage, status }: Rollout) {
  return { group, version: Number(version), stage, status };
}

/** Its workflow looks at the row once the transaction commits; one that has ended begins anew. */
async function wake(trx: Db, id: string): Promise<void> {
  await many(
    trx,
    `select send_to_workflow('platform', 'configRollout', :id, 'wake', jsonb_build_object('rollout_id', :id::text))`,
    { id },
  );
}

function invalid(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}
