import { type Db, many } from '../sql';
import { type Assignments, readAssignments, versionFor } from './assignments';
import { DEFAULT_GROUP } from './groups';

/** The calls of a gateway that have ended and began with the configuration that it runs. */
export interface Counts {
  finished: number;
  /** Answers of 5xx that the gateway made itself. */
  own_5xx: number;
  /** Answers of 5xx after a provider failed. */
  upstream_5xx: number;
  /** Answers of 4xx that the gateway made itself, but for want of money. */
  refused: number;
  /** Reports that did not reach the control plane. */
  lost_reports: number;
}

/** What a gateway reports of itself. */
export interface Report {
  id: string;
  host: string;
  software_version: string | null;
  /** Null for one of the version before. */
  group_name: string | null;
  /** Null if it runs its own file. */
  config_version: bigint | null;
  config_hash: string;
  refused_version: bigint | null;
  error: string | null;
  is_draining: boolean;
  in_flight: number;
  held: number;
  counts: Counts | null;
  started_at: Date;
}

/** A gateway's process, as it last reported. */
export interface GatewayState extends Report {
  seen_at: Date;
}

/** How a gateway stands to the version that it is to run. */
export const drifts = [
  'in_sync',
  'applying',
  'rejected',
  'drifted',
  'silent',
  'unsupported',
] as const;
export type Drift = (typeof drifts)[number];

/** A gateway with what it is to run. */
export interface FleetMember extends GatewayState {
  group: string;
  desired_version: number | null;
  /** Since when it is to run that, or since its start if that is later. */
  desired_since: Date;
  /** The database's time, by which all of it is dated. */
  now: Date;
}

const columns = `g.id, g.host, g.software_version, g.group_name, g.config_version, g.config_hash, g.refused_version, g.error,
  g.is_draining, g.in_flight, g.held, g.counts, g.started_at, g.seen_at`;

// A process that says nothing for so long has ended: they report every minute at least.
const ENDED_MINUTES = 5;
/** A silent one is shown for so long: one that was killed comes back under another id. */
const LISTED_MINUTES = 10;
const KEPT_DAYS = 1;
/** Three of the intervals in which gateways report; longer ones of the version before. */
const SILENT_S = 60;
const SILENT_BEFORE_S = 180;
/** A gateway that is to run another version has so long to do it. */
const APPLY_S = 60;

/** The gateways that reported lately. */
export function running(db: Db): Promise<GatewayState[]> {
  return many<GatewayState>(
    db,
    `select ${columns} from gateways g where g.seen_at > clock_timestamp() - make_interval(mins => :minutes)
     order by g.started_at, g.id`,
    { minutes: ENDED_MINUTES },
  );
}

/**
 * The gateways that did not say that they stop, each with what it is to run; of one group if that
 * is named. One that is silent is among them for 10 minutes, or for a day if a rollout moved it
 * that has not completed.
 */
export async function fleet(db: Db, group: string | undefined): Promise<FleetMember[]> {
  const assignments = await readAssignments(db);
  const rows = await many<Dated>(
    db,
    `select ${columns}, ${desired_since} as desired_since, clock_timestamp() as now
     from gateways g
     where (:group::text is null or coalesce(g.group_name, :fallback) = :group)
       and (g.seen_at > clock_timestamp() - make_interval(mins => :minutes) or exists (
         select 1 from config_rollout_gateways w join config_rollouts r on r.id = w.rollout_id
         where w.gateway_id = g.id and r.status <> 'completed'))
     order by coalesce(g.group_name, :fallback), g.started_at, g.id`,
    { group: group ?? null, fallback: DEFAULT_GROUP, minutes: LISTED_MINUTES },
  );
  return rows.map((row) => memberOf(row, assignments));
}

// The latest of all that may have changed it.
const desired_since = `greatest(g.started_at,
       (select max(c.created_at) from gateway_configs c where not c.is_staged),
       (select max(o.changed_at) from gateway_groups o where o.name = g.group_name),
       (select max(r.ended_at) from config_rollouts r where r.group_name = g.group_name),
       (select max(w.moved_at) from config_rollout_gateways w where w.gateway_id = g.id))`;

