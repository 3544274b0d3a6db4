import { type Db, many, maybe, one } from '../sql';
import { lockConfigs } from './configs';
import { CALLS_MIN, targetOf, together, verdictOn } from './gates';
import { tell } from './rollout-changes';
import { GroupView, lockRow, type RolloutRow } from './rollout-view';
import * as words from './rollout-words';
import {
  livingGateways,
  movedBy,
  type Rollout,
  type RolloutStatus,
  rollout_columns,
} from './rollouts';

/** How a rollout stands after a step. */
export interface StepResult {
  status: RolloutStatus;
  /** Nothing more will happen. */
  is_over: boolean;
  /** After so long the next step may find something to do; null: only a person can go on. */
  wait_ms: number | null;
  /** What it does, in sentences. */
  summary: string;
  /** What is waited for, in a few words. */
  waits_for: string;
}

const APPLY_LOOK_MS = 1_000;
const SOAK_LOOK_MS = 5_000;

/**
 * Takes a rollout as far as it can go now. Running it again changes nothing that was done. All that
 * it does is in one transaction, in turn with other changes of configurations.
 */
export function step(db: Db, id: string): Promise<StepResult> {
  return db.transaction(async (trx) => {
    await lockConfigs(trx);
    const row = await lockRow(trx, id);
    if (row === undefined)
      return {
        status: 'aborted',
        is_over: true,
        wait_ms: null,
        summary: 'Its row is gone.',
        waits_for: '',
      };
    if (row.ended_at !== null) return over(row, (await movedBy(trx, id)).length);
    const view = await GroupView.read(trx, row);
    return new Step(trx, row, view).run();
  });
}

function over(rollout: Rollout, moved: number): StepResult {
  const { status } = rollout;
  const summary = words.ended(rollout, moved);
  return { status, is_over: true, wait_ms: null, summary, waits_for: '' };
}

/** One step of one rollout. */
class Step {
  private readonly trx: Db;
  private readonly row: RolloutRow;
  private readonly view: GroupView;

  constructor(trx: Db, row: RolloutRow, view: GroupView) {
    this.trx = trx;
    this.row = row;
    this.view = view;
  }

  async run(): Promise<StepResult> {
    const { trx, row, view } = this;
    if (await this.isSuperseded())
      return this.end('superseded', 'superseded', 'A version for all gateways took its place.');
    await view.keepLook(trx);
    const is_paused = row.status === 'paused';
    if (view.isUnheard()) return is_paused ? this.paused(row) : this.waitForReports();
    if (row.stage === 0) return is_paused ? this.paused(row) : this.moveOn(1);
    // A pause keeps gateways from being moved; what was moved is watched as ever.
    const is_recovering = view.isRecovering();
    const failure = view.failureOfMoved() ?? (is_recovering ? undefined : this.failureOfGate());
    if (failure !== undefined) return this.end('rolled_back', ...failure);
    if (is_recovering) await view.beginSoakAnew(trx);
    const behind = row.applied_at === null ? view.notApplied() : [];
    const is_gone = view.moved.length === 0;
    if (row.applied_at === null && behind.length === 0 && !is_gone)
      row.applied_at = await this.applied();
    if (is_paused) return this.paused(row);
    // All that were moved have stopped since: others take their place, and none has proved it yet.
    if (is_gone) return is_recovering ? this.waitForReports() : this.moveOn(row.stage);
    // A promoted one moves all now, whoever of the stage under way is still behind.
    const { unmoved } = await this.living();
    if (row.is_promoted && unmoved.some(({ is_silent }) => !is_silent))
      return this.moveOn(row.stage + 1);
    if (row.applied_at === null)
      return this.waitFor(behind, words.waitsFor(row, view.moved.length, behind));
    if (row.soak_s === 0 || row.is_promoted) return this.moveOn(row.stage + 1);
    if (is_recovering) return this.waitForReports();
    return this.soak(row.applied_at);
  }

