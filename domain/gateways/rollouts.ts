import { isMadeBefore, type Page, type PageRequest, pageOf } from '../pages';
import { type Db, many, maybe, one } from '../sql';
import type { Stage, Window } from './gates';

export const rolloutStatuses = [
  'running',
  'paused',
  'completed',
  'rolled_back',
  'aborted',
  'superseded',
] as const;
export type RolloutStatus = (typeof rolloutStatuses)[number];

/** A configuration on its way to the gateways of a group. */
export interface Rollout {
  id: string;
  group_name: string;
  version: bigint;
  /** To which moved gateways return; null: their own files. */
  from_version: bigint | null;
  stages: Stage[];
  soak_s: number;
  max_wait_s: number;
  apply_s: number;
  max_error_ratio: number;
  status: RolloutStatus;
  /** `too_little_traffic`, `gateway_rejected`... */
  reason_code: string | null;
  reason: string | null;
  /** Counts from 1; 0 before the first. */
  stage: number;
  is_promoted: boolean;
  stage_began_at: Date | null;
  /** When all gateways that were moved had taken it up. */
  applied_at: Date | null;
  control: Window | null;
  note: string | null;
  created_by: string;
  created_at: Date;
  ended_at: Date | null;
}

/** A gateway that a rollout has moved. */
export interface MovedGateway {
  gateway_id: string;
  host: string;
  stage: number;
  moved_at: Date;
}

export const rollout_columns = `r.id, r.group_name, r.version, r.from_version, r.stages, r.soak_s, r.max_wait_s, r.apply_s, r.max_error_ratio,
  r.status, r.reason_code, r.reason, r.stage, r.is_promoted, r.stage_began_at, r.applied_at, r.control, r.note, r.created_by, r.created_at, r.ended_at`;

/** A gateway that reported within so long is alive. */
export const ALIVE_S = 60;

/** While a rollout goes on all report every 2 s: one that has not for so long is silent. */
export const SILENT_S = 20;

/** Steps are 5 s apart at most, and one may be repeated for some time. */
const ORPHAN_S = 60;

/** A gateway that can be moved, but not while it is silent: it may have died. */
export interface LivingGateway {
  id: string;
  host: string;
  is_silent: boolean;
}

/** The gateways of a group that are alive, in stable order. */
export function livingGateways(db: Db, group: string): Promise<LivingGateway[]> {
  return many(
    db,
    `select g.id, g.host, g.seen_at <= clock_timestamp() - make_interval(secs => :silent) as is_silent from gateways g
     where g.group_name = :group and not g.is_draining and g.seen_at > clock_timestamp() - make_interval(secs => :seconds)
     order by md5(g.id), g.id`,
    { group, seconds: ALIVE_S, silent: SILENT_S },
  );
}

export function get(db: Db, id: string): Promise<Rollout> {
  return one<Rollout>(
    db,
    `select ${rollout_columns} from config_rollouts r where r.id = :id`,
    { id },
    'No rollout',
  );
}

/** Rollouts, newest first. */
export function list(
  db: Db,
  { group, status }: { group?: string | undefined; status?: RolloutStatus | undefined },
  window: PageRequest,
): Promise<Page<Rollout>> {
  return pageOf(
    db,
    {
      select: `select ${rollout_columns}`,
      all: `from config_rollouts r where (:group::text is null or r.group_name = :group)
        and (:status::text is null or r.status = :status) and ${isMadeBefore('r.created_at')}`,
      ordered: 'order by r.created_at desc, r.id desc',
    },
    { group: group ?? null, status: status ?? null },
    window,
  );
}

/** The gateways that a rollout has moved, first ones first. */
export function movedBy(db: Db, id: string): Promise<MovedGateway[]> {
  return many<MovedGateway>(
    db,
    `select w.gateway_id, w.host, w.stage, w.moved_at from config_rollout_gateways w where w.rollout_id = :id
     order by w.stage, w.moved_at, md5(w.gateway_id)`,
    { id },
  );
}

/** False if it has ended. */
export async function isUnfinished(db: Db, id: string): Promise<boolean> {
  const row = await maybe(
    db,
    `select 1 from config_rollouts r where r.id = :id and r.status in ('running', 'paused')`,
    { id },
  );
  return row !== undefined;
}

/**
 * Gives rollouts that go on, and of which no step was taken for a minute, their workflow again; how
 * many.
 */
export async function adoptOrphans(db: Db, limit: number): Promise<number> {
  const adopted = await many(
    db,
    `update config_rollouts r set adopted_at = clock_timestamp()
     from (select q.id from config_rollouts q
       where q.status in ('running', 'paused')
         and greatest(q.stepped_at, q.created_at, q.adopted_at) < clock_timestamp() - make_interval(secs => :seconds)
       order by q.id limit :limit) as o
     where r.id = o.id
     returning send_to_workflow('platform', 'configRollout', r.id, 'wake', jsonb_build_object('rollout_id', r.id))`,
    { limit, seconds: ORPHAN_S },
  );
  return adopted.length;
}

/** The line that operators read of it. */
export async function summary(db: Db, id: string): Promise<string> {
  const rollout = await maybe<Rollout>(
    db,
    `select ${rollout_columns} from config_rollouts r where r.id = :id`,
    { id },
  );
  if (rollout === undefined) return id;
  const { version, group_name, from_version, note: why } = rollout;
  const before = from_version === null ? 'their own files' : `version ${from_version}`;
  return `Configuration ${version} to the gateways of group ${group_name}, which run ${before}${why === null ? '' : `: ${why}`}`;
}
