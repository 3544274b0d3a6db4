import { type Db, one } from '../sql';

/** Which version every gateway is to run. */
export interface Assignments {
  /** The newest version for all; null if there is none, or it sends gateways to their own files. */
  for_all: number | null;
  /** The versions that groups have since a rollout ended there. */
  groups: Readonly<Record<string, number>>;
  /** The rollouts that go on, by group. */
  rollouts: Readonly<Record<string, ActiveRollout>>;
}

interface ActiveRollout {
  version: number;
  /** The ids of the gateways that it has moved. */
  moved: readonly string[];
}

// What was made for all after a rollout began or ended there wins: also what an API of the version
// before has made, which knows no rollouts.
const assigned = `
  with newest as (
    select c.version, c.config is null as is_none from gateway_configs c where not c.is_staged
    order by c.version desc limit 1
  ), mark as (
    select coalesce((select n.version from newest n), 0) as version
  )
  select (select n.version from newest n where not n.is_none) as for_all,
    (select coalesce(jsonb_object_agg(g.name, g.version), '{}') from gateway_groups g, mark m
     where g.as_of_version >= m.version) as groups,
    (select coalesce(jsonb_object_agg(r.group_name, jsonb_build_object('version', r.version, 'moved',
       (select coalesce(jsonb_agg(w.gateway_id), '[]') from config_rollout_gateways w where w.rollout_id = r.id))), '{}')
     from config_rollouts r, mark m
     where r.status in ('running', 'paused') and r.as_of_version >= m.version) as rollouts`;

/** Which version every gateway is to run now, in one statement. */
export async function readAssignments(db: Db): Promise<Assignments> {
  const { for_all, ...rest } = await one<Omit<Assignments, 'for_all'> & { for_all: bigint | null }>(
    db,
    assigned,
  );
  return { ...rest, for_all: for_all === null ? null : Number(for_all) };
}

/** The version that a gateway is to run; null for its own file. */
export function versionFor(
  { for_all, groups, rollouts }: Assignments,
  { id, group }: { id: string | null; group: string },
): number | null {
  const rollout = Object.hasOwn(rollouts, group) ? rollouts[group] : undefined;
  if (rollout !== undefined && id !== null && rollout.moved.includes(id)) return rollout.version;
  return versionOfGroup({ for_all, groups }, group);
}

/** The version that the gateways of a group run which no rollout has moved. */
export function versionOfGroup(
  { for_all, groups }: Pick<Assignments, 'for_all' | 'groups'>,
  group: string,
): number | null {
  return (Object.hasOwn(groups, group) ? groups[group] : undefined) ?? for_all;
}