  /** Notes that all that were moved have taken the version up. */
  private async applied(): Promise<Date> {
    const { id, now } = this.row;
    await many(this.trx, 'update config_rollouts set applied_at = :now where id = :id', {
      id,
      now,
    });
    return now;
  }

  /** An API of the version before knows no rollouts: what it puts is for all. */
  private async isSuperseded(): Promise<boolean> {
    const newer = await maybe(
      this.trx,
      'select 1 from gateway_configs c where not c.is_staged and c.version > :as_of limit 1',
      { as_of: this.row.as_of_version },
    );
    return newer !== undefined;
  }

  /** Without soak there is no gate; and a stage that is not applied has nothing to be judged by. */
  private failureOfGate(): [code: string, reason: string] | undefined {
    const { row, view } = this;
    if (row.applied_at === null || row.soak_s === 0 || row.is_promoted) return undefined;
    const reason = verdictOn(view.windowsOfMoved(), view.control(), row.max_error_ratio);
    return reason === undefined ? undefined : ['gate_failed', `${words.capital(reason)}.`];
  }

  /** Nothing is judged or moved while the control plane hears of nobody, or only just again. */
  private waitForReports(): StepResult {
    const { row, view } = this;
    const tell = view.isUnheard() ? words.unheard : words.heardAgain;
    const summary = tell(row, view.moved.length);
    const waits_for = 'Until reports of gateways arrive';
    return { status: 'running', is_over: false, wait_ms: APPLY_LOOK_MS, summary, waits_for };
  }

  /** What may have died is not moved: its silence would be the version's fault. */
  private waitForSilent(hosts: readonly string[]): StepResult {
    const { row, view } = this;
    const summary = words.waitsForSilent(row, view.moved.length, hosts);
    const waits_for = 'Until silent gateways report, or are gone';
    return { status: 'running', is_over: false, wait_ms: APPLY_LOOK_MS, summary, waits_for };
  }

  private waitFor(hosts: readonly string[], summary: string): StepResult {
    const who = hosts.length === 1 ? `${hosts[0]} reports` : `${hosts.length} gateways report`;
    const waits_for = `Until ${who} version ${this.row.version}`;
    return { status: 'running', is_over: false, wait_ms: APPLY_LOOK_MS, summary, waits_for };
  }

  /** Waits out the soak, then goes on; too little traffic for a judgement pauses. */
  private async soak(applied_at: Date): Promise<StepResult> {
    const { row, view } = this;
    const windows = view.windowsOfMoved();
    const least = Math.min(...windows.map(({ finished }) => finished));
    const soaked_s = (row.now.getTime() - applied_at.getTime()) / 1_000;
    const left_s = row.soak_s - soaked_s;
    if (left_s <= 0 && least >= CALLS_MIN) return this.moveOn(row.stage + 1);
    if (left_s <= -row.max_wait_s)
      return this.pause('too_little_traffic', words.tooLittle(least, soaked_s));
    const wait_ms =
      left_s > 0 ? Math.min(SOAK_LOOK_MS, Math.max(100, left_s * 1_000)) : APPLY_LOOK_MS;
    return {
      status: 'running',
      is_over: false,
      wait_ms,
      summary:
        left_s > 0
          ? words.soaks(row, together(windows), view.control(), least)
          : words.lacksTraffic(row, view.moved.length, least, left_s + row.max_wait_s),
      waits_for:
        left_s > 0 ? 'Until the soak is over' : `Until each has finished ${CALLS_MIN} calls`,
    };
  }

