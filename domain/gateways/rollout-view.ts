import { type Db, many, maybe } from '../sql';
import type { Counts, GatewayState } from './fleet';
import { CALLS_MIN, no_counts, since, together, type Window } from './gates';
import {
  ALIVE_S,
  type MovedGateway,
  movedBy,
  type Rollout,
  rollout_columns,
  SILENT_S,
} from './rollouts';

/** A row as its steps need it. */
export type RolloutRow = Rollout & {
  /** The newest version as it began. */
  as_of_version: bigint;
  baselines: Record<string, Baseline>;
  /** Since when reports arrive without a gap, as far as the steps have seen. */
  reports_since: Date | null;
  stepped_at: Date | null;
  now: Date;
};

/** Reads a rollout, and keeps others from changing it until the transaction ends. */
export function lockRow(trx: Db, id: string): Promise<RolloutRow | undefined> {
  return maybe<RolloutRow>(
    trx,
    `select ${rollout_columns}, r.as_of_version, r.baselines, r.reports_since, r.stepped_at, clock_timestamp() as now
     from config_rollouts r where r.id = :id for update`,
    { id },
  );
}

/** What a gateway had counted, of which version, as a stage or its soak began. */
interface Baseline {
  version: number | null;
  counts: Counts;
}

type Member = Pick<
  GatewayState,
  | 'id'
  | 'host'
  | 'config_version'
  | 'refused_version'
  | 'error'
  | 'counts'
  | 'is_draining'
  | 'seen_at'
>;

/** Without a report for so long, from whomever, reports do not arrive at all. */
const GAP_S = 10;

/** The gateways of a rollout's group at one moment. */
export class GroupView {
  /** Those that the rollout has moved and that have not stopped since. */
  readonly moved: readonly MovedGateway[];
  /** All that it has ever moved, also those that drain or have gone. */
  private readonly moved_ids: ReadonlySet<string>;
  private readonly row: RolloutRow;
  private readonly members: ReadonlyMap<string, Member>;
  /** True while reports arrive, of whichever gateway of the group. */
  private readonly is_heard: boolean;
  private readonly reports_since: Date | null;

  private constructor(row: RolloutRow, members: Member[], moved: MovedGateway[]) {
    this.row = row;
    this.members = new Map(members.map((member) => [member.id, member]));
    this.moved_ids = new Set(moved.map(({ gateway_id }) => gateway_id));
    this.moved = moved.filter(
      ({ gateway_id }) => this.members.get(gateway_id)?.is_draining === false,
    );
    this.is_heard = this.ageOf(this.newestReport()) < GAP_S;
    const was_looked_at = row.stepped_at !== null && this.ageOf(row.stepped_at) < 2 * GAP_S;
    const before = was_looked_at ? row.reports_since : null;
    const began = row.stepped_at === null ? row.created_at : row.now;
    this.reports_since = this.is_heard ? (before ?? began) : null;
  }

  static async read(trx: Db, row: RolloutRow): Promise<GroupView> {
    const members = await many<Member>(
      trx,
      `select g.id, g.host, g.config_version, g.refused_version, g.error, g.counts, g.is_draining, g.seen_at
       from gateways g where g.group_name = :group`,
      { group: row.group_name },
    );
    return new GroupView(row, members, await movedBy(trx, row.id));
  }

  /** Keeps for the next step since when reports arrive. */
  async keepLook(trx: Db): Promise<void> {
    await many(
      trx,
      'update config_rollouts set reports_since = :since, stepped_at = :now where id = :id',
      { id: this.row.id, since: this.reports_since, now: this.row.now },
    );
  }

  /** Begins the soak anew: what gateways have done until now counts for nothing. */
  async beginSoakAnew(trx: Db): Promise<void> {
    await many(
      trx,
      `update config_rollouts r set baselines = :baselines, control = :control,
         applied_at = case when r.applied_at is not null then clock_timestamp() end
       where r.id = :id`,
      {
        id: this.row.id,
        baselines: JSON.stringify(this.baselines()),
        control: JSON.stringify(this.control() ?? null),
      },
    );
  }

  /** True while gateways are known and none of them is heard, and not for too long yet. */
  isUnheard(): boolean {
    return this.members.size > 0 && !this.is_heard && !this.isQuiet();
  }

