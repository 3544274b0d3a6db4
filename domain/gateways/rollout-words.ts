import { CALLS_MIN, percent, type Window } from './gates';
import type { Rollout } from './rollouts';

// What operators read of a rollout in the page of Temporal.

/** Where it stands: "Version 7 to the group default: stage 2 of 3, 2 gateways moved". */
function head({ version, group_name, stage, stages }: Rollout, moved: number): string {
  const gateways = moved === 1 ? '1 gateway' : `${moved} gateways`;
  return `Version ${version} to the group ${group_name}: stage ${stage} of ${stages.length}, ${gateways} moved`;
}

export function moves(rollout: Rollout, moved: number, hosts: readonly string[]): string {
  return `${head(rollout, moved)}. Moves ${hosts.join(', ')}.`;
}

export function waitsFor(rollout: Rollout, moved: number, hosts: readonly string[]): string {
  return `${head(rollout, moved)}. Waits for ${hosts.join(', ')} to report version ${rollout.version}.`;
}

export function waitsForSilent(rollout: Rollout, moved: number, hosts: readonly string[]): string {
  return `${head(rollout, moved)}. Waits for ${hosts.join(', ')} to report again, or to be gone: what is silent is not moved.`;
}

export function unheard(rollout: Rollout, moved: number): string {
  return `${head(rollout, moved)}. No gateway of the group reports at present; nothing is judged without reports.`;
}

export function heardAgain(rollout: Rollout, moved: number): string {
  return `${head(rollout, moved)}. Reports arrive again; the soak begins anew once they have for a while.`;
}

/** `least` is how many calls the least busy of the moved gateways has finished. */
export function soaks(
  rollout: Rollout,
  moved: Window,
  control: Window | undefined,
  least: number,
): string {
  const elsewhere = control === undefined ? 'nothing' : failed(control);
  const calls = `${moved.finished} calls, ${failed(moved)} failed, against ${elsewhere} elsewhere`;
  const soak = `Soaks for ${rollout.soak_s} s: ${calls}`;
  return `${head(rollout, moved.gateways)}. ${soak}; the least busy has finished ${least} of ${CALLS_MIN}.`;
}

function failed({ finished, own_5xx, upstream_5xx }: Window): string {
  return percent(finished === 0 ? 0 : (own_5xx + upstream_5xx) / finished);
}

/** The soak is over, and too few calls were made to judge by; `left_s` until it pauses for that. */
export function lacksTraffic(
  rollout: Rollout,
  moved: number,
  least: number,
  left_s: number,
): string {
  const waits = `Soaked for ${rollout.soak_s} s with too little traffic to be judged: the least busy has finished ${least} of ${CALLS_MIN} calls`;
  return `${head(rollout, moved)}. ${waits}. Pauses in ${Math.max(0, Math.ceil(left_s))} s as too_little_traffic, unless they come; promote it to go on without.`;
}

export function tooLittle(least: number, soaked_s: number): string {
  const calls = `A gateway that was moved has finished ${least} calls in ${Math.round(soaked_s)} s`;
  return `${calls}; ${CALLS_MIN} each are needed. Resume, promote or abort.`;
}

export function paused(rollout: Rollout, moved: number): string {
  return `${head(rollout, moved)}. Paused: ${rollout.reason}`;
}

export function ended(rollout: Rollout, moved: number): string {
  const { status, reason, version, from_version } = rollout;
  const back = from_version === null ? 'their own files' : `version ${from_version}`;
  if (status === 'completed')
    return `${head(rollout, moved)}. Completed: all gateways of the group run version ${version}.`;
  const result = capital(status.replace('_', ' '));
  const returned = status === 'rolled_back' ? ` All that were moved return to ${back}.` : '';
  return `${head(rollout, moved)}. ${result}: ${reason}${returned}`;
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