  /** Begins the next stage, from this one on, that moves something; or completes. */
  private async moveOn(from: number): Promise<StepResult> {
    const { row } = this;
    const { living, unmoved } = await this.living();
    if (living.length === 0)
      return this.pause('no_gateways', 'No gateway of the group is alive. Resume when one is.');
    // The last stage goes on while gateways are left: silent ones report again, others start.
    for (let stage = Math.min(from, row.stages.length); stage <= row.stages.length; stage += 1) {
      const is_last = stage === row.stages.length || row.is_promoted;
      const target = is_last
        ? living.length
        : targetOf(row.stages[stage - 1] ?? '100%', living.length);
      const count = Math.max(0, target - (living.length - unmoved.length));
      const next = unmoved.filter(({ is_silent }) => !is_silent).slice(0, count);
      // What moves nobody is one with the stage before it.
      if (next.length > 0) return this.begin(is_last ? row.stages.length : stage, next);
      // It reports again, or is dead before long.
      if (count > 0) return this.waitForSilent(unmoved.map(({ host }) => host));
    }
    return this.complete();
  }

  /** The gateways of the group that are alive, and those of them that were not moved. */
  private async living() {
    const { trx, row, view } = this;
    const living = await livingGateways(trx, row.group_name);
    const moved = new Set(view.moved.map(({ gateway_id }) => gateway_id));
    return { living, unmoved: living.filter(({ id }) => !moved.has(id)) };
  }

  private async begin(stage: number, next: { id: string; host: string }[]): Promise<StepResult> {
    const { trx, row, view } = this;
    await many(
      trx,
      `insert into config_rollout_gateways (rollout_id, gateway_id, host, stage)
       select :id, g.id, g.host, :stage from jsonb_to_recordset(:next) as g (id text, host text)
       on conflict do nothing`,
      { id: row.id, stage, next: JSON.stringify(next) },
    );
    const changed = await one<Rollout>(
      trx,
      `update config_rollouts r set stage = :stage, stage_began_at = clock_timestamp(), applied_at = null, baselines = :baselines,
         control = :control
       where r.id = :id returning ${rollout_columns}`,
      {
        id: row.id,
        stage,
        baselines: JSON.stringify(view.baselines()),
        control: JSON.stringify(view.control() ?? null),
      },
    );
    await tell(trx, changed, 'stage_began');
    const hosts = next.map(({ host }) => host);
    return this.waitFor(hosts, words.moves(changed, view.moved.length + next.length, hosts));
  }

  private async complete(): Promise<StepResult> {
    const { trx, row } = this;
    // As of its beginning: what came for all since would have superseded it, and what an API of the
    // version before commits at this very moment wins.
    await many(
      trx,
      `insert into gateway_groups as g (name, version, as_of_version)
       values (:group, :version, :as_of)
       on conflict (name) do update set version = excluded.version, as_of_version = excluded.as_of_version,
         changed_at = clock_timestamp()`,
      { group: row.group_name, version: row.version, as_of: row.as_of_version },
    );
    return this.end('completed', null, null);
  }

  private async end(
    status: 'completed' | 'rolled_back' | 'superseded',
    code: string | null,
    reason: string | null,
  ): Promise<StepResult> {
    const ended = await this.set(
      `status = '${status}', ended_at = clock_timestamp()`,
      code,
      reason,
    );
    await tell(this.trx, ended, status);
    return over(ended, this.view.moved.length);
  }

  private async pause(code: string, reason: string): Promise<StepResult> {
    const paused = await this.set(`status = 'paused'`, code, reason);
    await tell(this.trx, paused, 'paused');
    return this.paused(paused);
  }

  private set(set: string, code: string | null, reason: string | null): Promise<Rollout> {
    return one<Rollout>(
      this.trx,
      `update config_rollouts r set ${set}, reason_code = :code, reason = :reason where r.id = :id returning ${rollout_columns}`,
      { id: this.row.id, code, reason },
    );
  }

  private paused(rollout: Rollout): StepResult {
    return {
      status: 'paused',
      is_over: false,
      wait_ms: SOAK_LOOK_MS,
      summary: words.paused(rollout, this.view.moved.length),
      waits_for: 'Until somebody resumes, promotes or aborts it',
    };
  }
}