  /**
   * True while reports arrive again and were missing a moment ago: what gateways lost and failed
   * meanwhile says nothing of the version that they run.
   */
  isRecovering(): boolean {
    const { reports_since, row } = this;
    if (reports_since === null || reports_since <= row.created_at) return false;
    return this.ageOf(reports_since) < SILENT_S;
  }

  /** A refusal, a silence, or a version that is not taken up; undefined if all is well. */
  failureOfMoved(): [code: string, reason: string] | undefined {
    const { row } = this;
    for (const moved of this.moved) {
      const failure = this.failureOf(moved);
      if (failure !== undefined) return failure;
    }
    if (this.moved.length > 0 && this.isQuiet())
      return ['no_reports', `No gateway of the group has reported for ${row.max_wait_s} s.`];
    return undefined;
  }

  /** True if nothing has been heard for longer than it may wait. */
  private isQuiet(): boolean {
    // Reports are 2 s apart, so a shorter wait says nothing of silence.
    return this.ageOf(this.newestReport()) > Math.max(this.row.max_wait_s, SILENT_S);
  }

  /** The hosts of moved gateways that do not run the version yet. */
  notApplied(): string[] {
    const isBehind = ({ gateway_id }: MovedGateway) =>
      this.members.get(gateway_id)?.config_version !== this.row.version;
    return this.moved.filter(isBehind).map(({ host }) => host);
  }

  /** What each moved gateway has done in this stage. */
  windowsOfMoved(): Counts[] {
    return this.moved.map(({ gateway_id }) => this.windowOf(gateway_id));
  }

  /**
   * What those have done in this stage that the rollout never moved and that go on. Once only
   * gateways that start are left of them, a few calls say nothing: then it is what the others did
   * in the last stage in which there were some.
   */
  control(): Window | undefined {
    const { row } = this;
    const others = [...this.members.values()].filter(
      ({ id, is_draining, seen_at }) =>
        !this.moved_ids.has(id) && !is_draining && this.ageOf(seen_at) < ALIVE_S,
    );
    const window = together(others.map(({ id }) => this.windowOf(id)));
    const are_late =
      row.stage === row.stages.length || others.every(({ id }) => row.baselines[id] === undefined);
    return window.finished >= (are_late ? CALLS_MIN : 1) ? window : (row.control ?? undefined);
  }

  /** The counts of all, with which a stage begins. */
  baselines(): Record<string, Baseline> {
    const baselineOf = (member: Member): Baseline => ({
      version: versionOf(member),
      counts: member.counts ?? no_counts,
    });
    return Object.fromEntries([...this.members].map(([id, member]) => [id, baselineOf(member)]));
  }

  private failureOf({
    gateway_id,
    host,
    moved_at,
  }: MovedGateway): [code: string, reason: string] | undefined {
    const { version, apply_s } = this.row;
    const member = this.members.get(gateway_id) as Member;
    const name = `Gateway ${host} (${gateway_id})`;
    // A refusal from before it was moved may be of another try.
    if (member.refused_version === version && member.seen_at > moved_at)
      return ['gateway_rejected', `${name} rejected version ${version}: ${member.error}`];
    // While the reports of others arrive: a silence that all share is no gateway's fault.
    if (this.secondsOfReports(member.seen_at) > SILENT_S)
      return ['gateway_silent', `${name} fell silent after it was moved.`];
    const is_behind = member.config_version !== version;
    if (is_behind && this.secondsOfReports(moved_at) > apply_s)
      return ['not_applied', `${name} did not take up version ${version} within ${apply_s} s.`];
    return undefined;
  }

  /** For how long reports have arrived without a gap since a moment. */
  private secondsOfReports(moment: Date): number {
    if (this.reports_since === null) return 0;
    return Math.min(this.ageOf(moment), this.ageOf(this.reports_since));
  }

  private newestReport(): Date {
    const times = [...this.members.values()].map(({ seen_at }) => seen_at.getTime());
    return new Date(Math.max(0, ...times));
  }

  private ageOf(moment: Date): number {
    return (this.row.now.getTime() - moment.getTime()) / 1_000;
  }

  private windowOf(id: string): Counts {
    const member = this.members.get(id);
    const then = this.row.baselines[id];
    // Its counts begin anew with another configuration.
    const is_same = member !== undefined && then?.version === versionOf(member);
    return since(member?.counts ?? no_counts, is_same ? then?.counts : undefined);
  }
}

function versionOf({ config_version }: Pick<Member, 'config_version'>): number | null {
  return config_version === null ? null : Number(config_version);
}