type Dated = GatewayState & Pick<FleetMember, 'desired_since' | 'now'>;

function memberOf(row: Dated, assignments: Assignments): FleetMember {
  const group = row.group_name ?? DEFAULT_GROUP;
  // One of the version before asks without its name.
  const id = row.group_name === null ? null : row.id;
  return { ...row, group, desired_version: versionFor(assignments, { id, group }) };
}

/**
 * How a gateway stands. `expected_hash` is that of the version which it is to run, undefined if
 * nobody here can say.
 */
export function driftOf(
  member: FleetMember,
  { is_supported, expected_hash }: { is_supported: boolean; expected_hash: string | undefined },
): Drift {
  if (!is_supported) return 'unsupported';
  const secondsSince = (time: Date) => (member.now.getTime() - time.getTime()) / 1_000;
  const silent_s = member.group_name === null ? SILENT_BEFORE_S : SILENT_S;
  if (secondsSince(member.seen_at) > silent_s) return 'silent';
  const { desired_version: desired } = member;
  const runs = member.config_version === null ? null : Number(member.config_version);
  if (desired !== null && Number(member.refused_version) === desired) return 'rejected';
  if (runs !== desired)
    return secondsSince(member.desired_since) > APPLY_S ? 'drifted' : 'applying';
  const is_other = expected_hash !== undefined && expected_hash !== member.config_hash;
  return is_other ? 'drifted' : 'in_sync';
}

const fields = `id, host, software_version, group_name, config_version, config_hash, refused_version, error, is_draining, in_flight,
  held, counts, started_at`;

/**
 * Records what a gateway runs and does. A version that it refuses now, and did not before, is told
 * of in an event.
 */
export async function report(db: Db, given: Report): Promise<void> {
  await many(
    db,
    `with before as (
       select g.refused_version from gateways g where g.id = :id
     ), now as (
       insert into gateways as g (${fields})
       values (${fields.replaceAll(/\w+/g, ':$&')})
       on conflict (id) do update set ${updates}, seen_at = clock_timestamp(), silent_at = null
       returning g.refused_version, g.group_name
     )
     select append_event('platform', 'gateway.config_rejected', jsonb_build_object('gateway_id', :id::text, 'host', :host::text,
       'group', coalesce(n.group_name, '${DEFAULT_GROUP}'), 'version', n.refused_version, 'error', :error::text))
     from now n left join before b on true
     where n.refused_version is not null and n.refused_version is distinct from b.refused_version`,
    { ...given, counts: given.counts && JSON.stringify(given.counts) },
  );
}

const updates = fields
  .split(/,\s+/)
  .filter((name) => name !== 'id' && name !== 'started_at')
  // One that has told its group stays in it: a new gateway may have to speak in older words.
  .map((name) =>
    name === 'group_name'
      ? 'group_name = coalesce(excluded.group_name, g.group_name)'
      : `${name} = excluded.${name}`,
  )
  .join(', ');

/** Forgets a gateway that says that it stops. */
export async function forget(db: Db, id: string): Promise<void> {
  await many(db, 'delete from gateways g where g.id = :id', { id });
}

/**
 * Tells of gateways that have fallen silent without a word, each once, and forgets those that did
 * so a day ago. Returns how many were told of.
 */
export async function noteSilent(db: Db): Promise<number> {
  const told = await many(
    db,
    `with silent as (
       update gateways g set silent_at = clock_timestamp()
       where g.silent_at is null and g.seen_at < clock_timestamp() - make_interval(secs =>
         case when g.group_name is null then :before_seconds::int else :seconds::int end)
       returning g.id, g.host, g.group_name, g.seen_at
     )
     select append_event('platform', 'gateway.silent', jsonb_build_object('gateway_id', s.id, 'host', s.host,
       'group', coalesce(s.group_name, '${DEFAULT_GROUP}'), 'seen_at', iso_time(s.seen_at)))
     from silent s`,
    { seconds: SILENT_S, before_seconds: SILENT_BEFORE_S },
  );
  await many(
    db,
    'delete from gateways g where g.seen_at < clock_timestamp() - make_interval(days => :days)',
    { days: KEPT_DAYS },
  );
  return told.length;
}
