import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { killGroup } from './processes';

/**
 * A process as it can be recognised later: a number is used again, a number with its moment of
 * birth is not.
 */
export interface Birth {
  pid: number;
  born: string;
}

/** The birth of a living process; undefined if there is none, or only a zombie. */
export function birthOf(pid: number): Birth | undefined {
  const born = existsSync('/proc/self/stat') ? bornFromProc(pid) : bornFromPs(pid);
  return born === undefined ? undefined : { pid, born };
}

/** True while the very process of this record lives. */
export function isAlive({ pid, born }: Birth): boolean {
  return birthOf(pid)?.born === born;
}

// To PostgreSQL these are a fast and an immediate shutdown; everything else ends by them too.
const SIGNALS = ['SIGINT', 'SIGQUIT'] as const;

/** Ends a process that an earlier run left behind: asks, insists, kills. */
export async function endLeftover(record: Birth): Promise<void> {
  for (const signal of SIGNALS) {
    if (!isAlive(record)) return;
    process.kill(record.pid, signal);
    for (let waited_ms = 0; waited_ms < 3_000 && isAlive(record); waited_ms += 50) await sleep(50);
  }
  if (isAlive(record)) killGroup(record.pid);
}

// In /proc/<pid>/stat the fields after the name in brackets: the first is the state, the twentieth
// the start in clock ticks since boot.
function bornFromProc(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}:${fields[19]}`;
  } catch {
    return undefined;
  }
}

function bornFromPs(pid: number): string | undefined {
  try {
    const line = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [state = '', ...start] = line.trim().split(/\s+/);
    return state === '' || state.startsWith('Z') ? undefined : start.join(' ');
  } catch {
    return undefined;
  }
}
